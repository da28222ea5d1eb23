"""One declared column: its values, and the total function that maps any value of a row to exactly one cell."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.bins import format_bin_names
from siloquent.schema.files.coercion import count_microseconds, read_boolean, read_datetime, read_number, read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.schema.computed import Computed
    from siloquent.schema.meaning import Meaning

Kind = Literal["integer", "real", "category", "boolean", "date", "datetime", "id", "text"]
Bound = Decimal | datetime | None

OUTSIDE = -1
OTHER = "(other)"
MAX_NAME_LENGTH = 128
MAX_POINTS = 10**6
MAX_STEPS = 2**40
MAX_FROM_ZERO = 2**48
MAX_INTEGER = 2**62
MAX_CODES = 200
"""The maximum number of values of an integer that is grouped value by value, as codes are."""
MAX_LABEL_LENGTH = 200
STEP_SECONDS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
FUNCTIONS = {
    "length": ("text", "category"),
    "year": ("date", "datetime"),
    "month": ("date", "datetime"),
    "day": ("date", "datetime"),
    "hour": ("datetime",),
    "dayofweek": ("date", "datetime"),
}
"""The functions of derived attributes and the attribute kinds that they accept."""
_NULLS = {"drop": "without empty cells", "cell": "empty cells are a group"}


@lru_cache(maxsize=1_024)
def _count_steps(lo: Bound, hi: Bound, grid: Decimal | None) -> int:
    return int(_compute_distance(lo, hi) / Fraction(grid or 1)) + 1


def _compute_distance(lo: Bound, hi: Bound) -> Fraction:
    if isinstance(lo, datetime) and isinstance(hi, datetime):
        return Fraction((hi - lo) // timedelta(microseconds=1), 1_000_000)
    return Fraction(hi) - Fraction(lo)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column's declaration: ``size`` cells, then OUTSIDE (-1). Cells are the declared values, ``other`` and NULL.

    ``lo``, ``hi``: Decimal for numbers, datetime for dates. ``grid``: in the column's own unit, seconds for dates.
    ``edges``: of declared bins, from lo to hi (which belongs to the last bin) or to one step beyond hi.
    ``null``: drop, cell, or value (NULL is read as ``null_value``).
    ``function`` and ``argument`` are set on derived attributes, ``computed`` on those of a query's expressions.
    ``labels``: words shown beside values; attributes that differ only in them are equal.
    """

    name: str
    kind: Kind
    lo: Bound = None
    hi: Bound = None
    grid: Decimal | None = None
    values: tuple[str, ...] = ()
    outside: Literal["clamp", "drop"] = "drop"
    other: Literal["drop", "cell"] = "drop"
    null: Literal["drop", "cell", "value"] = "drop"
    null_value: Any = None
    edges: tuple[Decimal, ...] = ()
    max_bytes: int = 0
    function: str = ""
    argument: str = ""
    labels: tuple[tuple[Any, str], ...] = field(default=(), compare=False, repr=False)
    computed: Computed | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the attribute in one line, in the words in which it may be typed."""
        from siloquent.schema.meaning import describe_meaning

        text = f"{self.name}: {describe_meaning(self.to_meaning())}"
        if self.function:
            text += f"; {self.function} of {self.argument}"
        if self.lo is not None:
            text += "; values beyond count as the bound" if self.outside == "clamp" else "; values beyond are left out"
        if self.kind == "category":
            text += "; others are a group" if self.other == "cell" else "; others are left out"
        if self.is_countable:
            text += f"; {_NULLS.get(self.null, f'empty cells are {self.null_value}')}"
        return text

    def to_meaning(self) -> Meaning:
        """Return the meaning that copies this attribute."""
        from siloquent.schema.meaning import TEXT_BYTES, Meaning, format_bins, format_bound, format_grid, format_null

        kind, null = self.kind, format_null(self.null, self.null_value) if self.is_countable else ""
        if kind in ("id", "boolean"):
            return Meaning(kind, null=null, labels=self._format_labels())
        if kind == "text":
            return Meaning(kind, max_bytes=self.max_bytes or TEXT_BYTES)
        if kind == "category":
            return Meaning(kind, values=self.values, null=null, other=self.other, labels=self._format_labels())
        lo, hi = (format_bound(bound, kind) for bound in (self.lo, self.hi))
        bins = format_bins(self.edges, lo=self.lo, hi=self.hi, grid=self.grid)
        grid = format_grid(self.grid, kind)
        labels = self._format_labels()
        return Meaning(kind, lo=lo, hi=hi, grid=grid, bins=bins, null=null, outside=self.outside, labels=labels)

    def _format_labels(self) -> tuple[tuple[str, str], ...]:
        is_boolean = self.kind == "boolean"
        return tuple((str(value).lower() if is_boolean else str(value), label) for value, label in self.labels)

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(str(self))}</code>"

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= MAX_NAME_LENGTH or any(ord(c) < 32 or c == '"' for c in self.name):
            raise SchemaError(
                f"An attribute's name must have 1 to {MAX_NAME_LENGTH} characters without double quotes, "
                f"not {self.name[:20]!r}.",
                fix="rename the column in its source, and declare it under the new name",
            )
        if self.is_numeric or self.is_temporal:
            self._check_range()
        elif self.kind == "category":
            self._check_values()
        if self.null == "value" and self.is_countable and self.null_index == OUTSIDE:
            raise self._build_error(f"null = {{ value = {repr(self.null_value)[:60]} }} is not one of its own values")
        if self.labels:
            self._check_labels()

    def _build_error(self, what: str, *, fix: str = "") -> SchemaError:
        return SchemaError(f"Attribute {self.name!r}: {what}.", fix=fix)

    def _check_range(self) -> None:
        if self.lo is None or self.hi is None:
            raise self._build_error("has no bounds", fix=f'add lo = ..., hi = ... to the attribute named "{self.name}"')
        if self.grid is None:
            raise self._build_error("has no grid", fix=f'add grid = ... to the attribute named "{self.name}"')
        bounds = (self.lo, self.hi)
        if not all(isinstance(bound, datetime if self.is_temporal else Decimal) for bound in bounds):
            raise self._build_error(
                f"is a {self.kind}, so its bounds must be {'dates' if self.is_temporal else 'numbers'}"
            )
        if not all(x.is_finite() for x in (*bounds, self.grid) if isinstance(x, Decimal)):
            raise self._build_error("has bounds or a grid that are not finite")
        if self.grid <= 0 or not self.lo <= self.hi:  # type: ignore[operator]
            raise self._build_error("needs lo <= hi and a grid above 0")
        if self.is_temporal:
            self._check_datetimes()
        else:
            self._check_numbers()
        if self._compute_span() / Fraction(self.grid) >= MAX_STEPS:
            raise self._build_error("has more than 2^40 grid steps", fix="use a coarser grid")
        self._check_edges()

    def _check_datetimes(self) -> None:
        lo, grid = self.lo, Fraction(self.grid or 1)
        assert isinstance(lo, datetime)
        if grid % 1 or (self.kind == "date" and grid % 86_400):
            raise self._build_error(
                f"has a grid that is not a whole number of {'days' if self.kind == 'date' else 'seconds'}"
            )
        if self.kind == "date" and lo.time() != time(0):
            raise self._build_error("is a date, so its bounds cannot have a time of day", fix='type = "datetime"')
        if self._compute_span() % grid:
            raise self._build_error(f"needs bounds whose distance is a multiple of its grid ({self.grid} s)")

    def _check_numbers(self) -> None:
        # Fractions, since Decimal rounds to 28 digits and refuses remainders beyond them.
        lo, hi, grid = (Fraction(bound) for bound in (self.lo, self.hi, self.grid))  # type: ignore[arg-type]
        if lo % grid or hi % grid:
            raise self._build_error(f"lo and hi must be multiples of the grid {self.grid}")
        if self.kind == "integer" and (grid % 1 or lo % 1):
            raise self._build_error("is an integer, so lo, hi and grid must be whole numbers", fix='type = "real"')
        if self.kind == "integer" and max(abs(lo), abs(hi)) >= MAX_INTEGER:
            raise self._build_error("is an integer, so its bounds must be within 2^62", fix='type = "real"')
        if max(abs(lo), abs(hi)) / grid > MAX_FROM_ZERO:
            raise self._build_error(
                "is more than 2^48 grid steps away from zero, where doubles are too coarse", fix="use a coarser grid"
            )

    def _check_edges(self) -> None:
        if not self.edges:
            return
        if self.is_temporal or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise self._build_error("bins require a number and increasing edges")
        beyond = Fraction(self.hi) + Fraction(self.grid or 1)  # type: ignore[arg-type]
        if self.edges[0] != self.lo or (self.edges[-1] != self.hi and Fraction(self.edges[-1]) != beyond):
            raise self._build_error(f"its bins must begin at lo ({self.lo}) and end at hi ({self.hi})")
        if any(Fraction(edge) % Fraction(self.grid or 1) for edge in self.edges):
            raise self._build_error(f"its bin edges must be multiples of the grid {self.grid}")

    def _check_values(self) -> None:
        if not self.values:
            raise self._build_error(
                "has no values", fix=f'add values = ["...", "..."] to the attribute named "{self.name}"'
            )
        if len(set(self.values)) != len(self.values):
            raise self._build_error("lists a value twice")
        if any("\0" in value for value in self.values):
            raise self._build_error("lists a value with a NUL character, which engines cannot compare")
        if OTHER in self.values:
            raise self._build_error(f"{OTHER!r} is the name of the cell for values that are not listed")
        if len(self.values) > MAX_POINTS:
            raise self._build_error(f"lists more than {MAX_POINTS:,} values")

    def _check_labels(self) -> None:
        if not (self.kind in ("category", "boolean") or self.is_code):
            raise self._build_error(
                f"has labels, which only categories, booleans and integers of at most {MAX_CODES} values have"
            )
        texts = [label for _, label in self.labels]
        if any(not 1 <= len(text) <= MAX_LABEL_LENGTH or any(ord(c) < 32 for c in text) for text in texts):
            raise self._build_error(f"needs labels of 1 to {MAX_LABEL_LENGTH} characters, in one line")
        if len(set(texts)) != len(texts) or len({value for value, _ in self.labels}) != len(self.labels):
            raise self._build_error("gives a label, or labels a value, twice")
        for value, label in self.labels:
            if self._find_index(value) in (None, OUTSIDE, self.other_index):
                raise self._build_error(f"labels {value!r}, which is not one of its values", fix=self._suggest_labels())
            if self.kind == "category" and label in self.values and label != value:
                raise self._build_error(f"labels {value!r} with {label!r}, which is another of its values")

    def _suggest_labels(self) -> str:
        """Return the line without labels of values that are not declared."""
        from siloquent.schema.meaning import format_labels

        known = tuple(one for one in self.labels if self._find_index(one[0]) not in (None, OUTSIDE, self.other_index))
        return f"labels = {format_labels(replace(self, labels=known)._format_labels())}"

    def _compute_span(self) -> Fraction:
        """Return hi minus lo exactly, in the column's own unit or in seconds."""
        return _compute_distance(self.lo, self.hi)

    @property
    def is_numeric(self) -> bool:
        """Whether sums and comparisons by size are meaningful."""
        return self.kind in ("integer", "real")

    @property
    def is_temporal(self) -> bool:
        """Whether it is a date or datetime."""
        return self.kind in ("date", "datetime")

    @property
    def is_countable(self) -> bool:
        """Whether it has cells; ``id`` and ``text`` have none, so predicates and answers cannot contain them."""
        return self.kind not in ("id", "text")

    @property
    def is_code(self) -> bool:
        """Whether it is an integer of so few values that it is grouped value by value; declared bins come first."""
        return self.kind == "integer" and self.steps <= MAX_CODES

    @property
    def has_groups(self) -> bool:
        """Whether GROUP BY takes it as it is: listed values, true and false, bins, or an integer of few values."""
        return self.kind in ("category", "boolean") or bool(self.edges) or self.is_code

    def find_labelled(self, label: str) -> Any:
        """Return the value that has this label, None if none has it."""
        return next((value for value, known in self.labels if known == label), None)

    @property
    def steps(self) -> int:
        """The number of declared values, excluding the cells for other values and NULL."""
        if not self.is_countable:
            return 0
        if self.kind == "boolean":
            return 2
        if self.kind == "category":
            return len(self.values)
        return _count_steps(self.lo, self.hi, self.grid)  # cached: read for each of thousands of conditions

    @property
    def size(self) -> int:
        """The number of cells: declared values, then one for others and one for NULL where declared."""
        return self.steps + (self.other == "cell") + (self.null == "cell")

    @property
    def other_index(self) -> int:
        """The index of an unlisted value."""
        return self.steps if self.other == "cell" else OUTSIDE

    @property
    def null_index(self) -> int:
        """The index of NULL and NaN."""
        if self.null == "cell":
            return self.size - 1
        place = self._find_index(self.null_value) if self.null == "value" else OUTSIDE
        return OUTSIDE if place is None else place

    def index(self, value: object) -> int:
        """Return the index of one value: 0..size-1, or OUTSIDE. Total: it never fails, whatever the value's type.

        A value that cannot be parsed as this kind is NULL (see ``schema/files/coercion.py``).

        >>> Attribute("age", "integer", lo=Decimal(0), hi=Decimal(9), grid=Decimal(1), outside="clamp").index(99)
        9
        """
        place = self._find_index(value)
        return self.null_index if place is None else place

    def _find_index(self, value: object) -> int | None:
        """Return the index of ``value``; None if it is NULL."""
        if self.kind == "category":
            text = read_text(value)
            return None if text is None else _index_values(self.values).get(text, self.other_index)
        if self.kind == "boolean":
            truth = read_boolean(value)
            return None if truth is None else int(truth)
        if self.is_numeric:
            number = read_number(value)
            return None if number is None else self._index_number(number)
        moment = read_datetime(value) if self.is_temporal else None
        return None if moment is None else self._index_datetime(moment)

    def _index_number(self, x: float) -> int:
        lo, hi, grid = float(self.lo), float(self.hi), float(self.grid)  # type: ignore[arg-type]
        if self.outside == "drop" and not lo <= x <= hi:
            return OUTSIDE
        return math.floor((min(max(x, lo), hi) - lo) / grid + 0.5)

    def _index_datetime(self, moment: int) -> int:
        first, step, last = self.moments
        if self.outside == "drop" and not first <= moment <= last:
            return OUTSIDE
        return (min(max(moment, first), last) - first) // step

    @property
    def moments(self) -> tuple[int, int, int]:
        """The first moment, one grid step and the last moment of a date or datetime, in microseconds since 1970.

        The last cell is as wide as the others: a day that ends the range extends to midnight.
        """
        assert isinstance(self.lo, datetime)
        first, step = count_microseconds(self.lo), int(self.grid or 1) * 1_000_000
        return first, step, first + self.steps * step - 1

    @property
    def is_wide(self) -> bool:
        """Whether it has more than 10^6 values; their properties are then stored by runs, not per value."""
        return self.steps > MAX_POINTS

    def list_points(self, places: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return the declared values at ``places``, or all in order: int64, float64, str, bool or datetime64.

        Raises:
            RequestError: all values of more than 10^6 are requested.
        """
        places = self._all_places() if places is None else places
        if self.kind == "category":
            return np.array(self.values, dtype=object)[places]
        if self.kind == "boolean":
            return np.array([False, True])[places]
        if isinstance(self.lo, datetime):
            seconds = np.datetime64(self.lo, "s") + places * np.timedelta64(int(self.grid or 1), "s")
            return seconds.astype("datetime64[D]") if self.kind == "date" else seconds
        exact, denominator = self.list_numerators(places)
        return exact if denominator == 1 else exact / denominator

    def list_numerators(self, places: NDArray[np.int64] | None = None) -> tuple[NDArray[np.int64], int]:
        """Return the declared numbers at ``places``, or all in order, as exact numerators over one denominator.

        Raises:
            RequestError: all values of more than 10^6 are requested, or a numerator is 2^62 or more.
        """
        places = self._all_places() if places is None else places
        whole, denominator = self.grid.as_integer_ratio()  # type: ignore[union-attr]
        first = int(Fraction(self.lo) / Fraction(self.grid or 1))  # type: ignore[arg-type]
        if max(abs(first), abs(first + self.steps - 1)) * whole >= MAX_INTEGER:
            raise RequestError(
                f"Attribute {self.name!r} has values too large to compute with: they exceed 2^62 grid steps.",
                fix="compare it directly with constants, or declare it in a larger unit",
            )
        places = places.astype(np.int64) + first
        return (places * whole if places.any() else places), denominator

    def _all_places(self) -> NDArray[np.int64]:
        if self.is_wide:
            raise RequestError(
                f"Attribute {self.name!r} has {self.steps:,} values; the limit for checking them one by one is "
                f"{MAX_POINTS:,}.",
                fix="compare it with constants, or declare a coarser grid",
            )
        return np.arange(self.steps, dtype=np.int64)

    def label(self, index: int) -> Any:
        """Return cell ``index`` as a Python value; None for NULL, ``(other)`` for unlisted values."""
        if self.null == "cell" and index == self.size - 1:
            return None
        if index == self.steps:
            return OTHER
        if self.kind == "category":
            return self.values[index]
        if self.kind == "boolean":
            return bool(index)
        if isinstance(self.lo, datetime):
            moment = self.lo + timedelta(seconds=index * int(self.grid or 1))
            return moment.date() if self.kind == "date" else moment
        value = self.lo + index * self.grid  # type: ignore[operator]
        return int(value) if self.kind == "integer" else float(value)

    def list_bin_starts(self) -> NDArray[np.int64]:
        """Return the first cell of each declared bin, shape (bins,). Edges lie on the grid, so this is exact."""
        lo, grid = Fraction(self.lo or 0), Fraction(self.grid or 1)  # type: ignore[arg-type]
        return np.array([int((Fraction(edge) - lo) / grid) for edge in self.edges[:-1]], dtype=np.int64)

    def map_to_bins(self) -> NDArray[np.int64]:
        """Return the bin of each cell, shape (size + 1,), the last entry for OUTSIDE (-1); NULL's cell is a bin."""
        bins = np.searchsorted(self.list_bin_starts()[1:], self._all_places(), side="right")
        extra = [len(self.edges) - 1] if self.null == "cell" else []
        return np.concatenate([bins, extra, [OUTSIDE]]).astype(np.int64)

    def list_bin_labels(self) -> list[Any]:
        """Return the bins' names in order, then None for NULL if NULL is a cell.

        ``[0, 5)``, the last one closed; the value itself if every bin is as wide as the grid.
        """
        starts = self.list_bin_starts().tolist()
        every = len(starts) == self.steps and self.edges[-1] != self.hi
        names: list[Any] = [self.label(i) for i in starts] if every else list(format_bin_names(self, starts))
        return [*names, None] if self.null == "cell" else names


@lru_cache(maxsize=1024)
def _index_values(values: tuple[str, ...]) -> Mapping[str, int]:
    return {value: place for place, value in enumerate(values)}
