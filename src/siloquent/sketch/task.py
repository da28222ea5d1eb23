"""The tasks of sketches: plan, reserve, measure, settle. Questions read neither rows nor ledger."""

from __future__ import annotations

import secrets  # allowed: a public seed of hash functions, no noise
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, overload

from siloquent.charge import PreparedRelease, bind_request, plan_as_charged
from siloquent.errors import RequestError
from siloquent.sketch import estimate
from siloquent.sketch.measure import measure
from siloquent.sketch.plan import SketchPlan, compute_noise_variance, plan
from siloquent.sketch.release import assemble
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import (
    Anomaly,
    Classify,
    Density,
    DensityEstimate,
    Difference,
    Flags,
    LinearModel,
    Modes,
    Peaks,
    Question,
    Regress,
    Sample,
    SampledPoints,
    SketchSpec,
    Verdicts,
)

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.session import WorkspaceSession


def build(
    session: WorkspaceSession, spec: SketchSpec, *, key: str | None = None, max_cost: str | None = None
) -> Sketch:
    """Build the sketch described by ``spec``, in one pass over the table.

    Args:
        key: The idempotency key: the same key and spec give the same sketch at no cost.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Returns:
        The sketch, which answers any number of questions.
    Raises:
        SchemaError, RequestError, AccuracyUnreachable: The sketch is not possible as specified; nothing is spent.
        BudgetExceeded: The price exceeds the remaining budget; nothing is spent.
        DataError: The source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Questions to the sketch are post-processing and free.
    """
    return prepare(session, spec, key=key).run(max_cost=max_cost)


@plan_as_charged
def prepare(
    session: WorkspaceSession, spec: SketchSpec, *, key: str | None = None
) -> PreparedRelease[SketchPlan, Sketch]:
    """Plan ``build`` once, to show its price and then to run it. Does not read data; free.

    Args:
        key: The idempotency key of the run, from which the public seed of the hash functions follows.
    Raises:
        As ``build``, except for an insufficient budget.
    """
    schema, account = session.schema(spec.table), session.get_account(spec.table)
    asked = spec.canonical(), _compute_file_digest(spec)
    charge = bind_request(session, account, schema, *asked, key=key, what="sketch")
    seed = charge.derive_seed(session)
    schema = charge.restore_declaration(session, schema)
    chosen = plan(spec, schema, seed=draw_public_seed() if seed is None else seed)
    return PreparedRelease(session, charge, chosen, _measure_release, assemble)


def explain(session: WorkspaceSession, spec: SketchSpec) -> SketchPlan:
    """Plan ``build`` for its price and structure, without reading data.

    Raises:
        As ``build``, except for an insufficient budget.
    """
    return prepare(session, spec).plan


def draw_public_seed() -> int:
    """Draw 256 fresh bits for hash functions. They hide nothing and are published with the sketch."""
    return secrets.randbits(256)  # allowed: a public seed of hash functions, no noise


@overload
def ask(sketch: Sketch, question: Density | Difference) -> DensityEstimate: ...
@overload
def ask(sketch: Sketch, question: Classify) -> Verdicts: ...
@overload
def ask(sketch: Sketch, question: Anomaly) -> Flags: ...
@overload
def ask(sketch: Sketch, question: Modes) -> Peaks: ...
@overload
def ask(sketch: Sketch, question: Sample) -> SampledPoints: ...
@overload
def ask(sketch: Sketch, question: Regress) -> LinearModel: ...
def ask(sketch: Sketch, question: Question) -> DensityEstimate | Verdicts | Flags | Peaks | SampledPoints | LinearModel:
    """Answer ``question`` from the sketch only.

    Raises:
        RequestError: The question does not fit the sketch.
    Privacy:
        Post-processing of the release: free, any number of times.
    """
    return _answer(question, sketch)


@singledispatch
def _answer(
    question: object, sketch: Sketch
) -> DensityEstimate | Verdicts | Flags | Peaks | SampledPoints | LinearModel:
    raise RequestError(f"A sketch does not answer {type(question).__name__}.", fix="ask(sketch, Density(points))")


_answer.register(Density)(lambda question, sketch: estimate.estimate_density(sketch, question))
_answer.register(Difference)(lambda question, sketch: estimate.estimate_difference(sketch, question))
_answer.register(Classify)(lambda question, sketch: estimate.classify(sketch, question))
_answer.register(Anomaly)(lambda question, sketch: estimate.find_anomalies(sketch, question))
_answer.register(Modes)(lambda question, sketch: estimate.find_modes(sketch, question))
_answer.register(Sample)(lambda question, sketch: estimate.sample(sketch, question))
_answer.register(Regress)(lambda question, sketch: estimate.regress(sketch, question))


def _compute_file_digest(spec: SketchSpec) -> str:
    from siloquent.sketch.plan import read_hash_plan

    return "" if spec.plan_file is None else read_hash_plan(spec.plan_file).digest


def _measure_release(chosen: SketchPlan, table: PrivateTable, permit: Permit) -> bytes:
    measured = measure(chosen, table, permit)
    size = chosen.size_parameter
    sketch = Sketch(
        plan=chosen.hash_plan,
        counters=measured.counters,
        sizes=measured.sizes,
        noise=chosen.noise,
        parameter=chosen.parameter,
        variance=compute_noise_variance(chosen.noise, chosen.parameter),
        size_variance=Fraction(0) if size is None else compute_noise_variance(chosen.noise, size),
        hits=chosen.hits,
        event=permit.event,
        table=chosen.schema.name,
        request=chosen.spec.canonical(),
        schema_digest=chosen.schema.digest,
        notes=chosen.notes,
    )
    return sketch.to_bytes()
