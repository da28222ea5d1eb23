"""The domain of a model, from the fine counts: the number of rows, groups of cells, shares inside groups, masks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.synth.estimate.bins import (
    CLEAR,
    denoise_shares,
    estimate_row_count,
    group_ordered,
    merge_rare,
    project_to_simplex,
)
from siloquent.synth.estimate.enforce.constraints import (
    Tables,
    build_dependency_table,
    build_model_masks,
    compute_coupling_mask,
)
from siloquent.synth.plan.auxiliary_steps import RATE_STEPS
from siloquent.synth.spec.compiled import CompiledConstraints, Mask
from siloquent.synth.spec.fine_domain import CellGroups, FineDomain
from siloquent.synth.spec.measurements import NoisyCounts
from siloquent.synth.spec.spec import MAX_ROWS

if TYPE_CHECKING:
    from siloquent.maths.graphical.fit import Target

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_MASK = 3_000
"""The most group combinations of a mask in the model; larger masks are enforced by redrawing rows."""


MAX_UNCOUNTED = 1_000
"""The most output rows where noise hides the table's size: more would carry no more information."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelDomain:
    """The modelled attributes in the model's terms.

    Attributes:
        total: The number of rows, from noisy counts (or public, where one row replaces another).
        groups: The group of each run of cells, for each attribute.
        shares: The share of the rows in each run, without negative entries.
        targets: The groups' noisy counts.
        tables: FD tables by the number of their constraint.
        masks: Allowed group combinations, for sets of attributes.
    """

    compiled: CompiledConstraints
    fines: tuple[FineDomain, ...]
    total: int
    groups: tuple[Integers, ...]
    shares: tuple[Floats, ...]
    targets: tuple[Target, ...]
    tables: Tables
    masks: Mapping[tuple[int, ...], NDArray[np.bool_]]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of groups of each attribute."""
        return tuple(int(group.max()) + 1 for group in self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """The modelled attributes."""
        return tuple(fine.name for fine in self.fines)

    @property
    def rows(self) -> int:
        """The default number of output rows: as many as the table has, or few where noise hides its size."""
        return min(self.total, MAX_ROWS if self.is_counted else MAX_UNCOUNTED)

    @property
    def is_counted(self) -> bool:
        """Whether the number of rows exceeds its noise clearly."""
        return self.total >= CLEAR * self._deviation

    @property
    def _deviation(self) -> float:
        """The standard deviation of the noise on the number of rows."""
        return 1 / math.sqrt(sum(1 / (each.values.size * float(np.mean(each.variance))) for each in self.targets))

    def bound_rows(self) -> int:
        """Return a lower bound on the number of rows, at least 2: six deviations below the estimate."""
        return max(2, math.floor(self.total - 6 * self._deviation))

    def find_groups(self, cells: NDArray[np.integer]) -> Integers:
        """Return the groups of rows of cells, shape (rows, modelled attributes)."""
        found = np.empty((len(cells), len(self.fines)), dtype=np.int64)
        for place, (fine, group) in enumerate(zip(self.fines, self.groups, strict=True)):
            found[:, place] = group[fine.find_runs(cells[:, self.compiled.find_column(fine.name)])]
        return found

    def count_groups(self, groups: Integers, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Count rows of groups in the cells of these marginals, scaled to the number of rows."""
        scale, sizes = self.total / max(len(groups), 1), self.sizes
        made: list[Floats] = []
        for axes in marginals:
            shape = tuple(sizes[axis] for axis in axes)
            code = np.ravel_multi_index(tuple(groups[:, axis] for axis in axes), shape)
            counts = np.bincount(code, minlength=math.prod(shape)).astype(np.float64)
            made.append(counts.reshape(shape) * scale)
        return made

    def find_indices(self, attributes: Sequence[str]) -> tuple[int, ...]:
        """Return the indices of modelled attributes.

        Raises:
            RequestError: One is not modelled, but written by a constraint.
        """
        for name in attributes:
            if name not in self.names:
                raise RequestError(f"{name!r} is not in the model.", fix=f"one of {', '.join(self.names)}, each once")
        return tuple(self.names.index(name) for name in attributes)

    def get_cell_groups(self, place: int) -> CellGroups:
        """Return the group of any cell of one attribute."""
        return CellGroups(self.fines[place].starts, self.fines[place].widths, self.groups[place])

    def list_cell_groups(self, place: int) -> Integers:
        """Return the group of every cell of one attribute; only for attributes of few cells."""
        return np.repeat(self.groups[place], self.fines[place].widths)


