"""What is bought of the truth at the end of a run: rates of soft constraints, and how far the output is from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.marginals import Coarse, Wanted
from siloquent.synth.measure.quality import RightKernel, RightOf, distances, right
from siloquent.synth.measure.rates import measured_rates
from siloquent.synth.spec.measured import Noisy

if TYPE_CHECKING:
    from siloquent.synth.measure.progress import Run

Floats = NDArray[np.float64]


class Finished(Protocol):
    """A learner at its end: it sees noisy numbers alone, and shows what will be put out."""

    def least_rows(self) -> int:
        """A number of rows that the table surely has, at least 2, from what was released."""
        ...

    def learn_rates(self, rates: Noisy) -> None:
        """Read the rates of soft constraints."""
        ...

    def output(self, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """What the rows to be put out, scaled to the number of rows, have in the cells of these marginals."""
        ...

    def judges(self) -> RightOf:
        """Classifiers of the first target that learned from the rows to be put out."""
        ...


def truth(run: Run, coarse: Sequence[Coarse], learner: Finished) -> list[Noisy]:
    """The bought rates, then the report."""
    plan = run.plan
    found: list[Noisy] = []
    if plan.rate_noise is not None:
        found.extend(run.journal.step(lambda: _rates(run, learner)))
        learner.learn_rates(found[-1])
    if plan.report:
        found.extend(run.journal.step(lambda: _report(run, coarse, learner)))
    return found


def _rates(run: Run, learner: Finished) -> list[Noisy]:
    plan = run.plan
    assert plan.rate_noise is not None
    return measured_rates(
        run.table,
        run.permit,
        attributes=plan.compiled.attributes,
        constraints=plan.compiled.by_number(plan.bought),
        least=learner.least_rows(),
        noise=plan.rate_noise,
    )


def _report(run: Run, coarse: Sequence[Coarse], learner: Finished) -> list[Noisy]:
    """Distances of single columns and of pairs and, if a target is named, how often classifiers are right."""
    plan = run.plan
    ones: list[tuple[int, ...]] = [(i,) for i in range(len(coarse))]
    sets: list[list[tuple[int, ...]]] = [ones, list(combinations(range(len(coarse)), 2))]
    exact = [run.counts(coarse, [Wanted(axes) for axes in each]) for each in sets]
    output = [learner.output(each) for each in sets]
    found = distances((exact[0], exact[1]), (output[0], output[1]), (plan.report[0], plan.report[1]))
    if len(plan.report) > 2:
        kernel = RightKernel(tuple(plan.compiled.attributes), tuple(coarse), learner.judges())
        counted = run.table.fold(kernel, np.add, list(kernel.columns), run.permit, encoded=True)
        found.append(right(counted, plan.report[2]))
    return found
