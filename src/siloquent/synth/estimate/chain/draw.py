"""Row drawing of engine ``chain``, column by column: each value by its model and by the constraints it would break."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ConstraintProblem
from siloquent.maths.pairs.tables import PairTables
from siloquent.synth.estimate.counting import build_pair_tables
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.estimate.enforce.coupling import number_groups
from siloquent.synth.estimate.generate import draw_systematically, refine_cells
from siloquent.synth.estimate.model_domain import ModelDomain
from siloquent.synth.spec.compiled import CompiledConstraint

if TYPE_CHECKING:
    from siloquent.synth.plan.chain import ChainPlan
    from siloquent.synth.spec.network import Network

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MAX_CANDIDATES = 4_096
"""The most cells of a column whose violations are considered while rows are drawn; for more, passes repair rows."""
CHUNK = 2**22
"""The number of probabilities in memory at once."""
REFERENCE_ROWS = 5_000
"""The number of rows that weights refer to: the number of conflicting partners of a value grows with the rows drawn."""
MAX_REFUSALS = 300


class Drawing:
    """Rows while they are drawn: groups and cells of the columns drawn so far, and the values of whole blocks.

    Args:
        first: The distribution of the first block's values, shape (values,).
        networks: The models of the other blocks.
        weights: Of soft constraints, by number, for ``REFERENCE_ROWS`` rows.
    """

    def __init__(
        self,
        plan: ChainPlan,
        frame: ModelDomain,
        *,
        first: Floats,
        networks: Sequence[Network],
        weights: Mapping[int, float],
        rows: int,
        random: np.random.Generator,
    ) -> None:
        self.plan, self.frame, self.random, self.count = plan, frame, random, rows
        self.first, self.networks, self.weights = first, networks, weights
        self.values = np.zeros((rows, len(plan.blocks)), dtype=np.int32)
        self.groups = np.zeros((rows, len(frame.names)), dtype=np.int32)
        self.cells = np.zeros((rows, len(frame.compiled.attributes)), dtype=np.int64)
        self.drawn: set[str] = set()

    def assemble_cells(self) -> Integers:
        """Return all columns, as cells of the plan's attributes, shape (rows, attributes)."""
        for number, block in enumerate(self.plan.blocks):
            for part in range(len(block)):
                self._draw_column(number, part)
            shape = tuple(self.frame.sizes[place] for place in block)
            self.values[:, number] = np.ravel_multi_index(tuple(self.groups[:, place] for place in block), shape)
        return self.cells

    def _draw_column(self, number: int, part: int) -> None:
        """Draw one column of a block for all rows."""
        place = self.plan.blocks[number][part]
        name = self.frame.names[place]
        self.drawn.add(name)
        rules = self._list_completed(name)
        if len(rules) == 1 and rules[0].kind == "dependency" and _get_right_side(rules[0]) == name:
            self._draw_freely(number, part)
            self._repeat_first_seen(rules[0], place)
            return
        tables = self._build_tables(rules, name)
        if tables is None:
            self._draw_freely(number, part)
            return
        weights = np.array([self._get_weight(one) for one in rules])
        stuck = self._draw_aware(tables, number, part, weights, np.arange(self.count), stored=False)
        picks = np.flatnonzero(~stuck)
        again = round(self.plan.chain.resample * self.count)
        if again and len(picks):
            self._draw_aware(tables, number, part, weights, self.random.choice(picks, again), stored=True)

    def _list_completed(self, name: str) -> list[CompiledConstraint]:
        """Return the constraints over two rows that this column completes and that are counted while rows are drawn."""
        by_table = {need.constraint for need in self.frame.compiled.needs}
        found = []
        for one in self.frame.compiled.constraints:
            complete = name in one.attributes and set(one.attributes) <= self.drawn
            binary = one.form is not None and one.form.is_binary
            if binary and complete and one.number not in by_table and self._get_weight(one):
                found.append(one)
        return found

    def _get_weight(self, one: CompiledConstraint) -> float:
        if one.hard:
            return np.inf
        return self.weights.get(one.number, one.weight or 0.0) * REFERENCE_ROWS / self.count

    def _build_tables(self, rules: Sequence[CompiledConstraint], name: str) -> PairTables | None:
        compiled = self.frame.compiled
        if not rules or compiled.sizes[compiled.find_column(name)] > MAX_CANDIDATES:
            return None
        try:
            return build_pair_tables([one.form for one in rules if one.form is not None], compiled, name)
        except ConstraintProblem:
            return None  # Too fine to count while drawing: the passes keep it if it is hard.

    def _compute_probabilities(self, number: int, part: int, at: Integers) -> Floats:
        """Return the distribution of a column's group in the rows ``at``, given the drawn parts of the block, masked.

        Returns:
            Shape (at, groups); each row sums to one.
        """
        frame, block = self.frame, self.plan.blocks[number]
        known = list(block[:part])
        sizes = [frame.sizes[place] for place in known]
        drawn = np.zeros(len(at), dtype=np.int64)
        for place, size in zip(known, sizes, strict=True):
            drawn = drawn * size + self.groups[at, place]
        if number == 0:  # one distribution for all rows, so it is not repeated for each of them
            law = self.first.reshape(math.prod(sizes), -1)[drawn]
        else:
            every = self.networks[number - 1].compute_probabilities(self.values[at])
            law = every.reshape(len(at), math.prod(sizes), -1)[np.arange(len(at)), drawn]
        place = block[part]
        chances = np.asarray(law.reshape(len(at), frame.sizes[place], -1).sum(axis=2), dtype=np.float64)
        for axes, cells in frame.masks.items():
            if place in axes and all(frame.names[axis] in self.drawn for axis in axes):
                index = tuple(
                    np.arange(frame.sizes[place])[None, :] if axis == place else self.groups[at, axis][:, None]
                    for axis in axes
                )
                masked = chances * cells[index]
                empty = masked.sum(axis=1) <= 0
                chances = np.where(empty[:, None], chances, masked)
        total = chances.sum(axis=1, keepdims=True)
        # Where the mask leaves no probability, all groups are equally likely.
        return np.asarray(np.where(total > 0, chances / np.where(total > 0, total, 1.0), 1.0 / chances.shape[1]))

    def _draw_freely(self, number: int, part: int) -> None:
        """Draw by the model only: counts are exact to one in the first block, random in the others."""
        frame, block = self.frame, self.plan.blocks[number]
        place = block[part]
        if number == 0:
            context = number_groups(self.groups[:, list(block[:part])])
            _, at = np.unique(context, return_index=True)
            self.groups[:, place] = draw_systematically(context, self._compute_probabilities(0, part, at), self.random)
        else:
            for at in np.array_split(
                np.arange(self.count), 1 + self.count * len(self._get_value_range(number)) // CHUNK
            ):
                self.groups[at, place] = draw_by_weights(self._compute_probabilities(number, part, at), self.random)
        cells = refine_cells(frame, place, self.groups[:, place], self.random)
        self.cells[:, frame.compiled.find_column(frame.names[place])] = cells

    def _get_value_range(self, number: int) -> range:
        """Return the values of a block."""
        return range(math.prod(self.frame.sizes[place] for place in self.plan.blocks[number]))

    def _repeat_first_seen(self, one: CompiledConstraint, place: int) -> None:
        """Keep a hard functional dependency fast: the value drawn first for a left side is copied to all rows with it.

        Source:
            Thesis, 4.5.3: rows that share a left side have one value that breaks nothing, so it is looked up.
        """
        assert one.form is not None
        compiled = self.frame.compiled
        column = compiled.find_column(self.frame.names[place])
        chosen = np.flatnonzero(build_pair_rule(one.form, compiled.split_columns(self.cells), self.count).first)
        lhs = [test.left.attribute for test in one.form.pairs if test.op == "="]
        known, first, x = np.unique(
            number_groups(self.cells[np.ix_(chosen, compiled.find_columns(lhs))]),
            return_index=True,
            return_inverse=True,
        )
        if len(known):
            self.cells[chosen, column] = self.cells[chosen[first], column][x]
            self.groups[:, place] = self.frame.get_cell_groups(place).find_groups(self.cells[:, column])

    def _draw_aware(
        self, tables: PairTables, number: int, part: int, weights: Floats, order: Integers, *, stored: bool
    ) -> NDArray[np.bool_]:
        """Draw by the model and by each cell's violations; return which rows found no cell that keeps all hard ones."""
        frame, place = self.frame, self.plan.blocks[number][part]
        column, group_of_cell = frame.compiled.find_column(frame.names[place]), frame.list_cell_groups(place)
        inside = _compute_cell_shares(frame, place)
        stuck = np.zeros(self.count, dtype=bool)
        widest = max(len(group_of_cell), len(self._get_value_range(number)))
        for at in np.array_split(order, 1 + len(order) * widest // CHUNK):
            chances = np.ascontiguousarray(self._compute_probabilities(number, part, at)[:, group_of_cell] * inside)
            if self.plan.chain.sampler == "accept-reject" and not stored:
                draw_by_rejection(tables, self.cells, at, weights=weights, chances=chances, random=self.random)
                failed = np.zeros(len(at), dtype=bool)
            else:
                uniforms = self.random.random(len(at))
                failed = tables.draw(self.cells, at, weights=weights, chances=chances, uniforms=uniforms, stored=stored)
            if failed.any() and not stored:
                self.cells[at[failed], column] = draw_by_weights(chances[failed], self.random)
                stuck[at[failed]] = True
            self.groups[at, place] = group_of_cell[self.cells[at, column]]
        return stuck


def draw_by_rejection(
    tables: PairTables,
    cells: Integers,
    at: Integers,
    *,
    weights: Floats,
    chances: Floats,
    random: np.random.Generator,
    refusals: int = MAX_REFUSALS,
) -> None:
    """Draw the target of the rows ``at``, in place, by accepting v ~ chance with exp(-weight x partners).

    Acceptance is relative to the most likely outcome. After ``refusals`` rejections the value is drawn from the
    distribution itself, so the distribution equals that of ``PairTables.draw`` in any case.

    Args:
        cells: Shape (rows, columns), int64 and contiguous.
        weights: Finite ones, shape (rules,).
        chances: Probabilities, one line for each entry of ``at``, shape (steps, values).
    Source:
        Thesis, experiment 6, whose code never checks what it draws.
    """
    laws = np.cumsum(chances, axis=1)
    for line, chance, row in zip(laws, chances, at, strict=True):
        energy = weights @ tables.count_broken(cells[row])
        accept = np.exp(energy.min() - energy)
        for _ in range(refusals):
            value = _draw_index(line, random)
            if random.random() < accept[value]:
                break
        else:
            value = _draw_index(np.cumsum(chance * accept), random)
        cells[row, tables.target] = value
        tables.add(cells[row : row + 1])


def _draw_index(line: Floats, random: np.random.Generator) -> int:
    return min(int(np.searchsorted(line, random.random() * line[-1], side="right")), len(line) - 1)


def draw_by_weights(chances: Floats, random: np.random.Generator) -> Integers:
    """Draw one value for each line of weights."""
    laws = np.cumsum(chances, axis=1)
    wanted = random.random(len(laws)) * laws[:, -1]
    return np.asarray(np.minimum((laws <= wanted[:, None]).sum(axis=1), chances.shape[1] - 1))


def _get_right_side(one: CompiledConstraint) -> str:
    """Return the right side of a functional dependency."""
    assert one.form is not None
    return next(test.left.attribute for test in one.form.pairs if test.op == "!=")


def _compute_cell_shares(frame: ModelDomain, place: int) -> Floats:
    """Return each cell's share of its group, shape (cells,)."""
    fine, group = frame.fines[place], frame.groups[place]
    weights = np.maximum(frame.shares[place], 1e-22)
    weights = weights / np.bincount(group, weights=weights)[group]
    return np.asarray(np.repeat(weights / fine.widths, fine.widths))
