"""The measurement of engine ``tree``: measure, let the learner read, measure what it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.final_comparison import FinishedLearner, measure_comparison
from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.measure.marginals import CoarseDomain, MarginalQuery
from siloquent.synth.measure.progress import Run
from siloquent.synth.measure.selection import add_vector_noise, choose_candidate, compute_utilities
from siloquent.synth.plan.domain_splits import split
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.measurements import CandidateMarginals, Measurements, NoisyCounts

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.synth.plan.tree import TreePlan

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Learner(FinishedLearner, Protocol):
    """The interface of the learner, which sees noisy numbers only and chooses what to measure next."""

    def begin(
        self, fines: Sequence[FineDomain], fine: Sequence[NoisyCounts], tables: Sequence[NoisyCounts]
    ) -> Sequence[Integers]:
        """Read the fine counts and FD tables; return the group of each run of cells, for every attribute."""
        ...

    def list_candidates(self, share: float) -> CandidateMarginals:
        """Return the open candidates after this share of the rounds; none if the model has its maximal size."""
        ...

    def choose_repeated(self) -> int | None:
        """Return the measured candidate that most deserves more budget; None without any."""
        ...

    def learn(self, joint: NoisyCounts) -> None:
        """Read one more marginal."""
        ...


def measure(
    plan: TreePlan, table: PrivateTable, permit: Permit, learner: Learner, journal: StepJournal
) -> Measurements:
    """Measure fine counts and FD tables, then one by one the marginals in which ``learner`` is most wrong.

    Raises:
        NotAllowed: The permit is not an open permit of this table.
        DataError: The source failed; the charge stands, finished steps stay in the journal.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: adaptive composition of discrete noise on counts and of
        private choices, with number and noise fixed by the plan. Proof: docs/explanation/synth.md.
    Source:
        "AIM: An Adaptive and Iterative Mechanism for Differentially Private Synthetic Data" (PVLDB 2022): select,
        measure, fit; with a fixed number of equal rounds, integer noise and bins from released counts.
    """
    run = Run(plan, table, permit, journal)
    fines, counted = measure_first_counts(run)
    coarse = build_coarse_domains(fines, learner.begin(fines, *counted))
    joints = _measure_joints(run, coarse, learner)
    return run.collect_measurements(
        fines, (*counted[0], *counted[1], *joints, *measure_comparison(run, coarse, learner))
    )


def measure_first_counts(
    run: Run,
) -> tuple[tuple[FineDomain, ...], tuple[tuple[NoisyCounts, ...], tuple[NoisyCounts, ...]]]:
    """Run the first steps: return the final fine domains, their counts, and the FD tables."""
    fines, fine = _measure_fine(run)
    return fines, (fine, _measure_tables(run))


def build_coarse_domains(fines: Sequence[FineDomain], groups: Sequence[Integers]) -> list[CoarseDomain]:
    """Return every attribute's cells as groups."""
    return [
        CoarseDomain(each.name, each.starts, group, int(group.max()) + 1)
        for each, group in zip(fines, groups, strict=True)
    ]


def _measure_fine(run: Run) -> tuple[tuple[FineDomain, ...], tuple[NoisyCounts, ...]]:
    """Measure every attribute's fine counts; full runs of cells are split and recounted as often as the plan allows."""
    plan, fines = run.plan, list(run.plan.fines)
    found = list(run.journal.run_step(lambda: _count_runs(run, fines)))
    for level in range(1, max(plan.levels)):
        again = [i for i, levels in enumerate(plan.levels) if levels > level]
        finer, new = {}, {}
        for i in again:
            finer[i], new[i] = split(fines[i], found[i].counts, total=float(found[i].counts.sum()))

        def counted(finer: dict[int, FineDomain] = finer, again: list[int] = again) -> list[NoisyCounts]:
            return _count_runs(run, [finer[i] for i in again])

        for i, noisy_counts in zip(again, run.journal.run_step(counted), strict=True):
            kept = found[i].counts[fines[i].find_runs(finer[i].starts)]
            counts = np.where(new[i], noisy_counts.counts, kept)
            found[i] = NoisyCounts("fine", noisy_counts.attributes, counts, noisy_counts.variance)
            fines[i] = finer[i]
    return tuple(fines), tuple(found)


