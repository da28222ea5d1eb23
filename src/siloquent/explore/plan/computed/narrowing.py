"""The cells of each attribute that rows passing a condition can have: intervals, read off the declaration alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from siloquent.errors import SiloquentError
from siloquent.explore.plan.cells.classes import build_runs
from siloquent.explore.plan.cells.predicate_evaluation import FALSE, TRUE
from siloquent.explore.plan.computed.plainness import find_plain_attribute
from siloquent.explore.spec.predicate import And, Compare, InList, IsNull, Like, Not, Or, Predicate
from siloquent.schema import Domain

Cells = Mapping[str, tuple[int, int]]
"""The first and last possible cell of each attribute; of those that are not named, all declared ones are."""


def narrow_cells(predicate: Predicate | None, domain: Domain) -> Cells:
    """Return intervals that hold the declared values of every row for which ``predicate`` is TRUE.

    Proof: a test of one attribute is true only in its own cells; AND keeps what both sides allow, and OR is covered by
    the hull of what either side allows.
    """
    return {} if predicate is None else _narrow(predicate, domain, TRUE)


def _narrow(predicate: Predicate, domain: Domain, wanted: np.int8) -> Cells:
    if isinstance(predicate, Not):
        return _narrow(predicate.part, domain, FALSE if wanted == TRUE else TRUE)
    if isinstance(predicate, (And, Or)):
        parts = [_narrow(part, domain, wanted) for part in predicate.parts]
        return _intersect(parts) if isinstance(predicate, And) == (wanted == TRUE) else _cover(parts)
    return _narrow_test(predicate, domain, wanted)


def _narrow_test(test: Compare | InList | Like | IsNull, domain: Domain, wanted: np.int8) -> Cells:
    with suppress(SiloquentError):  # what cannot be planned is refused where it is planned
        name = find_plain_attribute(test, domain)
        if name is None:
            return {}
        attribute = domain[name]
        runs = build_runs(test, attribute)
        ends = np.append(runs.starts[1:], attribute.size + 1)
        chosen = (runs.values == wanted) & (runs.starts < attribute.steps)
        if not chosen.any():
            return {}
        last = min(int(ends[chosen].max()), attribute.steps) - 1
        return {attribute.name: (int(runs.starts[chosen].min()), last)}
    return {}


def _intersect(parts: list[Cells]) -> Cells:
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for name, (low, high) in part.items():
            known = found.get(name, (low, high))
            both = max(known[0], low), min(known[1], high)
            found[name] = both if both[0] <= both[1] else known  # no row passes, so any interval holds them all
    return found


def _cover(parts: list[Cells]) -> Cells:
    if not parts:
        return {}
    names = set(parts[0]).intersection(*parts)
    return {name: (min(part[name][0] for part in parts), max(part[name][1] for part in parts)) for name in names}
