"""The tasks of search: offer (plan, reserve, measure, settle), find, augment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from siloquent.charge import PreparedRelease, bind_request, plan_as_charged
from siloquent.errors import BudgetExceeded, NotAllowed, RequestError
from siloquent.fixes import BeOwner, UseOption, build_fix, run
from siloquent.search.catalogue import Catalogue
from siloquent.search.estimate.joins_and_unions import find_both
from siloquent.search.estimate.search import ResolvedRequest, find_joins, find_unions, require_candidates
from siloquent.search.estimate.training import LocalRows, ReleasedSums
from siloquent.search.measure import measure, read_local_rows, read_local_table
from siloquent.search.offers import Offer
from siloquent.search.plan import OfferPlan, build_feature, build_join_key, plan
from siloquent.search.release import assemble
from siloquent.search.results import AugmentPlan, SearchResult
from siloquent.search.spec import OfferSpec, RequestSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession


def offer(session: WorkspaceSession, spec: OfferSpec, *, key: str | None = None, max_cost: str | None = None) -> Offer:
    """Release the sums described by ``spec`` once; the offer can be used in any number of searches.

    Args:
        key: The idempotency key: the same key and spec give the same offer at no cost.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Raises:
        SchemaError, RequestError: The offer cannot be made as specified; nothing is spent.
        BudgetExceeded: The price exceeds the remaining budget; nothing is spent.
        DataError: The source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Searches with the offer are post-processing and free.
    """
    return prepare(session, spec, key=key).run(max_cost=max_cost)


@plan_as_charged
def prepare(session: WorkspaceSession, spec: OfferSpec, *, key: str | None = None) -> PreparedRelease[OfferPlan, Offer]:
    """Plan ``offer`` once, to show its price and then to run it under ``key``. Does not read data; free.

    Raises:
        As ``offer``, except for an insufficient budget.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    charge = bind_request(session, account, schema, "search offer", spec.canonical(), key=key, what="offer")
    chosen = plan(spec, charge.restore_declaration(session, schema))
    return PreparedRelease(session, charge, chosen, _measure_release, assemble)


def explain(session: WorkspaceSession, spec: OfferSpec) -> OfferPlan:
    """Plan ``offer`` for its price and noise, without reading data.

    Raises:
        As ``offer``, except for an insufficient budget.
    """
    return prepare(session, spec).plan


def _measure_release(chosen: OfferPlan, table: PrivateTable, permit: Permit) -> bytes:
    measured, features = measure(chosen, table, permit)
    made = Offer(
        table=chosen.schema.name,
        features=features,
        keys=chosen.keys,
        measured=measured,
        steps=chosen.steps,
        noise=chosen.noise,
        parameters=chosen.parameters,
        is_halved=chosen.is_halved,
        event=permit.event,
        owner=chosen.spec.owner,
        request=chosen.spec.canonical(),
        schema_digest=chosen.schema.digest,
        notes=chosen.notes,
    )
    return made.to_bytes()


def find(
    session: WorkspaceSession,
    spec: RequestSpec,
    catalogue: Catalogue,
    *,
    key: str | None = None,
    max_cost: str | None = None,
    prepared: PreparedRelease[OfferPlan, Offer] | None = None,
) -> SearchResult:
    """Find the set of offers that improves the model of ``spec`` most, with intervals and the model.

    Args:
        key, max_cost: As in ``offer``, for platform scoring.
        prepared: The offer of ``spec.build_offer_spec()`` as planned before, with its key; it is not planned again.
    Raises:
        SchemaError, RequestError: The request is not possible as specified; nothing is spent.
        NotAllowed: Local scoring reads exact rows, so only the owner may use it.
        BudgetExceeded, DataError: As ``offer``, for platform scoring.
    Privacy:
        Platform scoring releases the table's moments: one offer, at its price. Local scoring releases nothing and
        is free: its result is exact and for the owner; publishing any of it is a separate release.
    """
    asked = _resolve_request(session, spec)
    if spec.scoring == "platform":
        require_candidates(asked, catalogue.offers)
        try:
            planned = prepared or prepare(session, spec.build_offer_spec(), key=key)
            own = planned.run(max_cost=max_cost)
        except BudgetExceeded as short:
            local = build_fix(UseOption("scoring", "local"), ", which costs the table's owner nothing")
            short.remedy = build_fix("a smaller budget; or ", local)
            raise
        return _search_catalogue(replace(asked, features=own.features), catalogue, _build_released_sums(own), own)
    if session.analyst is not None:
        raise NotAllowed(
            "Local scoring reads exact rows: only the owner may do it.",
            fix=build_fix(BeOwner(), ", or ", UseOption("scoring", "platform"), " with a budget"),
        )
    require_candidates(asked, catalogue.offers)
    rows = read_local_rows(session.table(spec.table), asked.features, asked.keys)
    if len(rows.numbers) < len(asked.columns) + 2:
        raise RequestError(f"The table {spec.table!r} has too few rows that have every key.")
    return _search_catalogue(
        asked, catalogue, LocalRows(rows.numbers, rows.cells, tuple(key.cells for key in asked.keys)), None
    )


