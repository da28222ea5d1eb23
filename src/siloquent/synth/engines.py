"""The differences between the engines ``tree`` and ``chain``; the only module that knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from siloquent.synth.estimate.chain.learner import ChainLearner, rebuild_chain_learner
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.enforce.trial import check_consistency
from siloquent.synth.estimate.model import TreeModel, build_tree_model
from siloquent.synth.estimate.tree import TreeLearner, rebuild_tree_learner
from siloquent.synth.measure import StepJournal, measure
from siloquent.synth.measure.chain import measure_chain
from siloquent.synth.plan.chain import ChainPlan, plan_chain
from siloquent.synth.plan.tree import TreePlan, plan_tree

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.schema import TableSchema
    from siloquent.synth.estimate.enforce.constraints import Tables
    from siloquent.synth.spec.measurements import Measurements
    from siloquent.synth.spec.spec import SynthSpec

Plan: TypeAlias = TreePlan | ChainPlan
Learner: TypeAlias = TreeLearner | ChainLearner
Model: TypeAlias = TreeModel | ChainModel


def plan(spec: SynthSpec, schema: TableSchema) -> Plan:
    """Return the plan of ``spec`` by the engine that it names, after a trial of its constraints on made-up rows.

    Raises:
        UnknownName, RequestError, ConstraintProblem, AccuracyUnreachable: The request cannot be fulfilled.
    """
    chosen = plan_chain(spec, schema) if spec.engine == "chain" else plan_tree(spec, schema)
    check_consistency(chosen.compiled, rows=spec.rows)
    return chosen


def create_learner(chosen: Plan, *, extra: Tables) -> Learner:
    """Return the learner that reads the released measurements of a run."""
    return ChainLearner(chosen, extra=extra) if isinstance(chosen, ChainPlan) else TreeLearner(chosen, extra=extra)


def run_measurement(
    chosen: Plan, table: PrivateTable, permit: Permit, learner: Learner, journal: StepJournal
) -> Measurements:
    """Run the whole measurement.

    Privacy:
        ``chosen.event`` in the account's unit and adjacency; see ``measure`` and ``measure_chain``.
    """
    if isinstance(chosen, ChainPlan):
        assert isinstance(learner, ChainLearner)
        return measure_chain(chosen, table, permit, learner, journal)
    assert isinstance(learner, TreeLearner)
    return measure(chosen, table, permit, learner, journal)


def rebuild_learner(chosen: Plan, measured: Measurements, *, extra: Tables) -> Learner:
    """Return the learner at the end of a run, rebuilt from its measurements: the same at every replay."""
    if isinstance(chosen, ChainPlan):
        return rebuild_chain_learner(chosen, measured, extra=extra)
    return rebuild_tree_learner(chosen, measured, extra=extra)


def build_model(learner: Learner, sentence: str) -> Model:
    """Return the model of a finished run, with its guarantee in words."""
    if isinstance(learner, ChainLearner):
        return learner.finish().attach_guarantee(sentence)
    return build_tree_model(learner, sentence)
