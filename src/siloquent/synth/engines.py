"""What differs between the engines ``tree`` and ``chain``: the one place that knows both."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from siloquent.synth.estimate.chain import ChainModel
from siloquent.synth.estimate.chain_learner import ChainLearner, chain_of
from siloquent.synth.estimate.model import TreeModel, model_from
from siloquent.synth.estimate.tree import TreeLearner, model_of
from siloquent.synth.measure import Journal, measure
from siloquent.synth.measure.chain import measure_chain
from siloquent.synth.plan.chain import ChainPlan, plan_chain
from siloquent.synth.plan.tree import TreePlan, plan_tree

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.schema import TableSchema
    from siloquent.synth.estimate.keep import Tables
    from siloquent.synth.spec.measured import Measurements
    from siloquent.synth.spec.spec import SynthSpec

Plan: TypeAlias = TreePlan | ChainPlan
Learner: TypeAlias = TreeLearner | ChainLearner
Model: TypeAlias = TreeModel | ChainModel


def plan(spec: SynthSpec, schema: TableSchema) -> Plan:
    """The plan of ``spec`` by the engine that it names.

    Raises:
        UnknownName, RequestError, ConstraintProblem, AccuracyUnreachable: It cannot be done so.
    """
    return plan_chain(spec, schema) if spec.engine == "chain" else plan_tree(spec, schema)


def learner_for(chosen: Plan, *, extra: Tables) -> Learner:
    """Who reads what a run releases."""
    return ChainLearner(chosen, extra=extra) if isinstance(chosen, ChainPlan) else TreeLearner(chosen, extra=extra)


def measured_by(chosen: Plan, table: PrivateTable, permit: Permit, learner: Learner, journal: Journal) -> Measurements:
    """The whole measurement.

    Privacy:
        ``chosen.event`` in the account's unit and adjacency; see ``measure`` and ``measure_chain``.
    """
    if isinstance(chosen, ChainPlan):
        assert isinstance(learner, ChainLearner)
        return measure_chain(chosen, table, permit, learner, journal)
    assert isinstance(learner, TreeLearner)
    return measure(chosen, table, permit, learner, journal)


def learned(chosen: Plan, measured: Measurements, *, extra: Tables) -> Learner:
    """The learner at the end of a run, from what the run released: the same at every replay."""
    if isinstance(chosen, ChainPlan):
        return chain_of(chosen, measured, extra=extra)
    return model_of(chosen, measured, extra=extra)


def model_by(learner: Learner, sentence: str) -> Model:
    """The model of a run that has ended, with its guarantee in words."""
    if isinstance(learner, ChainLearner):
        return learner.finished().promised(sentence)
    return model_from(learner, sentence)
