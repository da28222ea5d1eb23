"""Documents of discoveries: the same on the command line and over HTTP."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from siloquent.discover import DiscoveredKeys, ProposedBounds
    from siloquent.discover.plan import DiscoverPlan
    from siloquent.privacy import Cost


def build_discovery_plan_document(planned: DiscoverPlan, left: Cost, *, is_taken: bool) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/discovery-plan/1``; ``is_taken``: the domain's name is."""
    from siloquent.discover import KeysPlan
    from siloquent.privacy import ATTO, format_digits, get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    keys = planned if isinstance(planned, KeysPlan) else None
    return {
        "schema": "siloquent/discovery-plan/1",
        "table": planned.spec.table,
        "column": planned.spec.column,
        "kind": "bounds" if keys is None else "keys",
        "name": "" if keys is None else keys.spec.domain_name,
        "taken": is_taken,
        "threshold": None if keys is None else keys.event.threshold,
        "sure_from": None if keys is None else keys.sure_from,
        "keys_each": None if keys is None else keys.spec.keys_each,
        "noise_deviation": planned.deviation,
        "symbol": book.symbol,
        "price": format_digits(planned.price, 12),
        "delta": "0" if keys is None else format_digits(keys.event.delta, 12),
        "left_before": format_digits(Fraction(left.amount, book.scale), 12, up=False),
        "delta_left": format_digits(Fraction(left.delta, ATTO), 12, up=False),
        "warning": planned.warning,
        "data_touched": False,
    }


def build_discovery_document(found: DiscoveredKeys | ProposedBounds, file: Path | None, key: str) -> dict[str, Any]:
    """Return a discovery as a document of kind ``siloquent/discovery/1``; ``file``: of a released domain."""
    from siloquent.discover import DiscoveredKeys

    keys = found if isinstance(found, DiscoveredKeys) else None
    lo, hi, below, above = (
        (None, None, None, None)
        if isinstance(found, DiscoveredKeys)
        else (found.lo, found.hi, found.below, found.above)
    )
    return {
        "schema": "siloquent/discovery/1",
        "table": found.table,
        "column": found.column,
        "kind": "bounds" if keys is None else "keys",
        "name": "" if keys is None else keys.name,
        "file": str(file or ""),
        "keys": [] if keys is None else list(keys.keys),
        "threshold": None if keys is None else keys.threshold,
        "at_least": None if keys is None else keys.at_least,
        "keys_each": None if keys is None else keys.keys_each,
        "lo": None if lo is None else str(lo),
        "hi": None if hi is None else str(hi),
        "below": below,
        "above": above,
        "noise_deviation": found.deviation,
        "declaration": found.declaration,
        "guarantee": found.guarantee.describe(),
        "receipt": {
            "ledger": found.provenance.ledger,
            "seq": found.provenance.seq,
            "hash": found.provenance.hash,
            "account": found.provenance.account,
        },
        "key": key,
    }
