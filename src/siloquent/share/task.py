"""The tasks of sharing: plan, reserve, measure, settle. Learning and advice make no release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from siloquent.charge import Charge, PreparedRelease, bind_request, plan_as_charged
from siloquent.errors import NotAllowed, RequestError
from siloquent.fixes import BeOwner, UseOption, build_fix, run
from siloquent.schema import list_bin_rules
from siloquent.share import estimate, measure
from siloquent.share.estimate import Advice, Fit
from siloquent.share.files import assemble
from siloquent.share.model import Model
from siloquent.share.plan import SharePlan, compute_noise_variance, plan
from siloquent.share.spec import Agreement, LearnSpec, ShareSpec, find_differing_attribute
from siloquent.share.spec.encoding import Integers, build_encoding
from siloquent.share.spec.release import ReleasedNoise, ShareRelease
from siloquent.share.trees import DecisionTreePlan

WITHOUT_OWN = "this silo was lost before all workers had its share: its own rows are not in this sum"

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.session import WorkspaceSession

_WITHOUT_OWN = UseOption("shared_only", True, "use_own=False")


def release(
    session: WorkspaceSession, spec: ShareSpec, *, key: str | None = None, max_cost: str | None = None
) -> ShareRelease:
    """Make the release described by ``spec``, with full noise, for other silos to learn from.

    Args:
        key: The idempotency key: the same key and spec give the same release at no cost.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Raises:
        SchemaError, RequestError: The release is not possible as specified; nothing is spent.
        BudgetExceeded: The price exceeds the remaining budget; nothing is spent.
        DataError: The source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Learning from the release is post-processing. Proof: docs/explanation/share.md.
    """
    return prepare(session, spec, key=key).run(max_cost=max_cost)


@plan_as_charged
def prepare(
    session: WorkspaceSession, spec: ShareSpec, *, key: str | None = None
) -> PreparedRelease[SharePlan, ShareRelease]:
    """Plan ``release`` once, to show its price and then to run it under ``key``. Does not read data; free.

    Raises:
        As ``release``, except for an insufficient budget.
    """
    if spec.trust == "sum":
        raise RequestError(
            "A secure sum needs the other silos.",
            fix=build_fix(run("share sum", "SPEC.toml"), ", or ", UseOption("trust", "local")),
        )
    charge = build_charge(session, spec, key=key, max_cost=None)
    return PreparedRelease(session, charge, plan_charged(session, spec, charge), _measure_release, assemble)


def explain(session: WorkspaceSession, spec: ShareSpec) -> SharePlan:
    """Plan ``release`` for its price and noise, without reading data.

    Raises:
        As ``release``, except for an insufficient budget.
    """
    schema = session.schema(spec.table)
    session.get_account(spec.table)
    return plan(spec, schema, seed=derive_skeleton_seed(session, spec))


def plan_charged(session: WorkspaceSession, spec: ShareSpec, charge: Charge) -> SharePlan:
    """Plan as ``explain``; what was charged under the key of ``charge`` is planned as it was then.

    Raises:
        As ``explain``. KeyReused: the key belongs to another request.
    """
    schema = charge.restore_declaration(session, session.schema(spec.table))
    return plan(spec, schema, seed=derive_skeleton_seed(session, spec))


def build_charge(
    session: WorkspaceSession, spec: ShareSpec, *, key: str | None, max_cost: str | None, also: str = ""
) -> Charge:
    """Build the ledger request for a release of ``spec``.

    Args:
        also: Further content of the request: the session of a secure sum.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    asked = json.dumps(dump_spec(spec), sort_keys=True)
    rules = list_bin_rules(schema.domain[name] for name in spec.features)
    parts = "share", asked, also, *rules
    return bind_request(session, account, schema, *parts, key=key, max_cost=max_cost, what="release")


def derive_skeleton_seed(session: WorkspaceSession, spec: ShareSpec) -> int:
    """Derive the public seed of this silo's tree: different at every silo, equal at every retry."""
    return int.from_bytes(hashlib.sha256(f"{spec.public_seed}|{session.ledger.id}".encode()).digest())


