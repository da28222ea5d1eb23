"""Engine ``chain`` after the measuring: rows column by column, each value by its model and by what it would break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ConstraintProblem, RequestError
from siloquent.maths.pair_tables import PairTables
from siloquent.synth.estimate.counting import tables_of
from siloquent.synth.estimate.decode import decoded
from siloquent.synth.estimate.frame import Frame, frame_of
from siloquent.synth.estimate.generate import refined, systematic
from siloquent.synth.estimate.keep import Tables, keep
from siloquent.synth.spec.compiled import CompiledConstraint
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy
from siloquent.synth.spec.network import Network, blank_network, first_embeddings

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.synth.plan.chain import ChainPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_CANDIDATES = 4_096
"""Cells of a column up to which what each would break is looked at as rows are drawn; beyond, passes mend rows."""
CHUNK = 2**22
"""Chances that are in memory at once."""
REFERENCE_ROWS = 5_000
"""Rows for which a weight is given: the partners that a value breaks a constraint with grow with the rows drawn."""
MOST_REFUSALS = 300


class ChainLearner:
    """What the counts say, for the training: the groups of each column. It asks for no marginal."""

    def __init__(self, plan: ChainPlan, *, extra: Tables | None = None) -> None:
        self.plan, self.extra = plan, extra
        self._frame: Frame | None = None

    @property
    def frame(self) -> Frame:
        """What the fine counts said."""
        assert self._frame is not None
        return self._frame

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """Groups from the fine counts."""
        self._frame = frame_of(self.plan.compiled, fines, fine, tables, extra=self.extra)
        return self._frame.groups


@dataclass(frozen=True, slots=True, eq=False)
class ChainModel:
    """Conditional models, one for each column but the first; ``weights`` of soft constraints, for 5,000 rows."""

    plan: ChainPlan
    frame: Frame
    networks: tuple[Network, ...]
    weights: Mapping[int, float] = field(default_factory=dict)
    sentence: str = ""

    @property
    def rows(self) -> int:
        """How many rows the table has, up to noise."""
        return self.frame.total

    def draw(self, rows: int | None = None, *, seed: int = 0) -> pa.Table:
        """Rows as an Arrow table in the source's own types, every hard constraint kept.

        Raises:
            ConstraintProblem: So many rows cannot be had under a key.
        """
        cells = self.cells(self.rows if rows is None else rows, seed=seed)
        return decoded(cells, self.frame.compiled, self.plan.schema.domain)

    def cells(self, rows: int, *, seed: int = 0, kept: bool = True) -> NDArray[np.int32]:
        """Rows as cells of the plan's attributes, shape (rows, attributes); ``kept`` False leaves the passes out."""
        if rows < 1:
            raise RequestError(f"A draw has at least 1 row, not {rows:,}.")
        drawing = _Drawing(self, rows, np.random.default_rng(seed))
        for number in range(len(self.plan.sequence)):
            drawing.column(number)
        if not kept:
            return drawing.cells.astype(np.int32)
        of_cells = {name: self.frame.group_of_cells(place) for place, name in enumerate(self.frame.names)}
        return keep(drawing.cells, self.frame.compiled, self.frame.tables, drawing.random, groups=of_cells)

    def weighted(self, weights: Mapping[int, float]) -> ChainModel:
        """The same model with other weights of soft constraints, by number."""
        return replace(self, weights=dict(weights))

    def promised(self, sentence: str) -> ChainModel:
        """The same model with its guarantee in words."""
        return replace(self, sentence=sentence)


