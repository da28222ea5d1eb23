"""The purchases at the end of a run: rates of soft constraints, and the distance of the output from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.marginals import CoarseDomain, MarginalQuery
from siloquent.synth.measure.quality import ClassifierKernel, ClassifiersLike, measure_accuracy, measure_distances
from siloquent.synth.measure.rates import measure_rates
from siloquent.synth.spec.measurements import NoisyCounts

if TYPE_CHECKING:
    from siloquent.synth.measure.progress import Run

Floats = NDArray[np.float64]


class FinishedLearner(Protocol):
    """A learner at the end of its run: it sees noisy numbers only, and returns the output."""

    def bound_rows(self) -> int:
        """Return a lower bound on the number of rows, at least 2, from released numbers."""
        ...

    def learn_rates(self, rates: NoisyCounts) -> None:
        """Read the rates of soft constraints."""
        ...

    def count_output(self, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Return the counts of the output rows in the cells of these marginals, scaled to the number of rows."""
        ...

    def fit_classifiers(self) -> ClassifiersLike:
        """Return classifiers of the first target, trained on the output rows."""
        ...


def measure_comparison(run: Run, coarse: Sequence[CoarseDomain], learner: FinishedLearner) -> list[NoisyCounts]:
    """Measure the bought rates, then the report."""
    plan = run.plan
    found: list[NoisyCounts] = []
    if plan.rate_noise is not None:
        found.extend(run.journal.run_step(lambda: _measure_rates(run, learner)))
        learner.learn_rates(found[-1])
    if plan.report:
        found.extend(run.journal.run_step(lambda: _measure_report(run, coarse, learner)))
    return found


def _measure_rates(run: Run, learner: FinishedLearner) -> list[NoisyCounts]:
    plan = run.plan
    assert plan.rate_noise is not None
    return measure_rates(
        run.table,
        run.permit,
        attributes=plan.compiled.attributes,
        constraints=plan.compiled.select_constraints(plan.bought),
        least=learner.bound_rows(),
        noise=plan.rate_noise,
    )


def _measure_report(run: Run, coarse: Sequence[CoarseDomain], learner: FinishedLearner) -> list[NoisyCounts]:
    """Measure distances of single columns and of pairs and, if a target is named, the accuracy of classifiers."""
    plan = run.plan
    ones: list[tuple[int, ...]] = [(i,) for i in range(len(coarse))]
    sets: list[list[tuple[int, ...]]] = [ones, list(combinations(range(len(coarse)), 2))]
    exact = [run.count_exactly(coarse, [MarginalQuery(axes) for axes in each]) for each in sets]
    output = [learner.count_output(each) for each in sets]
    found = measure_distances((exact[0], exact[1]), (output[0], output[1]), (plan.report[0], plan.report[1]))
    if len(plan.report) > 2:
        kernel = ClassifierKernel(tuple(plan.compiled.attributes), tuple(coarse), learner.fit_classifiers())
        counted = run.table.fold(kernel, np.add, list(kernel.columns), run.permit, encoded=True)
        found.append(measure_accuracy(counted, plan.report[2]))
    return found