def _resolve_request(session: WorkspaceSession, spec: RequestSpec) -> ResolvedRequest:
    schema = session.schema(spec.table)
    features = tuple(build_feature(schema.domain[name]) for name in (*spec.features, spec.target))
    if features[-1].kind == "category":
        raise RequestError(
            f"The target {spec.target!r} is a category; a model predicts a number or a boolean.",
            fix="name another target",
        )
    if spec.model == "poisson" and schema.domain[spec.target].is_numeric and schema.domain[spec.target].lo < 0:  # type: ignore[operator]
        raise RequestError(
            f"A Poisson model needs a non-negative target; {spec.target!r} may be negative.", fix="linear"
        )
    if spec.model == "logistic" and features[-1].steps != 2:
        raise RequestError(f"A logistic model needs a target of two values; {spec.target!r} has more.", fix="linear")
    return ResolvedRequest(spec, features, tuple(build_join_key(key, schema) for key in spec.keys))


def _build_released_sums(own: Offer) -> ReleasedSums:
    keys = range(max(1, len(own.keys)))
    counts, sums = zip(*[own.get_key_sums(i) for i in keys], strict=True)
    second = own.compute_second_moments()
    assert second is not None
    return ReleasedSums(counts, sums, second, own.deviations, own.is_halved)


def _search_catalogue(
    asked: ResolvedRequest, catalogue: Catalogue, training: LocalRows | ReleasedSums, own: Offer | None
) -> SearchResult:
    # A public seed: it splits rows and draws from known noise distributions, and hides nothing.
    rng = np.random.default_rng(20_230_704)
    if set(asked.spec.kinds) == {"join", "union"}:
        found = find_both(asked, catalogue.offers, training, own, rng)
    elif asked.spec.kinds == ("join",):
        found = find_joins(asked, catalogue.offers, training, rng)
    else:
        found = find_unions(asked, catalogue.offers, training, own, rng)
    notes = (*found.notes, *catalogue.list_notes())
    if own is None or own.part is None:
        return replace(found, notes=notes)
    return replace(found, notes=notes, guarantee=own.describe_guarantee(), receipt=own.id)


def augment(session: WorkspaceSession, chosen: AugmentPlan, table: str | None = None) -> pa.Table:
    """Return the table's own rows with the released features and their standard errors, one column each.

    Raises:
        NotAllowed: It shows exact rows, so only the owner may use it.
        SchemaError: The declaration of the table's keys has changed since the plan was made.
    Privacy:
        None: exact rows, for their owner. The features are public releases of others.
    """
    import pyarrow as pa

    if session.analyst is not None:
        raise NotAllowed("augment shows exact rows: only the owner may use it.", fix=BeOwner())
    name = table or chosen.table
    schema = session.schema(name)
    _require_same_keys(schema, chosen)
    rows, cells = read_local_table(session.table(name), tuple(step.key for step in chosen.steps))
    for step, cell in zip(chosen.steps, cells, strict=True):
        has, at = cell >= 0, np.maximum(cell, 0)
        values = np.where(has, step.values[at], step.other)
        errors = np.where(has, step.errors[at], step.other_error)
        for column, numbers in ((step.name, values), (f"{step.name} error", errors)):
            if column in rows.column_names:
                raise RequestError(f"The table {name!r} already has a column {column!r}.", fix="rename it there")
            rows = rows.append_column(column, pa.array(numbers))
    return rows


def _require_same_keys(schema: TableSchema, chosen: AugmentPlan) -> None:
    from siloquent.search.spec import KeyOf

    for step in chosen.steps:
        now = build_join_key(KeyOf(*(part.name for part in step.key.parts)), schema)
        if now.digest != replace(step.key, parent=None).digest or now.name != step.key.name:
            raise RequestError(
                f"The key {step.key.name} of {schema.name!r} is declared differently than when the plan was made.",
                fix=build_fix(run("search find"), " again"),
            )
