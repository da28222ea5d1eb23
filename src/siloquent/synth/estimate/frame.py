"""What the fine counts say: the number of rows, groups of cells, shares inside groups, masks of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.synth.estimate.bins import CLEAR, bin_ordered, denoised, merge_rare, number_of_rows, projected
from siloquent.synth.estimate.keep import Tables, coupling_mask, dependency_table, masks_of
from siloquent.synth.plan.side_steps import RATE_STEPS
from siloquent.synth.spec.compiled import CompiledConstraints, Mask
from siloquent.synth.spec.fine import CellGroups, Fine
from siloquent.synth.spec.measured import Noisy
from siloquent.synth.spec.spec import MOST_ROWS

if TYPE_CHECKING:
    from siloquent.maths.graphical.fit import Target

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_MASK = 3_000
"""The most group combinations of a mask that goes into the model; rows are redrawn under the others."""


MOST_UNCOUNTED = 1_000
"""Rows that are put out at most where noise hides how many the table has: more of them would say no more."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The modelled attributes as the model sees them.

    Attributes:
        total: The number of rows, from noisy counts (or public, where one row replaces another).
        groups: The group of each run of cells, for each attribute.
        shares: The share of the rows in each run, free of negative counts.
        targets: The groups' noisy counts.
        tables: FD tables by the number of their constraint.
        masks: Group combinations that may occur, for sets of attributes.
    """

    compiled: CompiledConstraints
    fines: tuple[Fine, ...]
    total: int
    groups: tuple[Integers, ...]
    shares: tuple[Floats, ...]
    targets: tuple[Target, ...]
    tables: Tables
    masks: Mapping[tuple[int, ...], NDArray[np.bool_]]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups each attribute has."""
        return tuple(int(group.max()) + 1 for group in self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """The modelled attributes."""
        return tuple(fine.name for fine in self.fines)

    @property
    def rows(self) -> int:
        """How many rows are put out where nobody says: as many as the table has, or few where noise hides how many."""
        return min(self.total, MOST_ROWS if self.is_counted else MOST_UNCOUNTED)

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows stands out of its noise."""
        return self.total >= CLEAR * self._deviation

    @property
    def _deviation(self) -> float:
        """Of the noise on the number of rows."""
        return 1 / math.sqrt(sum(1 / (each.values.size * float(np.mean(each.variance))) for each in self.targets))

    def least_rows(self) -> int:
        """A number of rows that the table surely has, at least 2: six deviations below the estimate."""
        return max(2, math.floor(self.total - 6 * self._deviation))

    def groups_of(self, cells: NDArray[np.integer]) -> Integers:
        """The groups of rows of cells, shape (rows, modelled attributes)."""
        found = np.empty((len(cells), len(self.fines)), dtype=np.int64)
        for place, (fine, group) in enumerate(zip(self.fines, self.groups, strict=True)):
            found[:, place] = group[fine.of(cells[:, self.compiled.column(fine.name)])]
        return found

    def counts_of(self, groups: Integers, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """What rows of groups have in the cells of these marginals, scaled to the number of rows."""
        scale, sizes = self.total / max(len(groups), 1), self.sizes
        made: list[Floats] = []
        for axes in marginals:
            shape = tuple(sizes[axis] for axis in axes)
            code = np.ravel_multi_index(tuple(groups[:, axis] for axis in axes), shape)
            counts = np.bincount(code, minlength=math.prod(shape)).astype(np.float64)
            made.append(counts.reshape(shape) * scale)
        return made

    def places(self, attributes: Sequence[str]) -> tuple[int, ...]:
        """The places of modelled attributes.

        Raises:
            RequestError: One is not modelled, but written by a constraint.
        """
        for name in attributes:
            if name not in self.names:
                raise RequestError(f"{name!r} is not in the model.", fix=f"one of {', '.join(self.names)}, each once")
        return tuple(self.names.index(name) for name in attributes)

    def cell_groups(self, place: int) -> CellGroups:
        """The group of any cell of one attribute."""
        return CellGroups(self.fines[place].starts, self.fines[place].widths, self.groups[place])

    def group_of_cells(self, place: int) -> Integers:
        """The group of every cell of one attribute: for those of few cells only."""
        return np.repeat(self.groups[place], self.fines[place].widths)


def frame_of(
    compiled: CompiledConstraints,
    fines: Sequence[Fine],
    fine: Sequence[Noisy],
    tables: Sequence[Noisy],
    *,
    extra: Tables | None = None,
) -> Frame:
    """Everything that follows from the first steps of a run, with the same result at every replay.

    Args:
        extra: FD tables from public files, by the number of their constraint.
    """

    total = number_of_rows([each.counts for each in fine], [float(each.variance) for each in fine])
    groups, shares = [], []
    for each, counted in zip(fines, fine, strict=True):
        deviation = math.sqrt(counted.variance) / total
        rough = projected(counted.counts.astype(np.float64), float(total)) / total
        ordered = bool(each.ordered)
        group = (
            bin_ordered(rough, deviation=deviation, ordered=each.ordered, cuts=each.cut_runs)
            if ordered
            else merge_rare(rough, deviation=deviation, kept=each.cut_runs)
        )
        groups.append(group)
        raw = counted.counts.astype(np.float64) / total
        shares.append(denoised(raw, group, deviation=deviation, ordered=each.ordered))
    targets = tuple(_target(i, counted, group) for i, (counted, group) in enumerate(zip(fine, groups, strict=True)))
    known = _tables(compiled, tables, extra or {})
    frame = Frame(compiled, tuple(fines), total, tuple(groups), tuple(shares), targets, known, {})
    return Frame(compiled, tuple(fines), total, tuple(groups), tuple(shares), targets, known, _masks(frame))


def rate_read(rates: Noisy) -> dict[int, float]:
    """What bought rates say, by the number of the constraint."""
    *scaled, least = rates.counts.tolist()
    return {
        int(number): min(max(value / (RATE_STEPS / 2 * least), 0.0), 1.0)
        for number, value in zip(rates.attributes, scaled, strict=True)
    }


def _target(place: int, counted: Noisy, group: Integers) -> Target:
    from siloquent.maths.graphical.fit import Target

    size = int(group.max()) + 1
    counts = np.bincount(group, weights=counted.counts, minlength=size).astype(np.float64)
    spread = float(counted.variance) * np.bincount(group, minlength=size).astype(np.float64)
    return Target((place,), counts, np.asarray(spread, dtype=np.float64))


def _tables(compiled: CompiledConstraints, measured: Sequence[Noisy], extra: Tables) -> Tables:
    """A table for every need: public, measured, or filled at random with a fixed seed."""
    histograms = {each.number: each for each in measured}
    made = dict(extra)
    for need in compiled.needs:
        if need.constraint in made:
            continue
        found = histograms.get(need.constraint)
        made[need.constraint] = dependency_table(
            need,
            None if found is None else found.counts,
            deviation=0.0 if found is None else math.sqrt(found.variance),
            random=np.random.default_rng(need.constraint),
        )
    return made


def _masks(frame: Frame) -> dict[tuple[int, ...], NDArray[np.bool_]]:
    """Rules about single rows, and orders without context, as masks over groups where these are few."""
    made: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    for mask in masks_of(frame.compiled, frame.tables):
        _add(made, frame, mask)
    for coupling in frame.compiled.couplings.values():
        if coupling.context or coupling.when or not {coupling.a, coupling.b} <= set(frame.names):
            continue
        a, b = frame.names.index(coupling.a), frame.names.index(coupling.b)
        cells = coupling_mask(
            _mass(frame, a), _mass(frame, b), rising=coupling.rising, known_a=_known(frame, a), known_b=_known(frame, b)
        )
        _meet(made, (a, b), cells)
    return made


def _add(made: dict[tuple[int, ...], NDArray[np.bool_]], frame: Frame, mask: Mask) -> None:
    if not set(mask.attributes) <= set(frame.names) or not mask.is_small:
        return
    places = tuple(frame.names.index(name) for name in mask.attributes)
    if math.prod(frame.sizes[place] for place in places) > MOST_MASK:
        return
    groups = {frame.names[place]: frame.group_of_cells(place) for place in places}
    _meet(made, places, mask.share(groups) > 0)


def _meet(made: dict[tuple[int, ...], NDArray[np.bool_]], places: tuple[int, ...], allowed: NDArray[np.bool_]) -> None:
    order = sorted(range(len(places)), key=places.__getitem__)
    key = tuple(places[i] for i in order)
    cells = allowed.transpose(order)
    made[key] = made[key] & cells if key in made else cells


def _mass(frame: Frame, place: int) -> Floats:
    found = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
    return np.asarray(found, dtype=np.float64)


def _known(frame: Frame, place: int) -> NDArray[np.bool_]:
    """Which groups are ordered values, and not NULL or ``other``."""
    fine, group = frame.fines[place], frame.groups[place]
    known = np.zeros(frame.sizes[place], dtype=np.bool_)
    steps = fine.attribute.steps
    known[group[fine.starts < steps]] = True
    return known
