"""Completion of a measurement for later queries and replays; and answers that need no measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.linear_measurements import build_footprint
from siloquent.explore.plan.reuse.plans import ReusedMechanism, compute_question_digest
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.privacy import FREE


def reads_rows(plan: Plan) -> bool:
    """Return whether ``plan`` requires a measurement."""
    return plan.event != FREE


def build_empty_measurement(plan: Plan) -> StoredMeasurement:
    """Build the empty measurement of a plan that uses only earlier answers."""
    return StoredMeasurement(plan.chosen.name, plan.chosen.form, FREE, (), str(plan.alpha))


def complete_measurement(plan: Plan, measured: StoredMeasurement) -> StoredMeasurement:
    """Complete ``measured`` with the answers that it and earlier ones give, and with the data for later queries."""
    kept = replace(measured, question=compute_question_digest(plan), version=plan.schema.version)
    if plan.chosen.reusable and all(isinstance(matrix, np.ndarray) for matrix in plan.chosen.strategy):
        by_strategy = plan.chosen.form != "answers"
        kept = replace(kept, footprint=build_footprint(plan.compiled, plan.schema, by_strategy=by_strategy))
    chosen = plan.chosen
    if not isinstance(chosen, ReusedMechanism):
        return kept
    kept = replace(kept, label=chosen.label, sources=chosen.sources)
    if chosen.repeated is not None:
        before = chosen.repeated.measured
        return replace(kept, values=before.values, strategy=before.strategy, estimate=before.estimate)
    assert chosen.blend is not None
    return replace(kept, estimate=tuple(chosen.blend.estimate(measured.values)))
