"""Earlier answers as linear measurements: the ledger contents that a new query may use."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload, WorkloadPart
from siloquent.explore.spec.footprint import Area, Footprint, Integers
from siloquent.maths.tails.simultaneous import compute_number_log_share
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event
from siloquent.schema import Attribute, Classes, ClassRuns, Domain, TableSchema

MAX_COLUMNS = 2_000
SMALLEST_DEVIATION = 2.0**-40
"""The least deviation of discrete Laplace noise that is combined: below, its square is 0 in double precision."""
MIN_DEVIATION = 3.0  # below, integer Gaussian noise is not within 1 of a normal draw
Law = Literal["gaussian", "laplace"]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredBlock:
    """Noisy values of one block of one earlier measurement: ``matrix`` times the sums of its columns, plus noise.

    ``scale``: the noise's deviation (gaussian) or scale b (laplace), in the values' own units. ``margins``: the maximum
    distance of each value from its value under continuous noise, in the same units. ``source``: the seq of its receipt.
    ``finest``: no sum of columns is known with a smaller deviation. ``information``: its total information.
    """

    source: int
    account: str
    law: Law
    scale: float
    area: Area
    matrix: Integers
    values: NDArray[np.float64]
    margins: NDArray[np.float64]
    finest: float = field(init=False)
    information: float = field(init=False)

    def __post_init__(self) -> None:
        sizes = np.abs(self.matrix).astype(np.float64)
        # g A = w, integer and not 0, so |g| >= 1/|A|; and |A|^2 is at most its largest row sum times column sum.
        largest = float(sizes.sum(axis=1).max(initial=1)) * float(sizes.sum(axis=0).max(initial=1))
        object.__setattr__(self, "finest", self.deviation / math.sqrt(largest))
        object.__setattr__(self, "information", float((sizes * sizes).sum()) / self.deviation**2)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        arrays = (*self.area.classes, self.area.column, self.matrix, self.values, self.margins)
        return sum(array.nbytes for array in arrays)

    @property
    def deviation(self) -> float:
        """The deviation of one noise."""
        return self.scale if self.law == "gaussian" else compute_laplace_deviation(self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class LinearMeasurement:
    """One earlier measurement: its pieces, and their ``quantity`` and ``version``.

    ``log_share``: ln of each piece's share of the probability that an answer from some measurement is too far off.
    """

    source: int
    account: str
    version: int
    quantity: str
    pieces: tuple[MeasuredBlock, ...]
    log_share: float


def compute_laplace_deviation(scale: float) -> float:
    """Compute sqrt(2 p) / (1 - p), p = exp(-1/scale): the deviation of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    return math.sqrt(2 * p) / (-math.expm1(-1 / scale))


def describe_quantity(compiled: CompiledWorkload, domain: Domain) -> str:
    """Describe what is counted or summed, its units and its declaration; only equal quantities can be combined.

    Equal bounds are not enough: a value beyond them counts as the bound, or not at all, as it is declared.
    """
    summed = compiled.summed
    if summed is None:
        return domain.relation or "rows"
    relation = [domain.relation] if domain.relation else []
    facts = [*relation, *(str(getattr(summed, field.name)) for field in fields(summed) if field.name != "computed")]
    domain = domain if summed.computed is None else replace(domain, computed=(summed.computed,))
    return "|".join((*facts, compute_declaration_digest(summed.attribute, domain)))


def compute_declaration_digest(name: str, domain: Domain) -> str:
    """Compute the SHA-256 of everything that determines the cell of ``name`` of a row."""
    attribute = domain[name]
    if attribute.computed is not None:
        return compute_computed_digest(attribute, domain)
    source = domain[attribute.argument] if attribute.function else None
    return hashlib.sha256(repr((attribute, source)).encode()).hexdigest()[:32]


def compute_computed_digest(attribute: Attribute, domain: Domain) -> str:
    """Compute the same of an attribute that a query computes: its expression, and its inputs' declarations."""
    assert attribute.computed is not None
    inputs = [compute_declaration_digest(name, domain) for name in attribute.computed.inputs]
    return hashlib.sha256(repr((attribute, attribute.computed.identity, inputs)).encode()).hexdigest()[:32]


