"""A measurement with all that later questions and replays need of it; and answers that need no measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from siloquent.explore.plan.cheaper import Drawn, question_of
from siloquent.explore.plan.past import footprint_of
from siloquent.explore.plan.planner import Plan
from siloquent.explore.spec.measured import Measured
from siloquent.privacy import FREE


def reads_rows(plan: Plan) -> bool:
    """Whether anything must be measured for ``plan``."""
    return plan.event != FREE


def nothing_new(plan: Plan) -> Measured:
    """The measurement of a plan that draws from earlier answers alone: none."""
    return Measured(plan.chosen.name, plan.chosen.form, FREE, (), str(plan.alpha))


def completed(plan: Plan, measured: Measured) -> Measured:
    """``measured`` with the answers that it and earlier ones make, and with what later questions draw from."""
    kept = replace(measured, question=question_of(plan), version=plan.schema.version)
    if plan.chosen.reusable and all(isinstance(matrix, np.ndarray) for matrix in plan.chosen.strategy):
        by_strategy = plan.chosen.form != "answers"
        kept = replace(kept, footprint=footprint_of(plan.compiled, plan.schema, by_strategy=by_strategy))
    chosen = plan.chosen
    if not isinstance(chosen, Drawn):
        return kept
    kept = replace(kept, label=chosen.label, sources=chosen.sources)
    if chosen.repeated is not None:
        before = chosen.repeated.measured
        return replace(kept, values=before.values, strategy=before.strategy, estimate=before.estimate)
    assert chosen.blend is not None
    return replace(kept, estimate=tuple(chosen.blend.estimate(measured.values)))
