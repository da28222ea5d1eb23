"""An attribute of a service and its use, from which its bins or points follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import SchemaError
from siloquent.fixes import UseOption
from siloquent.foreign.spec_types import check_types
from siloquent.schema import Attribute

Use = Literal["filter", "measure", "both"]

KINDS = ("integer", "real", "category", "boolean", "date")
MAX_BINS = 10_000
FILTER_BINS, MEASURE_BINS = 25, 125
POINTS = 3
"""The number of points that a measure is rounded to: both ends and the middle. More points mean more noisy nodes."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class AttributeRole:
    """An attribute and its use.

    Attributes:
        use: Conditions and groups ("filter"), sums and averages ("measure"), or both.
        resolution: The finest number of bins needed: fewer give smaller errors, and answers resolve nothing finer.
            For an attribute that is only a measure: the number of points that a value is rounded to, unbiased.
        sensitive: False sends the value in clear beside the report.
        dimension: The public table in which this value is looked up on the device.
        alone: Values with a bin of their own, since they are frequent: ends to which others are clamped, for example.
    """

    attribute: Attribute
    use: Use = "filter"
    resolution: int | None = None
    sensitive: bool = True
    alone: tuple[Any, ...] = ()
    dimension: str | None = None

    def __post_init__(self) -> None:
        check_types(self, SchemaError)
        name, kind = self.attribute.name, self.attribute.kind
        if not NAME.fullmatch(name):
            raise SchemaError(
                f"The name of a service's attribute takes only letters, digits and '_', not {name[:20]!r}."
            )
        if kind not in KINDS:
            raise SchemaError(f"{name!r} is of type {kind}; devices report {', '.join(KINDS)}.")
        if self.use not in ("filter", "measure", "both"):
            raise SchemaError(f"{name!r} must be used as filter, measure or both, not {self.use!r}.")
        if self.use != "filter" and not self.attribute.is_numeric:
            raise SchemaError(f"{name!r} is of type {kind}, which has no sum.", fix=UseOption("use", "filter"))
        if self.resolution is not None and not 1 <= self.resolution <= MAX_BINS:
            raise SchemaError(
                f"The resolution of {name!r} must be between 1 and {MAX_BINS:,}, not {self.resolution!r}."
            )
        if self.attribute.size > 10**6:
            raise SchemaError(f"{name!r} has more than 10^6 values.", fix="declare a coarser grid")
        if not self.sensitive and self.use != "filter":
            raise SchemaError(
                f"{name!r} is public: it can only be used in conditions and groups.", fix=UseOption("use", "filter")
            )
        if not self.sensitive and self.dimension is not None:
            raise SchemaError(
                f"{name!r} tells what a row points at, so it is sensitive.", fix=UseOption("sensitive", True)
            )
        self._check_alone()

    def _check_alone(self) -> None:
        if not self.alone:
            return
        name = self.attribute.name
        if not self.is_ordered or self.points or not self.sensitive:
            raise SchemaError(f"{name!r} has no bins of neighbouring values, so none is alone.", fix="leave alone out")
        places = self.places_alone
        if len(places) < len(self.alone) + self._has_null_cell or not all(map(self._is_a_value, self.alone)):
            raise SchemaError(f"What stands alone in {name!r} is among its values, each named once.")
        runs = sum(high - low > 1 for low, high in pairwise((-1, *places, self.attribute.size)))
        if self.bins < len(places) + runs:
            raise SchemaError(
                f"{name!r} has {self.bins} bins: too few for {len(places)} values alone and those between.",
                fix=UseOption("resolution", max(len(places) + runs, 25)),
            )

    @property
    def places_alone(self) -> tuple[int, ...]:
        """The indices with a bin of their own, ascending: those declared, and that of NULL."""
        places = {self.attribute.index(value) for value in self.alone}
        return tuple(sorted(places | ({self.attribute.size - 1} if self._has_null_cell else set())))

    @property
    def _has_null_cell(self) -> bool:
        return self.is_ordered and self.attribute.null == "cell"

    def _is_a_value(self, value: object) -> bool:
        at = self.attribute.index(value)
        if not 0 <= at < self.attribute.steps:
            return False
        found = self.attribute.label(at)
        return bool(found == value or (self.attribute.is_numeric and float(found) == float(value)))  # type: ignore[arg-type]

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring values belong together, so that ranges make sense."""
        return self.attribute.is_numeric or self.attribute.is_temporal

    @property
    def bins(self) -> int:
        """The resolution, or a default for the use: every category, 25 bins of a filter, 125 of a measure."""
        size = self.attribute.size
        if self.points:
            return self.points
        if self.resolution is not None:
            return min(self.resolution, size)
        if not self.is_ordered:
            return size
        return min(size, FILTER_BINS if self.use == "filter" else MEASURE_BINS)

    @property
    def points(self) -> int:
        """The number of points that values are rounded to at random before reporting; 0: they fall into bins instead.

        Rounding keeps sums unbiased for any distribution of values, unlike bins. It needs a number for each cell.
        """
        wanted = self.resolution or POINTS
        is_number = self.use == "measure" and self.attribute.null != "cell"
        return max(wanted, 2) if is_number and self.attribute.size > max(wanted, 2) else 0

    @property
    def may_be_missing(self) -> bool:
        """Whether some value of a row is dropped, and the row with it."""
        attribute = self.attribute
        dropped = attribute.null == "drop" or (attribute.kind == "category" and attribute.other == "drop")
        return dropped or (self.is_ordered and attribute.outside == "drop")


def compute_point_places(size: int, points: int) -> NDArray[np.int64]:
    """Return the indices of points: the first, the last, and others evenly between."""
    return np.arange(points, dtype=np.int64) * (size - 1) // (points - 1)