def dump_spec(spec: ShareSpec) -> dict[str, object]:
    """Return the spec as a JSON-compatible dictionary: equal specs are equal."""
    plain: dict[str, object] = {name: getattr(spec, name) for name in ShareSpec.__dataclass_fields__}
    tree = {name: getattr(spec.tree, name) for name in spec.tree.__dataclass_fields__}
    return {**plain, "budget": spec.budget.to_dict(), "tree": tree, "features": list(spec.features)}


def _measure_release(chosen: SharePlan, table: PrivateTable, permit: Permit) -> bytes:
    if chosen.tree is not None:
        values = measure.measure_tree(chosen, table, permit)
    else:
        values = {"counts": measure.measure_counts(chosen, table, permit)}
    return build_release(chosen, values).to_bytes()


def build_release(
    chosen: SharePlan, values: dict[str, Integers], members: Sequence[str] = (), notes: Sequence[str] = ()
) -> ShareRelease:
    """Build the release of measured ``values``; ``members``: of a secure sum, which includes all their noise shares."""
    times = Fraction(len(members), chosen.spec.honest or 1) if members else Fraction(1)
    if chosen.tree is None:
        noise = tuple(
            ReleasedNoise(run.length, compute_noise_variance(chosen.noise, run.parameter) * times)
            for run in chosen.runs
        )
    else:
        noise = _list_tree_noise(chosen.tree, values)
    return ShareRelease(
        agreement=chosen.agreement,
        values=values,
        noise=noise,
        event=chosen.event,
        table=chosen.schema.name,
        rows=(chosen.schema.size_hint or 0) * max(len(members), 1),
        members=tuple(members),
        schema_digest=chosen.schema.digest,
        notes=(*chosen.notes, *notes),
    )


def _list_tree_noise(tree: DecisionTreePlan, values: Mapping[str, Integers]) -> tuple[ReleasedNoise, ...]:
    """Return the noise of leaves, one entry for each number of splits above them; then of the levels' counts."""
    classes = tree.classes
    scales = [tree.compute_leaf_scale(splits) for splits in range(tree.spec.h)]
    leaves = [ReleasedNoise(classes, classes * compute_noise_variance("laplace", scale)) for scale in scales]
    return (*leaves, ReleasedNoise(values["levels"].size, compute_noise_variance("laplace", tree.level_scale)))


def learn(session: WorkspaceSession, spec: LearnSpec) -> Model:
    """Learn a model from the others' releases and, with ``use_own``, own rows.

    Raises:
        NotAllowed: An analyst requests the use of the owner's exact rows.
        RequestError: Releases do not fit one another, or this table.
        DataError: The source failed.
    Privacy:
        Free: from releases only, it is post-processing. With own rows the model is not a release, and must stay
            local.
    """
    agreement = spec.releases[0].agreement
    encoding, how = build_encoding(agreement), _build_fit(spec)
    silos = sum(one.silos for one in _list_others(session, spec)) - len(_list_own_sums(session, spec))
    if not spec.use_own:
        shared = _fit_shared(session, spec, None)
        return Model(agreement, shared, "linear" if encoding.is_regression else how.kind, silos, False)
    _check(session, spec)
    own = _read_own(session, spec)
    shared = _fit_shared(session, spec, own)
    stacked = estimate.fit_stacked(encoding, own, shared, how)
    return Model(agreement, stacked, how.kind, silos, holds_own_rows=len(own) > 0)


def advise(session: WorkspaceSession, spec: LearnSpec) -> Advice:
    """Compare a constant, own rows, sharing and stacking, cross-validated on own rows, to advise whether sharing helps.

    Raises:
        As ``learn``.
    Privacy:
        Exact, about the owner's rows, and only for the owner: it is not a release. A silo's decision to join reveals
        one bit about its rows.
    """
    _check(session, spec)
    own = _read_own(session, spec)
    shared = _fit_shared(session, spec, own)
    return estimate.advise(build_encoding(spec.releases[0].agreement), own, shared, _build_fit(spec))


