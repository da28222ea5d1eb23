"""The walk over the steps of engine ``tree``: measure, let the learner read it, measure what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.journal import Journal
from siloquent.synth.measure.marginals import Coarse, Wanted
from siloquent.synth.measure.progress import Run
from siloquent.synth.measure.selection import choose, noisy, utilities
from siloquent.synth.measure.truth import Finished, truth
from siloquent.synth.plan.fine import split
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy, Offer

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.synth.plan.tree import TreePlan

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Learner(Finished, Protocol):
    """What stands on the other side of the room's door: it sees noisy numbers alone, and says what to look at."""

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """Read the fine counts and FD tables; the group of each run of cells, for every attribute."""
        ...

    def offer(self, share: float) -> Offer:
        """The open candidates, when this share of the rounds is done; none where the model is as large as it may be."""
        ...

    def again(self) -> int | None:
        """The measured candidate that deserves more of the budget most; None without any."""
        ...

    def learn(self, joint: Noisy) -> None:
        """Read one more marginal."""
        ...


def measure(plan: TreePlan, table: PrivateTable, permit: Permit, learner: Learner, journal: Journal) -> Measurements:
    """Measure fine counts and FD tables, then the marginals that ``learner`` gets most wrong, one after the other.

    Raises:
        NotAllowed: The permit is not an open one of this table.
        DataError: The source failed; the charge stands, finished steps stay in the journal.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: adaptive composition of discrete noise on counts and of
        private choices, whose number and noise are fixed by the plan. Proof: docs/explanation/synth.md.
    Source:
        "AIM: An Adaptive and Iterative Mechanism for Differentially Private Synthetic Data" (PVLDB 2022): select,
        measure, fit; with a fixed number of equal rounds, integer noise and bins from released counts.
    """
    run = Run(plan, table, permit, journal)
    fines, counted = first_counts(run)
    coarse = grouped(fines, learner.begin(fines, *counted))
    joints = _joints(run, coarse, learner)
    return run.measured(fines, (*counted[0], *counted[1], *joints, *truth(run, coarse, learner)))


def first_counts(run: Run) -> tuple[tuple[Fine, ...], tuple[tuple[Noisy, ...], tuple[Noisy, ...]]]:
    """The first steps: the fine domains as they ended, their counts, and the FD tables."""
    fines, fine = _fine(run)
    return fines, (fine, _tables(run))


def grouped(fines: Sequence[Fine], groups: Sequence[Integers]) -> list[Coarse]:
    """Every attribute's cells as groups."""
    return [
        Coarse(each.name, each.starts, group, int(group.max()) + 1) for each, group in zip(fines, groups, strict=True)
    ]


def _fine(run: Run) -> tuple[tuple[Fine, ...], tuple[Noisy, ...]]:
    """Fine counts of every attribute; full runs of cells are split and counted again, as often as the plan allows."""
    plan, fines = run.plan, list(run.plan.fines)
    found = list(run.journal.step(lambda: _counted(run, fines)))
    for level in range(1, max(plan.levels)):
        again = [i for i, levels in enumerate(plan.levels) if levels > level]
        finer, new = {}, {}
        for i in again:
            finer[i], new[i] = split(fines[i], found[i].counts, total=float(found[i].counts.sum()))

        def counted(finer: dict[int, Fine] = finer, again: list[int] = again) -> list[Noisy]:
            return _counted(run, [finer[i] for i in again])

        for i, noisy_counts in zip(again, run.journal.step(counted), strict=True):
            kept = found[i].counts[fines[i].of(finer[i].starts)]
            counts = np.where(new[i], noisy_counts.counts, kept)
            found[i] = Noisy("fine", noisy_counts.attributes, counts, noisy_counts.variance)
            fines[i] = finer[i]
    return tuple(fines), tuple(found)


def _counted(run: Run, fines: Sequence[Fine]) -> list[Noisy]:
    """Noisy counts of the runs of these attributes.

    Privacy:
        For each attribute one vector that counts every row once, with the plan's noise for it.
    """
    noises = {fine.name: noise for fine, noise in zip(run.plan.fines, run.plan.one_way, strict=True)}
    coarse = [Coarse(each.name, each.starts, np.arange(len(each.starts)), len(each.starts)) for each in fines]
    exact = run.counts(coarse, [Wanted((i,)) for i in range(len(fines))])
    return [
        Noisy("fine", (each.name,), noisy(counts, noises[each.name]), noises[each.name].variance)
        for each, counts in zip(fines, exact, strict=True)
    ]


def _tables(run: Run) -> tuple[Noisy, ...]:
    """The histogram of each functional dependency whose table is measured."""
    return tuple(noisy_one for i in range(len(run.plan.tables)) for noisy_one in run.journal.step(_table(run, i)))


def _table(run: Run, place: int) -> _Step:
    def made() -> list[Noisy]:
        need, noise = run.plan.tables[place]
        names = (*need.lhs, need.rhs)
        coarse = [Coarse(name, np.arange(n), np.arange(n), n) for name, n in zip(names, need.shape, strict=True)]
        (exact,) = run.counts(coarse, [Wanted(tuple(range(len(names))), need.when)])
        return [Noisy("table", names, noisy(exact, noise), noise.variance, need.constraint)]

    return made


class _Step(Protocol):
    def __call__(self) -> list[Noisy]: ...


def _joints(run: Run, coarse: Sequence[Coarse], learner: Learner) -> list[Noisy]:
    """The chosen marginals."""
    plan = run.plan
    if not plan.rounds:
        return []
    wanted = [Wanted(axes) for axes in plan.candidates]
    exact = run.counts(coarse, wanted)
    found = []
    for number in range(plan.rounds):
        for joint in run.journal.step(_round(run, exact, learner, number / plan.rounds)):
            learner.learn(joint)
            found.append(joint)
    return found


def _round(run: Run, exact: Sequence[Integers], learner: Learner, share: float) -> _Step:
    """Choose one open candidate and count it.

    Privacy:
        One round of ``plan.selection`` and ``plan.noise_of`` the chosen one; where nothing is open, ``plan.joint``
        alone, or nothing at all. A pair of ``plan.before`` is chosen once at most, so its noise is drawn no more often
        than was charged.
    """

    def made() -> list[Noisy]:
        plan = run.plan
        assert plan.joint is not None
        offer = learner.offer(share)
        chosen: int | None
        if offer.candidates:
            open_counts = [exact[candidate] for candidate in offer.candidates]
            scores = utilities(open_counts, offer.expected, deviation=plan.joint.deviation, loss=plan.loss)
            chosen = offer.candidates[choose(scores, selection=plan.selection)]
        else:
            chosen = learner.again()
            if chosen is None:
                return []
        axes = plan.candidates[chosen]
        noise = plan.noise_of(axes, again=not offer.candidates)
        names, counts = tuple(plan.names[axis] for axis in axes), noisy(exact[chosen], noise)
        return [Noisy("joint", names, counts, noise.variance, candidates=len(offer.candidates))]

    return made
