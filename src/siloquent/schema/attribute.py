"""One declared column: its values, and the total function that puts every value of every row into exactly one place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.bins import bin_names
from siloquent.schema.reading import microseconds, read_boolean, read_moment, read_number, read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["integer", "real", "category", "boolean", "date", "datetime", "id", "text"]
Bound = Decimal | datetime | None

OUTSIDE = -1
OTHER = "(other)"
LONGEST_NAME = 128
MOST_POINTS = 10**6
MOST_STEPS = 2**40
MOST_FROM_ZERO = 2**48
MOST_INTEGER = 2**62
STEP_SECONDS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
FUNCTIONS = {
    "length": ("text", "category"),
    "year": ("date", "datetime"),
    "month": ("date", "datetime"),
    "day": ("date", "datetime"),
    "hour": ("datetime",),
    "dayofweek": ("date", "datetime"),
}
"""What a derived attribute may compute, and from which kinds."""


@lru_cache(maxsize=1_024)
def _steps_between(lo: Bound, hi: Bound, grid: Decimal | None) -> int:
    return int(_between(lo, hi) / Fraction(grid or 1)) + 1


def _between(lo: Bound, hi: Bound) -> Fraction:
    if isinstance(lo, datetime) and isinstance(hi, datetime):
        return Fraction((hi - lo) // timedelta(microseconds=1), 1_000_000)
    return Fraction(hi) - Fraction(lo)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column's declaration. ``size`` cells, then OUTSIDE (-1); cells are the declared values, ``other``, NULL.

    ``lo``, ``hi``: Decimal for numbers, datetime for dates. ``grid``: in the column's own unit, seconds for dates.
    ``edges``: of declared bins, first lo, last hi, which belongs to the last bin, or one step beyond hi.
    ``null``: drop, cell, or value (NULL is read as ``null_value``).
    ``function`` and ``argument`` are set on derived attributes.
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

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= LONGEST_NAME or any(ord(c) < 32 or c == '"' for c in self.name):
            raise SchemaError(
                f"An attribute's name is 1 to {LONGEST_NAME} characters without double quotes, not {self.name[:20]!r}.",
                fix="rename the column in its source, and declare it under the new name",
            )
        if self.is_numeric or self.is_temporal:
            self._check_range()
        elif self.kind == "category":
            self._check_values()
        if self.null == "value" and self.is_countable and self.null_index == OUTSIDE:
            raise self._wrong(f"null = {{ value = {repr(self.null_value)[:60]} }} is not one of its own values")

    def _wrong(self, what: str, *, fix: str = "") -> SchemaError:
        return SchemaError(f"Attribute {self.name!r}: {what}.", fix=fix)

    def _check_range(self) -> None:
        if self.lo is None or self.hi is None:
            raise self._wrong("has no bounds", fix=f'add lo = .., hi = .. to the attribute named "{self.name}"')
        if self.grid is None:
            raise self._wrong("has no grid", fix=f'add grid = .. to the attribute named "{self.name}"')
        bounds = (self.lo, self.hi)
        if not all(isinstance(bound, datetime if self.is_temporal else Decimal) for bound in bounds):
            raise self._wrong(f"is a {self.kind}, so its bounds are {'dates' if self.is_temporal else 'numbers'}")
        if not all(x.is_finite() for x in (*bounds, self.grid) if isinstance(x, Decimal)):
            raise self._wrong("has bounds or a grid that are not finite")
        if self.grid <= 0 or not self.lo <= self.hi:  # type: ignore[operator]
            raise self._wrong("needs lo <= hi and a grid above 0")
        if self.is_temporal:
            self._check_moments()
        else:
            self._check_numbers()
        if self._span() / Fraction(self.grid) >= MOST_STEPS:
            raise self._wrong("has more than 2^40 grid steps", fix="use a coarser grid")
        self._check_edges()

    def _check_moments(self) -> None:
        lo, grid = self.lo, Fraction(self.grid or 1)
        assert isinstance(lo, datetime)
        if grid % 1 or (self.kind == "date" and grid % 86_400):
            raise self._wrong(f"has a grid that is no whole number of {'days' if self.kind == 'date' else 'seconds'}")
        if self.kind == "date" and lo.time() != time(0):
            raise self._wrong("is a date, so its bounds have no time of day", fix='type = "datetime"')
        if self._span() % grid:
            raise self._wrong(f"needs bounds that are multiples of its grid ({self.grid} s) apart")

    def _check_numbers(self) -> None:
        # Fractions, since Decimal rounds to 28 digits and refuses remainders beyond them.
        lo, hi, grid = (Fraction(bound) for bound in (self.lo, self.hi, self.grid))  # type: ignore[arg-type]
        if lo % grid or hi % grid:
            raise self._wrong(f"lo and hi must be multiples of the grid {self.grid}")
        if self.kind == "integer" and (grid % 1 or lo % 1):
            raise self._wrong("is an integer, so lo, hi and grid are whole", fix='type = "real"')
        if self.kind == "integer" and max(abs(lo), abs(hi)) >= MOST_INTEGER:
            raise self._wrong("is an integer, so its bounds lie within 2^62", fix='type = "real"')
        if max(abs(lo), abs(hi)) / grid > MOST_FROM_ZERO:
            raise self._wrong(
                "is more than 2^48 grid steps away from zero, where doubles are too coarse", fix="use a coarser grid"
            )

    def _check_edges(self) -> None:
        if not self.edges:
            return
        if self.is_temporal or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise self._wrong("bins belong to numbers and their edges increase")
        beyond = Fraction(self.hi) + Fraction(self.grid or 1)  # type: ignore[arg-type]
        if self.edges[0] != self.lo or (self.edges[-1] != self.hi and Fraction(self.edges[-1]) != beyond):
            raise self._wrong(f"its bins must begin at lo ({self.lo}) and end at hi ({self.hi})")
        if any(Fraction(edge) % Fraction(self.grid or 1) for edge in self.edges):
            raise self._wrong(f"its bin edges must be multiples of the grid {self.grid}")

    def _check_values(self) -> None:
        if not self.values:
            raise self._wrong("has no values", fix=f'add values = ["..", ".."] to the attribute named "{self.name}"')
        if len(set(self.values)) != len(self.values):
            raise self._wrong("lists a value twice")
        if any("\0" in value for value in self.values):
            raise self._wrong("lists a value with a NUL character, which engines cannot compare")
        if OTHER in self.values:
            raise self._wrong(f"{OTHER!r} is the name of the cell for values that are not listed")
        if len(self.values) > MOST_POINTS:
            raise self._wrong(f"lists more than {MOST_POINTS:,} values")

    def _span(self) -> Fraction:
        """From lo to hi, exactly, in the column's own unit or in seconds."""
        return _between(self.lo, self.hi)

    @property
    def is_numeric(self) -> bool:
        """Whether sums and comparisons by size make sense."""
        return self.kind in ("integer", "real")

    @property
    def is_temporal(self) -> bool:
        """Whether it is a date or datetime."""
        return self.kind in ("date", "datetime")

    @property
    def is_countable(self) -> bool:
        """Whether it has cells at all; ``id`` and ``text`` do not, so no predicate and no answer can hold them."""
        return self.kind not in ("id", "text")

    @property
    def steps(self) -> int:
        """How many declared values there are, without the cells for other values and NULL."""
        if not self.is_countable:
            return 0
        if self.kind == "boolean":
            return 2
        if self.kind == "category":
            return len(self.values)
        return _steps_between(self.lo, self.hi, self.grid)  # asked for each of thousands of conditions

    @property
    def size(self) -> int:
        """How many cells there are: declared values, then one for others, then one for NULL, where declared."""
        return self.steps + (self.other == "cell") + (self.null == "cell")

    @property
    def other_index(self) -> int:
        """The place of a value that is not listed."""
        return self.steps if self.other == "cell" else OUTSIDE

    @property
    def null_index(self) -> int:
        """The place of NULL and NaN."""
        if self.null == "cell":
            return self.size - 1
        place = self._place(self.null_value) if self.null == "value" else OUTSIDE
        return OUTSIDE if place is None else place

    def index(self, value: object) -> int:
        """The place of one value: 0..size-1, or OUTSIDE. Total: no value of any type makes it fail.

        What cannot be read as a value of this kind is NULL (``schema/reading.py`` says what can).

        >>> Attribute("age", "integer", lo=Decimal(0), hi=Decimal(9), grid=Decimal(1), outside="clamp").index(99)
        9
        """
        place = self._place(value)
        return self.null_index if place is None else place

    def _place(self, value: object) -> int | None:
        """The place of ``value``, None where it is NULL."""
        if self.kind == "category":
            text = read_text(value)
            return None if text is None else _places_of(self.values).get(text, self.other_index)
        if self.kind == "boolean":
            truth = read_boolean(value)
            return None if truth is None else int(truth)
        if self.is_numeric:
            number = read_number(value)
            return None if number is None else self._number_place(number)
        moment = read_moment(value) if self.is_temporal else None
        return None if moment is None else self._moment_place(moment)

    def _number_place(self, x: float) -> int:
        lo, hi, grid = float(self.lo), float(self.hi), float(self.grid)  # type: ignore[arg-type]
        if self.outside == "drop" and not lo <= x <= hi:
            return OUTSIDE
        return math.floor((min(max(x, lo), hi) - lo) / grid + 0.5)

    def _moment_place(self, moment: int) -> int:
        first, step, last = self.moments
        if self.outside == "drop" and not first <= moment <= last:
            return OUTSIDE
        return (min(max(moment, first), last) - first) // step

    @property
    def moments(self) -> tuple[int, int, int]:
        """Of a date or datetime, in microseconds since 1970: the first moment, one grid step, the last moment.

        The last cell is as wide as the others: a day that ends the range counts up to midnight.
        """
        assert isinstance(self.lo, datetime)
        first, step = microseconds(self.lo), int(self.grid or 1) * 1_000_000
        return first, step, first + self.steps * step - 1

    @property
    def is_wide(self) -> bool:
        """Whether it has more than 10^6 values: what is known of them is kept by runs, not value by value."""
        return self.steps > MOST_POINTS

    def points(self, places: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """The declared values at ``places``, or all in order: int64, float64, str, bool or datetime64.

        Raises:
            RequestError: all of more than 10^6 values.
        """
        places = self._all_places() if places is None else places
        if self.kind == "category":
            return np.array(self.values, dtype=object)[places]
        if self.kind == "boolean":
            return np.array([False, True])[places]
        if isinstance(self.lo, datetime):
            seconds = np.datetime64(self.lo, "s") + places * np.timedelta64(int(self.grid or 1), "s")
            return seconds.astype("datetime64[D]") if self.kind == "date" else seconds
        exact, denominator = self.numerators(places)
        return exact if denominator == 1 else exact / denominator

    def numerators(self, places: NDArray[np.int64] | None = None) -> tuple[NDArray[np.int64], int]:
        """The declared numbers at ``places``, or all in order, exactly: whole numerators over one denominator.

        Raises:
            RequestError: all of more than 10^6 values, or numerators of 2^62 or more.
        """
        places = self._all_places() if places is None else places
        whole, denominator = self.grid.as_integer_ratio()  # type: ignore[union-attr]
        first = int(Fraction(self.lo) / Fraction(self.grid or 1))  # type: ignore[arg-type]
        if max(abs(first), abs(first + self.steps - 1)) * whole >= MOST_INTEGER:
            raise RequestError(
                f"Attribute {self.name!r} has values too large to compute with: they pass 2^62 grid steps.",
                fix="compare it as it is with constants, or declare it in a larger unit",
            )
        places = places.astype(np.int64) + first
        return (places * whole if places.any() else places), denominator

    def _all_places(self) -> NDArray[np.int64]:
        if self.is_wide:
            raise RequestError(
                f"Attribute {self.name!r} has {self.steps:,} values; at most {MOST_POINTS:,} are looked at one by one.",
                fix="compare it with constants, or declare a coarser grid",
            )
        return np.arange(self.steps, dtype=np.int64)

    def label(self, index: int) -> Any:
        """The value of cell ``index`` as a Python value; None for NULL, ``(other)`` for values that are not listed."""
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

    def bin_starts(self) -> NDArray[np.int64]:
        """The first cell of each declared bin, shape (bins,). Edges lie on the grid, so this is exact."""
        lo, grid = Fraction(self.lo or 0), Fraction(self.grid or 1)  # type: ignore[arg-type]
        return np.array([int((Fraction(edge) - lo) / grid) for edge in self.edges[:-1]], dtype=np.int64)

    def bin_of(self) -> NDArray[np.int64]:
        """Which bin each cell falls into, shape (size + 1,), the last entry for OUTSIDE (-1); NULL's cell is a bin."""
        bins = np.searchsorted(self.bin_starts()[1:], self._all_places(), side="right")
        extra = [len(self.edges) - 1] if self.null == "cell" else []
        return np.concatenate([bins, extra, [OUTSIDE]]).astype(np.int64)

    def bin_labels(self) -> list[Any]:
        """The bins' names in order, then None for NULL where NULL is a cell.

        ``[0, 5)``, the last one closed; values by themselves where every bin is as wide as the grid.
        """
        starts = self.bin_starts().tolist()
        every = len(starts) == self.steps and self.edges[-1] != self.hi
        names: list[Any] = [self.label(i) for i in starts] if every else list(bin_names(self, starts))
        return [*names, None] if self.null == "cell" else names


@lru_cache(maxsize=1024)
def _places_of(values: tuple[str, ...]) -> Mapping[str, int]:
    return {value: place for place, value in enumerate(values)}
