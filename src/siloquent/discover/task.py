"""The walk of a discovery: plan, reserve, measure, settle, and keep released keys as a domain of the workspace."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from siloquent.charge import RESERVED, Charge, PreparedRelease, build_guarantee, build_provenance
from siloquent.discover.measure import measure
from siloquent.discover.plan import KeysPlan, plan
from siloquent.discover.release import (
    DiscoveredKeys,
    ProposedBounds,
    pack_bounds,
    pack_keys,
    unpack_bounds,
    unpack_keys,
)
from siloquent.discover.spec import DiscoverSpec, KeysSpec
from siloquent.errors import RequestError, SiloquentError
from siloquent.fixes import RunCommand
from siloquent.schema.domains import get_domain_file, holds_release, write_domain

if TYPE_CHECKING:
    from siloquent.discover.plan import DiscoverPlan
    from siloquent.ledger import Account, SettledAnswer
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession

    Discovery = DiscoveredKeys | ProposedBounds


def discover(
    session: WorkspaceSession, spec: DiscoverSpec, *, key: str | None = None, max_cost: str | None = None
) -> Discovery:
    """Discover keys or bounds of a column.

    Args:
        key: The idempotency key: the same key and spec give the same release at no cost.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Raises:
        SchemaError, RequestError: it is not possible as specified; nothing is spent.
        BudgetExceeded: the price exceeds the remaining budget; nothing is spent.
        DataError: the source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Keys are public from then on. Proof: docs/explanation/discover.md.
    """
    return prepare(session, spec, key=key).run(max_cost=max_cost)


def prepare(
    session: WorkspaceSession, spec: DiscoverSpec, *, key: str | None = None
) -> PreparedRelease[DiscoverPlan, Discovery]:
    """Plan ``discover`` once: ``plan`` has its price and threshold, and ``run`` discovers. Does not read data.

    Raises:
        As ``discover``, except for an insufficient budget.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    chosen = plan(spec, schema)
    charge = Charge(key, account, _compute_digest(session, account, schema, spec), what="discovery")
    return PreparedRelease(
        session, charge, chosen, measure, partial(assemble, spec), rehearse=partial(_rehearse, session, chosen)
    )


def assemble(spec: DiscoverSpec, schema: TableSchema, stored: SettledAnswer) -> Discovery:
    """Build the release stored in the ledger: the same at every replay."""
    guarantee, provenance = build_guarantee(schema, stored), build_provenance(schema, stored)
    if isinstance(spec, KeysSpec):
        return unpack_keys(stored.payload, spec.domain_name, guarantee, provenance)
    return unpack_bounds(stored.payload, schema.domain[spec.column], guarantee, provenance)


def save_domain(session: WorkspaceSession, found: DiscoveredKeys) -> DiscoveredKeys:
    """Write released keys as ``domains/NAME.toml``, atomically; a file of the same release is kept.

    If the name was taken since the charge, or its file was edited, the next free name is taken: NAME-2, NAME-3, ...

    Returns:
        The release under the name that its file has.
    Raises:
        WorkspaceError: the file cannot be written.
    """
    try:
        for number in count(1):
            chosen = found if number == 1 else replace(found, name=_number_name(found.name, number))
            file, text = get_domain_file(session.workspace.folder, chosen.name), chosen.to_toml()
            if write_domain(file, text) or holds_release(file, text):
                return chosen
    except SiloquentError as failed:
        failed.spent = RESERVED
        raise
    raise AssertionError("every name is taken")


def _number_name(name: str, number: int) -> str:
    return f"{name[:57]}-{number}"


def _rehearse(session: WorkspaceSession, chosen: DiscoverPlan) -> None:
    """Try everything that follows the measurement on made-up results, so that a charge always gives an answer.

    Raises:
        RequestError: the domain's name is taken. WorkspaceError: the workspace's folder cannot be written.
    """
    if not isinstance(chosen, KeysPlan):
        pack_bounds(chosen, chosen.starts * 0)
        return
    pack_keys(chosen, ["made up"])
    file = get_domain_file(session.workspace.folder, chosen.spec.domain_name)
    if file.exists():
        raise _build_taken_error(session, chosen.spec.domain_name, chosen.spec.table, chosen.spec.column)
    write_domain(file.with_suffix(".trial"), "")
    file.with_suffix(".trial").unlink(missing_ok=True)


def _build_taken_error(session: WorkspaceSession, name: str, table: str, column: str) -> RequestError:
    taken = {path.stem for path in get_domain_file(session.workspace.folder, name).parent.glob("*.toml")}
    free = next(other for n in range(2, len(taken) + 3) if (other := _number_name(name, n)) not in taken)
    return RequestError(
        f"domains/{name}.toml already exists, and releases are permanent.",
        fix=RunCommand(
            "discover",
            (table, column, "--name", free),
            python=f"session.discover({table!r}, {column!r}, name={free!r})",
        ),
    )


def _compute_digest(session: WorkspaceSession, account: Account, schema: TableSchema, spec: DiscoverSpec) -> str:
    """Return the digest that a key is bound to: of what the measurement depends on.

    The declaration of the column may change afterwards, to use what was found, and the key still gives the release.
    """
    whole = [session.analyst or "", account.name, spec.canonical(), account.unit, account.adjacency, schema.version]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode()).hexdigest()