class _Drawing:
    """Rows in the making: groups and cells of the columns drawn so far."""

    def __init__(self, model: ChainModel, rows: int, random: np.random.Generator) -> None:
        self.model, self.random, self.count = model, random, rows
        frame = model.frame
        self.groups = np.zeros((rows, len(frame.names)), dtype=np.int64)
        self.cells = np.zeros((rows, len(frame.compiled.attributes)), dtype=np.int64)
        self.drawn: set[str] = set()

    def column(self, number: int) -> None:
        """Draw the next column of the sequence in all rows."""
        frame, place = self.model.frame, self.model.plan.sequence[number]
        name = frame.names[place]
        self.drawn.add(name)
        rules = self._complete(name)
        tables = self._tables(rules, name)
        if tables is None:
            self._freely(number, place)
            return
        weights = np.array([self._weight(one) for one in rules])
        stuck = self._aware(tables, number, place, weights, np.arange(self.count), stored=False)
        picks = np.flatnonzero(~stuck)
        again = round(self.model.plan.chain.resample * self.count)
        if again and len(picks):
            self._aware(tables, number, place, weights, self.random.choice(picks, again), stored=True)

    def _complete(self, name: str) -> list[CompiledConstraint]:
        """Constraints over two rows that this column completes and that count while rows are drawn."""
        by_table = {need.constraint for need in self.model.frame.compiled.needs}
        found = []
        for one in self.model.frame.compiled.constraints:
            complete = name in one.attributes and set(one.attributes) <= self.drawn
            binary = one.form is not None and one.form.is_binary
            if binary and complete and one.number not in by_table and self._weight(one):
                found.append(one)
        return found

    def _weight(self, one: CompiledConstraint) -> float:
        if one.hard:
            return np.inf
        return self.model.weights.get(one.number, one.weight or 0.0) * REFERENCE_ROWS / self.count

    def _tables(self, rules: Sequence[CompiledConstraint], name: str) -> PairTables | None:
        compiled = self.model.frame.compiled
        if not rules or compiled.sizes[compiled.column(name)] > MOST_CANDIDATES:
            return None
        try:
            return tables_of([one.form for one in rules if one.form is not None], compiled, name)
        except ConstraintProblem:
            return None  # Too fine to count while drawing: the passes keep it if it is hard.

    def _chances(self, number: int, place: int, at: Integers) -> Floats:
        """The law of the column's group in the rows ``at``, masks applied, shape (at, groups)."""
        frame = self.model.frame
        if number:
            chances = self.model.networks[number - 1].chances(self.groups[at])
        else:
            shares = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
            chances = np.tile(shares / shares.sum(), (len(at), 1))
        for axes, cells in frame.masks.items():
            if place in axes and all(frame.names[axis] in self.drawn for axis in axes):
                index = tuple(
                    np.arange(frame.sizes[place])[None, :] if axis == place else self.groups[at, axis][:, None]
                    for axis in axes
                )
                masked = chances * cells[index]
                empty = masked.sum(axis=1) <= 0
                chances = np.where(empty[:, None], chances, masked)
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def _freely(self, number: int, place: int) -> None:
        """By the model alone: counts are right to one for the first column, at random for the others."""
        frame, name = self.model.frame, self.model.frame.names[place]
        if number == 0:
            table = self._chances(0, place, np.arange(1))
            self.groups[:, place] = systematic(np.zeros(self.count, dtype=np.int64), table, self.random)
        else:
            for at in np.array_split(np.arange(self.count), 1 + self.count * frame.sizes[place] // CHUNK):
                self.groups[at, place] = _by_law(self._chances(number, place, at), self.random)
        cells = refined(frame, place, self.groups[:, place], self.random)
        self.cells[:, frame.compiled.column(name)] = cells

    def _aware(
        self, tables: PairTables, number: int, place: int, weights: Floats, order: Integers, *, stored: bool
    ) -> NDArray[np.bool_]:
        """By the model and by what each cell would break; which rows found no cell that breaks no hard constraint."""
        frame = self.model.frame
        column, group_of = frame.compiled.column(frame.names[place]), frame.group_of_cells(place)
        inside = _share_of_cells(frame, place)
        stuck = np.zeros(self.count, dtype=bool)
        for at in np.array_split(order, 1 + len(order) * len(group_of) // CHUNK):
            by_group = self._chances(number, place, at)
            chances = np.ascontiguousarray(by_group[:, group_of] * inside)
            if self.model.plan.chain.sampler == "accept-reject" and not stored:
                self._by_refusal(tables, at, weights, chances)
                failed = np.zeros(len(at), dtype=bool)
            else:
                uniforms = self.random.random(len(at))
                failed = tables.draw(self.cells, at, weights=weights, chances=chances, uniforms=uniforms, stored=stored)
            if failed.any() and not stored:
                self.cells[at[failed], column] = _by_law(chances[failed], self.random)
                stuck[at[failed]] = True
            self.groups[at, place] = group_of[self.cells[at, column]]
        return stuck

    def _by_refusal(self, tables: PairTables, at: Integers, weights: Floats, chances: Floats) -> None:
        """The same law by accepting v ~ chance with exp(-weight x partners), relative to the most likely outcome.

        Source:
            Thesis, experiment 6, whose code never checks what it draws.
        """
        laws = np.cumsum(chances, axis=1)
        for line, row in zip(laws, at, strict=True):
            energy = weights @ tables.broken_by(self.cells[row])
            accept = np.exp(energy.min() - energy)
            for _ in range(MOST_REFUSALS):
                value = min(int(np.searchsorted(line, self.random.random() * line[-1], side="right")), len(line) - 1)
                if self.random.random() < accept[value]:
                    break
            self.cells[row, tables.target] = value
            tables.add(self.cells[row : row + 1])


def _by_law(chances: Floats, random: np.random.Generator) -> Integers:
    """One value for each line of weights."""
    laws = np.cumsum(chances, axis=1)
    wanted = random.random(len(laws)) * laws[:, -1]
    return np.asarray(np.minimum((laws <= wanted[:, None]).sum(axis=1), chances.shape[1] - 1))


def _share_of_cells(frame: Frame, place: int) -> Floats:
    """Each cell's share of its group, shape (cells,)."""
    fine, group = frame.fines[place], frame.groups[place]
    weights = np.maximum(frame.shares[place], 1e-22)
    weights = weights / np.bincount(group, weights=weights)[group]
    return np.asarray(np.repeat(weights / fine.widths, fine.widths))


def chain_model_of(plan: ChainPlan, measured: Measurements, *, extra: Tables | None = None) -> ChainModel:
    """The model that a run's released numbers make: the same at every replay."""
    learner = ChainLearner(plan, extra=extra)
    fines = tuple(
        replace(fine, starts=starts, ordered=fine.ordered + len(starts) - len(fine.starts))
        for fine, (_, starts) in zip(plan.first.fines, measured.starts, strict=True)
    )
    learner.begin(fines, measured.of_kind("fine"), measured.of_kind("table"))
    return model_from_steps(learner, measured)


def model_from_steps(learner: ChainLearner, measured: Measurements) -> ChainModel:
    """The model of a run that has ended."""
    plan, sizes = learner.plan, learner.frame.sizes
    blank = first_embeddings(sizes, plan.chain.width, seed=plan.spec.seed)
    networks = tuple(
        blank_network(plan.sequence[:number], plan.sequence[number], sizes, blank).with_flat(
            step.counts.view(np.float64)
        )
        for number, step in enumerate(measured.of_kind("chain"), 1)
    )
    return ChainModel(plan, learner.frame, networks)
