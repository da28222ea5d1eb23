"""The walk of a discovery: plan, reserve, measure, settle, and keep released keys as a domain of the workspace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from siloquent.charge import RESERVED, Charge, EarlierFile, PreparedRelease
from siloquent.discover.kept import DOMAIN, compute_digests, find_lost_release, load_declaration
from siloquent.discover.measure import measure
from siloquent.discover.plan import KeysPlan, plan, restore_plan
from siloquent.discover.release import (
    DiscoveredKeys,
    ProposedBounds,
    pack_bounds,
    pack_keys,
    unpack_bounds,
    unpack_keys,
)
from siloquent.discover.spec import BoundsSpec, DiscoverSpec, KeysSpec, suggest
from siloquent.errors import BudgetExceeded, RequestError, SiloquentError, UnknownName
from siloquent.fixes import FixLike, build_fix, run
from siloquent.ledger import SettledAnswer
from siloquent.privacy import ATTO, ThresholdedGaussian, format_digits, get_accountant
from siloquent.privacy.budget import Budget
from siloquent.releases.guarantees import build_guarantee, build_provenance
from siloquent.schema.domains import get_domain_file, holds_release, write_domain

if TYPE_CHECKING:
    from siloquent.discover.plan import DiscoverPlan
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


@dataclass(frozen=True, slots=True, eq=False)
class PreparedDiscovery(PreparedRelease["DiscoverPlan", "Discovery"]):
    """A discovery, planned once. ``stored``: its release, if the ledger has it already; then ``run`` is free."""

    stored: SettledAnswer | None = None

    def run(self, *, max_cost: str | None = None) -> Discovery:
        """Discover under the key given before, or return what the ledger has already.

        Args:
            max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
        Raises:
            As ``discover``.
        Privacy:
            As ``discover``, with ``plan.event``; a stored release costs nothing.
        """
        if self.stored is not None:
            return self.assemble(self.plan.schema, self.stored)
        try:
            return PreparedRelease.run(self, max_cost=max_cost)
        except BudgetExceeded as refused:
            refused.remedy = build_fix(self.find_shortage() or refused.remedy)
            raise

    def find_shortage(self) -> FixLike | None:
        """Return what to ask instead, or to declare, if the remaining budget does not cover it; None if it does."""
        if self.stored is not None:
            return None
        spec, schema = self.plan.spec, self.plan.schema
        book = get_accountant(schema.budget.accountant)
        cost, left = book.compute_cost(self.plan.event), self.session.get_remaining(spec.table)
        changed: dict[str, object] = {}
        if cost.delta > left.delta:
            if left.delta <= 0:
                return _suggest_more_delta(self.session, schema)
            changed["delta"] = format_digits(Fraction(left.delta, ATTO), 2, up=False)
        if cost.amount > left.amount:
            if left.amount <= 0:
                return _suggest_more_budget(self.session, schema)
            amount = format_digits(Fraction(left.amount, book.scale), up=False)
            changed["budget"] = Budget(rho=amount) if book.symbol == "rho" else Budget(epsilon=amount)
        return suggest(spec, **changed) if changed else None

    def with_key(self, key: str) -> PreparedDiscovery:
        """Return the discovery with an idempotency key that is new."""
        return replace(self, charge=replace(self.charge, key=key))

    @property
    def free_name(self) -> str:
        """A free name for the released domain if the one asked for is taken and would be refused; else empty."""
        spec = self.plan.spec
        if isinstance(spec, BoundsSpec) or self.stored is not None:
            return ""
        return _find_free_name(self.session, spec.domain_name)


def prepare(session: WorkspaceSession, spec: DiscoverSpec, *, key: str | None = None) -> PreparedDiscovery:
    """Plan ``discover`` once: ``plan`` has its price and threshold, and ``run`` discovers. Does not read data.

    What was charged under ``key`` is planned as it was then. Without a key, values that the ledger has and whose file
    is lost are not measured again.

    Raises:
        As ``discover``, except for an insufficient budget.
    """
    try:
        schema, account = session.schema(spec.table), session.get_account(spec.table)
    except UnknownName as unknown:
        if unknown.kind != DOMAIN:
            raise
        schema = load_declaration(session, spec.table)
        stored = find_lost_release(session, schema, spec)
        if stored is None:
            raise
        return _prepare_stored(session, spec, schema, stored)
    digest, earlier = compute_digests(session, account.name, schema, spec)
    charge = Charge(key, account, digest, what="discovery", alike=(EarlierFile(earlier),), table=schema.name)
    held = find_lost_release(session, schema, spec) if key is None else charge.find_existing(session)
    if isinstance(held, SettledAnswer):
        return _prepare_stored(session, spec, schema, held)
    chosen = plan(spec, schema) if held is None else restore_plan(spec, schema, held.event)
    return PreparedDiscovery(
        session, charge, chosen, measure, partial(assemble, spec), rehearse=partial(_rehearse, session, chosen)
    )


def prepare_lost(session: WorkspaceSession, table: str, column: str, name: str | None) -> PreparedDiscovery | None:
    """Prepare the newest release of a column's keys whose file is lost, to write it again; None if none is lost.

    Raises:
        UnknownName: table or column is not declared.
    """
    schema = load_declaration(session, table)
    stored = find_lost_release(session, schema, schema.domain[column].name)
    event = None if stored is None else stored.event
    if stored is None or not isinstance(event, ThresholdedGaussian):
        return None
    amount = Budget(rho=event.l2_squared / (2 * event.variance))
    spec = KeysSpec(schema.name, schema.domain[column].name, amount, keys_each=event.keys, name=name or "")
    return _prepare_stored(session, spec, schema, stored)


def _prepare_stored(
    session: WorkspaceSession, spec: DiscoverSpec, schema: TableSchema, stored: SettledAnswer
) -> PreparedDiscovery:
    charge = Charge(None, session.ledger.get_account(stored.account), "", what="discovery", table=schema.name)
    chosen = restore_plan(spec, schema, stored.event)
    return PreparedDiscovery(session, charge, chosen, measure, partial(assemble, spec), stored=stored)


def assemble(spec: DiscoverSpec, schema: TableSchema, stored: SettledAnswer) -> Discovery:
    """Build the release stored in the ledger: the same at every replay."""
    guarantee, provenance = build_guarantee(schema, stored), build_provenance(schema, stored)
    attribute = schema.domain[spec.column]
    if isinstance(spec, KeysSpec):
        found = unpack_keys(stored.payload, spec.domain_name, guarantee, provenance)
        stays = attribute.kind == "category" and (attribute.null != "value" or attribute.null_value in found.keys)
        return replace(found, null=attribute.to_meaning().null) if stays else found
    return unpack_bounds(stored.payload, attribute, guarantee, provenance)


def save_domain(session: WorkspaceSession, found: DiscoveredKeys) -> DiscoveredKeys:
    """Write released keys as ``domains/NAME.toml``, atomically; a file of the same release is kept.

    If the name was taken since the charge, or its file was edited, the next free name is taken: NAME-2, NAME-3, ...
    Without keys, no file is written, and the name stays free.

    Returns:
        The release under the name that its file has.
    Raises:
        WorkspaceError: the file cannot be written.
    """
    if not found.keys:
        return found
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


def _suggest_more_budget(session: WorkspaceSession, schema: TableSchema) -> FixLike:
    return f"ask the owner of {schema.name} for more budget" if session.analyst else _raise_budget(schema)


def _raise_budget(schema: TableSchema, line: str = "a larger epsilon") -> FixLike:
    return build_fix(f"{line} under [budget] in {schema.budget_file}, then: ", run("budget set", schema.name))


def _suggest_more_delta(session: WorkspaceSession, schema: TableSchema) -> FixLike:
    """Suggest twice the delta of events, and a delta that holds it."""
    if session.analyst is not None:
        return f"ask the owner of {schema.name} for more delta_events"
    events, delta = 2 * schema.budget.delta_events, schema.budget.delta
    line = f'delta_events = "{format_digits(events)}"'
    return _raise_budget(schema, line if events < delta else f'{line} and delta = "{format_digits(2 * delta)}"')


def _rehearse(session: WorkspaceSession, chosen: DiscoverPlan) -> None:
    """Try everything that follows the measurement on made-up results, so that a charge always gives an answer.

    Raises:
        RequestError: the domain's name is taken. WorkspaceError: the workspace's folder cannot be written.
    """
    if not isinstance(chosen, KeysPlan):
        pack_bounds(chosen, chosen.starts * 0)
        return
    pack_keys(chosen, ["made up"])
    spec = chosen.spec
    if free := _find_free_name(session, spec.domain_name):
        raise RequestError(
            f"domains/{spec.domain_name}.toml already exists, and releases are permanent.", fix=suggest(spec, name=free)
        )
    file = get_domain_file(session.workspace.folder, spec.domain_name)
    write_domain(file.with_suffix(".trial"), "")
    file.with_suffix(".trial").unlink(missing_ok=True)


def _find_free_name(session: WorkspaceSession, name: str) -> str:
    """Return the first free name with a number if ``name`` is taken; empty if it is free."""
    file = get_domain_file(session.workspace.folder, name)
    if not file.exists():
        return ""
    taken = {path.stem for path in file.parent.glob("*.toml")}
    return next(other for n in range(2, len(taken) + 3) if (other := _number_name(name, n)) not in taken)