def synthesize(releases: Sequence[ShareRelease], *, rows: int | None = None, seed: int = 0) -> pa.Table:
    """Draw labelled rows from marginals or trees: free, any number of times; equal seeds give equal rows.

    Args:
        rows: The number of rows; None: the number estimated from the releases.
    Raises:
        RequestError: The releases do not fit one another, or cannot give rows (gram, moments).
    Privacy:
        Post-processing of releases.
    """
    if not releases:
        raise RequestError(
            "Rows come from at least one release.", fix=run("share synthesize", "RELEASE", "-o", "ROWS.csv")
        )
    agreement = estimate.check_together(releases)
    rng, encoding = np.random.default_rng(seed), build_encoding(agreement)
    if agreement.method == "tree":
        return estimate.build_table(encoding, estimate.draw_tree_rows(releases, rng, rows))
    return estimate.build_table(encoding, estimate.draw_marginal_rows(estimate.pool_releases(releases), rng, rows))


def _list_others(session: WorkspaceSession, spec: LearnSpec) -> list[ShareRelease]:
    """Return the releases of other tables, where own rows are used, so that the shared model excludes own rows."""
    if not spec.use_own or spec.releases[0].agreement.trust == "sum":
        return list(spec.releases)
    return [one for one in spec.releases if not _is_ours(session, spec, one)]


def _is_ours(session: WorkspaceSession, spec: LearnSpec, one: ShareRelease) -> bool:
    return (one.part.ledger, one.part.account.partition("@")[0]) == (session.ledger.id, spec.table)


def _list_own_sums(session: WorkspaceSession, spec: LearnSpec) -> list[ShareRelease]:
    """Return the secure sums that include this table's rows, where own rows are used."""
    if not spec.use_own or spec.releases[0].agreement.trust != "sum":
        return []
    return [one for one in spec.releases if _is_ours(session, spec, one) and WITHOUT_OWN not in one.notes]


def _check(session: WorkspaceSession, spec: LearnSpec) -> Agreement:
    """Check that the releases agree, and that their label is the requested one; return the agreement."""
    agreement = estimate.check_together(spec.releases)
    if agreement.label.name != spec.label:
        raise RequestError(
            f"The releases are about {agreement.label.name!r}, not {spec.label!r}.",
            fix=UseOption("label", agreement.label.name),
        )
    if agreement.label.is_numeric != (spec.model in (None, "linear")) and spec.model is not None:
        raise RequestError(f"A {spec.model} model does not fit the label {spec.label!r}.", fix="omit model")
    if not _list_others(session, spec):
        raise RequestError(
            "All of these releases are this table's own, so there is no other silo to learn from.",
            fix="name the other silos' releases",
        )
    return agreement


def _fit_shared(session: WorkspaceSession, spec: LearnSpec, own: Integers | None) -> estimate.LinearScore:
    """Fit the model of the others' releases, without the rows ``own`` on which it is evaluated.

    Privacy:
        With ``own`` none: own rows are subtracted exactly from a sum, so the model is only for their owner.
    """
    agreement, others = _check(session, spec), _list_others(session, spec)
    if agreement.method == "tree":
        return estimate.fit_tree_scores(others, np.random.default_rng(spec.seed))
    pooled = estimate.pool_releases(others)
    if own is not None and _list_own_sums(session, spec):
        pooled = replace(pooled, counts=pooled.counts - measure.count_exactly(pooled.layout, own))
    return estimate.fit_shared_scores(pooled)


def _read_own(session: WorkspaceSession, spec: LearnSpec) -> Integers:
    if session.analyst is not None:
        raise NotAllowed(
            "Learning from your own rows uses exact rows: only the owner may do it.",
            fix=build_fix(BeOwner(), ", or ", _WITHOUT_OWN),
        )
    schema, agreement = session.schema(spec.table), spec.releases[0].agreement
    odd = find_differing_attribute(agreement, schema)
    if odd:
        raise RequestError(
            f"{spec.table!r} declares {odd!r} differently than the releases do.",
            fix=build_fix("declare it as the other silos do, or ", _WITHOUT_OWN),
        )
    return measure.read_own_indices(session.open_planned_table(schema), build_encoding(agreement))


def _build_fit(spec: LearnSpec) -> Fit:
    label = spec.releases[0].agreement.label
    return Fit(spec.model or ("linear" if label.is_numeric else "logistic"), spec.folds, spec.seed)
