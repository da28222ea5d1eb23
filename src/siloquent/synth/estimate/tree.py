"""The learner of engine ``tree``: read noisy marginals, fit, choose the next one, draw. It sees noisy numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.fit import GraphicalModel, Target, fit
from siloquent.maths.graphical.marginals import Spreader, condition_beliefs
from siloquent.maths.graphical.tree import JunctionTree
from siloquent.maths.graphical.triangulate import build_mask, count_cells, find_cliques
from siloquent.synth.estimate.enforce.constraints import Tables
from siloquent.synth.estimate.model_domain import ModelDomain, build_model_domain, parse_rates
from siloquent.synth.estimate.report.classifiers import FittedClassifiers, train_classifiers
from siloquent.synth.plan.expected_gain import compute_expected_gain
from siloquent.synth.plan.memory_limit import limit_rows
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.measurements import CandidateMarginals, Measurements, NoisyCounts

if TYPE_CHECKING:
    from siloquent.synth.plan.tree import TreePlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Axes = tuple[int, ...]

EVALUATIONS = 12
"""The number of passes of belief propagation after each round; the next round continues from there."""
LAST_EVALUATIONS = 250
GROWTH = 1 / 3
MAX_CELLS = {2: 20_000, 3: 3_000}
"""The most cells of a marginal of two columns, and of three."""


class TreeLearner:
    """The model while it grows: everything it returns is a function of the plan and of earlier releases."""

    def __init__(self, plan: TreePlan, *, extra: Tables | None = None) -> None:
        self.plan, self.extra = plan, extra
        self._joints: dict[Axes, Target] = {}
        self._frame: ModelDomain | None = None
        self._model: GraphicalModel | None = None
        self._finished = False
        self._excess, self._among = 0, 1
        self._looked: tuple[float, tuple[Axes, ...], JunctionTree] | None = None
        self._learned = 0
        self.rates: dict[int, float] = dict(plan.rates)

    @property
    def frame(self) -> ModelDomain:
        """The domain of the model, from the fine counts."""
        assert self._frame is not None
        return self._frame

    @property
    def model(self) -> GraphicalModel:
        """The current model."""
        assert self._model is not None
        return self._model

    def begin(
        self, fines: Sequence[FineDomain], fine: Sequence[NoisyCounts], tables: Sequence[NoisyCounts]
    ) -> Sequence[Integers]:
        """Build groups and masks from the fine counts, and the model of independent columns."""
        self._frame = build_model_domain(self.plan.compiled, fines, fine, tables, extra=self.extra)
        self._fit(2 * EVALUATIONS)
        return self._frame.groups

    def list_candidates(self, share: float) -> CandidateMarginals:
        """Return unmeasured candidates that keep the model within its size, with the model's expected counts."""
        opened = self._list_open(share, tuple(self._joints), self.model.tree)
        before = [number for number in opened if self.plan.candidates[number] in self.plan.before]
        opened = before or opened
        return CandidateMarginals(
            tuple(opened), self._compute_expected([self.plan.candidates[number] for number in opened])
        )

    def _list_open(self, share: float, joints: tuple[Axes, ...], tree: JunctionTree) -> list[int]:
        """Return the candidates that are open given these joints; if none ever was, the smallest feasible ones."""
        sizes, limit = self.frame.sizes, self.plan.effort.cells * min(1.0, share + GROWTH)
        known = [build_mask(axes) for axes in (*joints, *self.frame.masks)]
        within = [set(clique.attributes) for clique in tree.cliques]

        def size(axes: Axes) -> int:
            held = any(set(axes) <= clique for clique in within)
            return tree.cells if held else count_cells(sizes, find_cliques(sizes, [*known, build_mask(axes)]))

        def own(number: int) -> int:
            return math.prod(sizes[axis] for axis in self.plan.candidates[number])

        left = [number for number, axes in enumerate(self.plan.candidates) if axes not in joints]
        opened = [
            n
            for n in left
            if own(n) <= MAX_CELLS[len(self.plan.candidates[n])] and size(self.plan.candidates[n]) <= limit
        ]
        if opened or joints or not left:
            return opened
        smallest = min(left, key=own)
        return [smallest] if size(self.plan.candidates[smallest]) <= self.plan.effort.cells else []

    def choose_repeated(self) -> int | None:
        """Return the measured candidate with the most total noise; None if no joint could be measured."""
        if not self._joints:
            return None
        worst = max(self._joints.values(), key=lambda joint: joint.values.size * math.sqrt(float(joint.variance)))
        return self.plan.candidates.index(worst.attributes)

    def learn(self, joint: NoisyCounts) -> None:
        """Read one more marginal and continue the fit."""
        names = self.frame.names
        axes = tuple(names.index(name) for name in joint.attributes)
        values, variance = joint.counts.astype(np.float64), float(joint.variance)
        if joint.candidates and axes not in self.plan.before:  # chosen among all that were open
            self._looked = (self._learned / self.plan.rounds, tuple(self._joints), self.model.tree)
            gaps = np.rint(values - self._compute_expected([axes])[0]).astype(np.int64)
            self._excess = compute_expected_gain(gaps, deviation=math.sqrt(variance), loss=self.plan.loss)
            self._among = joint.candidates
        if axes in self._joints:
            known, parts = self._joints[axes], (1 / float(self._joints[axes].variance), 1 / variance)
            values = (known.values * parts[0] + values * parts[1]) / sum(parts)
            variance = 1 / sum(parts)
        self._joints[axes] = Target(axes, values, np.array(variance))
        self._learned += 1
        self._finished = False
        self._fit(EVALUATIONS)

    def bound_rows(self) -> int:
        """Return a lower bound on the number of rows, at least 2: six deviations below the estimate."""
        return self.frame.bound_rows()

    def learn_rates(self, rates: NoisyCounts) -> None:
        """Read the rates of soft constraints that the drawn rows will meet."""
        self.rates.update(parse_rates(rates))

    def finish(self) -> GraphicalModel:
        """Return the model of everything measured, with the final, longer fit."""
        if not self._finished:
            self._fit(LAST_EVALUATIONS)
            self._finished = True
        return self.model

    def count_output(self, marginals: Sequence[Axes]) -> list[NDArray[np.float64]]:
        """Return the counts of the output rows in the groups of these marginals, scaled to the number of rows."""
        return self.frame.count_groups(self._draw_output(), marginals)

    def fit_classifiers(self) -> FittedClassifiers:
        """Return classifiers of the first target, trained on the output rows."""
        assert self.plan.judged is not None
        return train_classifiers(self._draw_output(), self.plan.judged, self.frame.sizes, seed=self.plan.spec.seed)

    def _draw_output(self) -> Integers:
        """Draw the groups of the output rows."""
        from siloquent.synth.estimate.generate import draw_model_rows

        made = draw_model_rows(self.frame, self.finish(), rows=self.rows, seed=self.plan.spec.seed, rates=self.rates)
        return self.frame.find_groups(made)

    def has_measured(self, axes: Axes) -> bool:
        """Return whether the joint of these attributes was measured, on its own or with others."""
        return any(set(axes) <= set(measured) for measured in self._joints)

    def bound_left_out(self, beta: float) -> float:
        """Bound, with probability 1 - ``beta``, the rows that the model had in wrong cells of any open candidate.

        The bound is on rows beyond the apparent effect of noise, at the last choice; that of the chosen candidate
        follows from its noisy counts.
        """
        selection = self.plan.selection
        if not selection.rounds:
            return 0.0
        return max(self._excess, 0) + math.log(max(self._among, 2) / beta) / float(selection.rate)

    @cached_property
    def last_open(self) -> frozenset[Axes]:
        """The candidates that were open at the last choice among all; of other unmeasured ones nothing is known."""
        return frozenset(self.plan.candidates[n] for n in (self._list_open(*self._looked) if self._looked else ()))

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns that the model holds jointly."""
        names = self.frame.names
        return tuple(tuple(names[v] for v in clique.attributes) for clique in self.model.tree.cliques)

    @property
    def rows(self) -> int:
        """The number of output rows: as requested, or as many as the table has and memory holds."""
        asked = self.plan.spec.rows
        return limit_rows(self.frame.rows, len(self.frame.compiled.attributes)) if asked is None else asked

    def _compute_expected(self, candidates: Sequence[Axes]) -> tuple[Floats, ...]:
        """Return expected counts of candidates."""
        named = {self.plan.schema.domain[target].name for target in self.plan.spec.targets}
        targets = frozenset(place for place, name in enumerate(self.frame.names) if name in named)
        shares = compute_expected_shares(self.model, candidates, targets=targets)
        return tuple(self.frame.total * share for share in shares)

    def _fit(self, evaluations: int) -> None:
        start: Mapping[Axes, Floats] = {} if self._model is None else self._model.potentials
        targets = [*self.frame.targets, *self._joints.values()]
        self._model = fit(
            self.frame.sizes,
            targets,
            total=float(self.frame.total),
            masks=self.frame.masks,
            start=start,
            evaluations=evaluations,
        )


def compute_expected_shares(
    model: GraphicalModel, candidates: Sequence[Axes], *, targets: frozenset[int]
) -> list[Floats]:
    """Compute the model's joints of pairs and triples, one axis per attribute; shared parts are computed once.

    A triple is assembled from pairs of the model given each value of its smallest attribute, a target if there is a
    choice. Only one such model at a time is in memory.
    """
    tree = model.tree
    found: list[Floats] = [np.zeros(0)] * len(candidates)
    whole = _Pairs(model, model.beliefs)
    triples: dict[int, list[int]] = {}
    for number, axes in enumerate(candidates):
        if len(axes) == 2:
            found[number] = whole.compute_joint(*axes)
        else:
            by = min(axes, key=lambda axis: (tree.sizes[axis], axis not in targets))
            triples.setdefault(by, []).append(number)
    for by, numbers in triples.items():
        slices: list[list[Floats]] = [[] for _ in numbers]
        for value in range(tree.sizes[by]):
            held = _Pairs(model, condition_beliefs(tree, model.beliefs, by, value))
            for made, number in zip(slices, numbers, strict=True):
                first, second = (axis for axis in candidates[number] if axis != by)
                made.append(held.compute_joint(first, second))
        for made, number in zip(slices, numbers, strict=True):
            found[number] = np.moveaxis(np.stack(made), 0, candidates[number].index(by))
    return found


class _Pairs:
    """Joints of two attributes; those with the same first one come from one pass over the tree."""

    def __init__(self, model: GraphicalModel, beliefs: Sequence[Floats]) -> None:
        self.sizes, self._spreader = model.tree.sizes, Spreader(model.tree, beliefs)
        self._known: dict[int, dict[int, Floats]] = {}

    def compute_joint(self, a: int, b: int) -> Floats:
        """Return P(a, b), shape (size of a, size of b)."""
        if a not in self._known:
            self._known[a] = self._spreader.compute_pairs(a)
        return self._known[a][b].reshape(self.sizes[a], self.sizes[b])


def rebuild_tree_learner(plan: TreePlan, measured: Measurements, *, extra: Tables | None = None) -> TreeLearner:
    """Return the learner at the end of a run, rebuilt step by step from its measurements."""
    learner = TreeLearner(plan, extra=extra)
    learner.begin(rebuild_fine_domains(plan, measured), measured.select_kind("fine"), measured.select_kind("table"))
    for joint in measured.select_kind("joint"):
        learner.learn(joint)
    for rates in measured.select_kind("rates"):
        learner.learn_rates(rates)
    learner.finish()
    return learner


def rebuild_fine_domains(plan: TreePlan, measured: Measurements) -> list[FineDomain]:
    """Return the fine domains at the end of a run."""
    starts = dict(measured.starts)
    return [
        FineDomain(fine.attribute, starts[fine.name], _count_ordered(fine, starts[fine.name]), fine.cuts)
        for fine in plan.fines
    ]


def _count_ordered(fine: FineDomain, starts: Integers) -> int:
    return int((starts < fine.attribute.steps).sum()) if fine.ordered else 0