def build_footprint(compiled: CompiledWorkload, schema: TableSchema, *, by_strategy: bool) -> Footprint | None:
    """Build the footprint of a measurement of ``compiled``; None if it is too large to be used later."""
    if sum(part.columns for part in compiled.parts) > MAX_COLUMNS:
        return None
    return Footprint(
        version=schema.version,
        quantity=describe_quantity(compiled, schema.domain),
        areas=tuple(build_area(part, schema.domain) for part in compiled.parts),
        weights=() if by_strategy else tuple(_build_weights(part) for part in compiled.parts),
        rounded=compiled.summed is not None and compiled.summed.quantum > 1,
    )


def build_area(part: WorkloadPart, domain: Domain) -> Area:
    """Build the block of ``part`` by declared cells; impossible cells are left out, so that totals agree."""
    names = part.block.attributes
    domain = replace(domain, computed=part.block.computed)
    classes = [
        one if can_be_outside(domain[name]) else _drop_outside(one)
        for name, one in zip(names, part.block.classes, strict=True)
    ]
    declared = tuple(compute_declaration_digest(name, domain) for name in names)
    return Area(names, declared, part.block.shape, tuple(classes), part.column)


def _drop_outside(classes: Classes) -> Classes:
    return classes.without_outside() if isinstance(classes, ClassRuns) else classes[:-1]


def can_be_outside(attribute: Attribute) -> bool:
    """Return whether a row's value can be OUTSIDE, according to the declaration."""
    if attribute.computed is not None and not attribute.computed.is_test:
        return True  # whatever it is computed from may be OUTSIDE
    rule = attribute.other if attribute.kind == "category" else attribute.outside
    return attribute.null == "drop" or (rule == "drop" and attribute.kind != "boolean")


def _build_weights(part: WorkloadPart) -> Integers | None:
    return None if part.weights is None else part.weights.astype(np.int64)


def build_linear_measurement(
    footprint: Footprint,
    event: Event,
    values: tuple[int, ...],
    strategy: tuple[Integers, ...],
    *,
    source: int,
    account: str,
    beside: int = 0,
) -> LinearMeasurement | None:
    """Build the reusable linear measurement; None if its noise has no linear distribution that we combine.

    Args:
        beside: The maximum number of pieces of the other measurements under the same permit.
    """
    if isinstance(event, DiscreteGaussian):
        law: Law = "gaussian"
        scale = math.sqrt(event.variance)
    elif isinstance(event, DiscreteLaplace):
        law, scale = "laplace", float(event.scale)
    else:
        return None
    least = SMALLEST_DEVIATION if law == "laplace" else MIN_DEVIATION
    usable = (compute_laplace_deviation(scale) if law == "laplace" else scale) >= least
    noisy = np.array([float(value) for value in values])
    pieces = []
    for area, (matrix, places) in zip(footprint.areas, _iter_rows(footprint, strategy, len(values)), strict=True):
        if usable and len(places):
            # Sums are rounded to units per column, by at most half a unit each.
            slack = np.abs(matrix).sum(axis=1) / 2 if footprint.rounded else np.zeros(len(matrix))
            pieces.append(MeasuredBlock(source, account, law, scale, area, matrix, noisy[places], 1.0 + slack))
    share = compute_number_log_share(source) - math.log(max(1, len(pieces) + beside))
    return LinearMeasurement(source, account, footprint.version, footprint.quantity, tuple(pieces), share)


def _iter_rows(
    footprint: Footprint, strategy: tuple[Integers, ...], values: int
) -> Iterator[tuple[Integers, NDArray[np.int64]]]:
    """Yield, for each block, the measurement's rows in it and the indices of their values."""
    first = 0
    for place in range(len(footprint.areas)):
        if strategy:
            matrix = strategy[place]
            places = np.arange(first, first + len(matrix))
            first += len(matrix)
        else:
            weights = footprint.weights[place]
            matrix = np.eye(values, dtype=np.int64) if weights is None else weights
            places = np.arange(values)
        inside = np.any(matrix != 0, axis=1)
        yield matrix[inside], places[inside]