def _count_runs(run: Run, fines: Sequence[FineDomain]) -> list[NoisyCounts]:
    """Return noisy counts of the runs of these attributes.

    Privacy:
        For each attribute, one vector that counts every row once, with the plan's noise for it.
    """
    noises = {fine.name: noise for fine, noise in zip(run.plan.fines, run.plan.one_way, strict=True)}
    coarse = [CoarseDomain(each.name, each.starts, np.arange(len(each.starts)), len(each.starts)) for each in fines]
    exact = run.count_exactly(coarse, [MarginalQuery((i,)) for i in range(len(fines))])
    return [
        NoisyCounts("fine", (each.name,), add_vector_noise(counts, noises[each.name]), noises[each.name].variance)
        for each, counts in zip(fines, exact, strict=True)
    ]


def _measure_tables(run: Run) -> tuple[NoisyCounts, ...]:
    """Measure the histogram of each functional dependency whose table is measured."""
    return tuple(
        noisy_one for i in range(len(run.plan.tables)) for noisy_one in run.journal.run_step(_build_table_step(run, i))
    )


def _build_table_step(run: Run, place: int) -> _Step:
    def made() -> list[NoisyCounts]:
        need, noise = run.plan.tables[place]
        names = (*need.lhs, need.rhs)
        coarse = [CoarseDomain(name, np.arange(n), np.arange(n), n) for name, n in zip(names, need.shape, strict=True)]
        (exact,) = run.count_exactly(coarse, [MarginalQuery(tuple(range(len(names))), need.when)])
        return [NoisyCounts("table", names, add_vector_noise(exact, noise), noise.variance, need.constraint)]

    return made


class _Step(Protocol):
    def __call__(self) -> list[NoisyCounts]: ...


def _measure_joints(run: Run, coarse: Sequence[CoarseDomain], learner: Learner) -> list[NoisyCounts]:
    """Measure the chosen marginals."""
    plan = run.plan
    if not plan.rounds:
        return []
    wanted = [MarginalQuery(axes) for axes in plan.candidates]
    exact = run.count_exactly(coarse, wanted)
    found = []
    for number in range(plan.rounds):
        for joint in run.journal.run_step(_run_round(run, exact, learner, number / plan.rounds)):
            learner.learn(joint)
            found.append(joint)
    return found


def _run_round(run: Run, exact: Sequence[Integers], learner: Learner, share: float) -> _Step:
    """Choose one open candidate and count it.

    Privacy:
        One round of ``plan.selection`` and ``plan.compute_joint_noise`` of the chosen one; if nothing is open, only
        ``plan.joint``, or nothing at all. A pair of ``plan.before`` is chosen once at most, so its noise is drawn no
        more often than it was charged.
    """

    def made() -> list[NoisyCounts]:
        plan = run.plan
        assert plan.joint is not None
        offer = learner.list_candidates(share)
        chosen: int | None
        if offer.candidates:
            open_counts = [exact[candidate] for candidate in offer.candidates]
            scores = compute_utilities(open_counts, offer.expected, deviation=plan.joint.deviation, loss=plan.loss)
            chosen = offer.candidates[choose_candidate(scores, selection=plan.selection)]
        else:
            chosen = learner.choose_repeated()
            if chosen is None:
                return []
        axes = plan.candidates[chosen]
        noise = plan.compute_joint_noise(axes, again=not offer.candidates)
        names, counts = tuple(plan.names[axis] for axis in axes), add_vector_noise(exact[chosen], noise)
        return [NoisyCounts("joint", names, counts, noise.variance, candidates=len(offer.candidates))]

    return made