def build_model_domain(
    compiled: CompiledConstraints,
    fines: Sequence[FineDomain],
    fine: Sequence[NoisyCounts],
    tables: Sequence[NoisyCounts],
    *,
    extra: Tables | None = None,
) -> ModelDomain:
    """Build the model's domain from the first steps of a run, with the same result at every replay.

    Args:
        extra: FD tables from public files, by the number of their constraint.
    """

    total = estimate_row_count([each.counts for each in fine], [float(each.variance) for each in fine])
    groups, shares = [], []
    for each, counted in zip(fines, fine, strict=True):
        deviation = math.sqrt(counted.variance) / total
        rough = project_to_simplex(counted.counts.astype(np.float64), float(total)) / total
        ordered = bool(each.ordered)
        group = (
            group_ordered(rough, deviation=deviation, ordered=each.ordered, cuts=each.cut_runs)
            if ordered
            else merge_rare(rough, deviation=deviation, kept=each.cut_runs)
        )
        groups.append(group)
        raw = counted.counts.astype(np.float64) / total
        shares.append(denoise_shares(raw, group, deviation=deviation, ordered=each.ordered))
    targets = tuple(
        _build_target(i, counted, group) for i, (counted, group) in enumerate(zip(fine, groups, strict=True))
    )
    known = _build_tables(compiled, tables, extra or {})
    frame = ModelDomain(compiled, tuple(fines), total, tuple(groups), tuple(shares), targets, known, {})
    return ModelDomain(compiled, tuple(fines), total, tuple(groups), tuple(shares), targets, known, _build_masks(frame))


def parse_rates(rates: NoisyCounts) -> dict[int, float]:
    """Return the bought rates, by the number of the constraint."""
    *scaled, least = rates.counts.tolist()
    return {
        int(number): min(max(value / (RATE_STEPS / 2 * least), 0.0), 1.0)
        for number, value in zip(rates.attributes, scaled, strict=True)
    }


def _build_target(place: int, counted: NoisyCounts, group: Integers) -> Target:
    from siloquent.maths.graphical.fit import Target

    size = int(group.max()) + 1
    counts = np.bincount(group, weights=counted.counts, minlength=size).astype(np.float64)
    spread = float(counted.variance) * np.bincount(group, minlength=size).astype(np.float64)
    return Target((place,), counts, np.asarray(spread, dtype=np.float64))


def _build_tables(compiled: CompiledConstraints, measured: Sequence[NoisyCounts], extra: Tables) -> Tables:
    """Return a table for every need: public, measured, or filled at random with a fixed seed."""
    histograms = {each.number: each for each in measured}
    made = dict(extra)
    for need in compiled.needs:
        if need.constraint in made:
            continue
        found = histograms.get(need.constraint)
        made[need.constraint] = build_dependency_table(
            need,
            None if found is None else found.counts,
            deviation=0.0 if found is None else math.sqrt(found.variance),
            random=np.random.default_rng(need.constraint),
        )
    return made


def _build_masks(frame: ModelDomain) -> dict[tuple[int, ...], NDArray[np.bool_]]:
    """Build masks over groups, where these are few, for rules about single rows and orders without context."""
    made: dict[tuple[int, ...], NDArray[np.bool_]] = {}
    for mask in build_model_masks(frame.compiled, frame.tables):
        _add_mask(made, frame, mask)
    for coupling in frame.compiled.couplings.values():
        if coupling.context or coupling.when or not {coupling.a, coupling.b} <= set(frame.names):
            continue
        a, b = frame.names.index(coupling.a), frame.names.index(coupling.b)
        cells = compute_coupling_mask(
            _compute_mass(frame, a),
            _compute_mass(frame, b),
            rising=coupling.rising,
            known_a=_find_known(frame, a),
            known_b=_find_known(frame, b),
        )
        _intersect_mask(made, (a, b), cells)
    return made


def _add_mask(made: dict[tuple[int, ...], NDArray[np.bool_]], frame: ModelDomain, mask: Mask) -> None:
    if not set(mask.attributes) <= set(frame.names) or not mask.is_small:
        return
    places = tuple(frame.names.index(name) for name in mask.attributes)
    if math.prod(frame.sizes[place] for place in places) > MAX_MASK:
        return
    groups = {frame.names[place]: frame.list_cell_groups(place) for place in places}
    _intersect_mask(made, places, mask.compute_allowed_share(groups) > 0)


def _intersect_mask(
    made: dict[tuple[int, ...], NDArray[np.bool_]], places: tuple[int, ...], allowed: NDArray[np.bool_]
) -> None:
    order = sorted(range(len(places)), key=places.__getitem__)
    key = tuple(places[i] for i in order)
    cells = allowed.transpose(order)
    made[key] = made[key] & cells if key in made else cells


def _compute_mass(frame: ModelDomain, place: int) -> Floats:
    found = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
    return np.asarray(found, dtype=np.float64)


def _find_known(frame: ModelDomain, place: int) -> NDArray[np.bool_]:
    """Return a mask of the groups that are ordered values, not NULL or ``other``."""
    fine, group = frame.fines[place], frame.groups[place]
    known = np.zeros(frame.sizes[place], dtype=np.bool_)
    steps = fine.attribute.steps
    known[group[fine.starts < steps]] = True
    return known
