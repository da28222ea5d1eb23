"""The parts common to all charts: labels, series of numbers, and the two output formats."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from siloquent.errors import RequestError

MAX_LETTERS = 60
MAX_MARKS = 20_000
"""The most bars, points or cells of a chart: more are unreadable, and too slow for browsers."""
LARGEST = 1e150
"""The largest absolute value that axes support; larger numbers count as empty."""


class Chart(Protocol):
    """A chart that can be drawn in a file or in a terminal."""

    @property
    def words(self) -> Labels: ...

    def svg(self) -> str:
        """Return one ``<svg>`` element with title and description; all its text is escaped."""

    def lines(self, *, width: int = 80, ascii_only: bool = False) -> list[str]:
        """Return lines for a terminal of ``width`` characters; with ``ascii_only`` without block characters."""


@dataclass(frozen=True, slots=True)
class Labels:
    """A chart's title, a one-sentence description (``about``), and the quantities on its two axes."""

    title: str
    about: str
    across: str = ""
    up: str = ""

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.about.strip():
            raise RequestError("A picture has a title and one sentence for those who do not see it.")


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers in order, each with its interval if it has one; ``None`` is an empty value.

    Args:
        values: As many as the chart has labels or points; values that are not finite, or beyond 1e150, are empty.
        low, high: The ends of the intervals, both or none, as many as there are values.
    """

    values: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    name: str = ""

    def __init__(
        self,
        values: Iterable[float | None],
        *,
        low: Iterable[float | None] = (),
        high: Iterable[float | None] = (),
        name: str = "",
    ) -> None:
        for field, given in (("values", values), ("low", low), ("high", high)):
            object.__setattr__(self, field, tuple(_drop_non_finite(value) for value in given))
        object.__setattr__(self, "name", name)
        if (len(self.low), len(self.high)) not in ((0, 0), (len(self.values), len(self.values))):
            raise RequestError("A series has as many interval ends as values, or none.")

    def get_interval(self, place: int) -> tuple[float, float] | None:
        """Return the interval at ``place``, if there is one."""
        if not self.low:
            return None
        low, high = self.low[place], self.high[place]
        return None if low is None or high is None else (low, high)

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the largest visible number; 0 and 0 if there is none."""
        seen = [value for part in (self.values, self.low, self.high) for value in part if value is not None]
        return (min(seen), max(seen)) if seen else (0.0, 0.0)


def compute_reach(series: Iterable[Series]) -> tuple[float, float]:
    """Return the joint range of all ``series`` and 0."""
    reaches = [one.reach for one in series]
    return min(0.0, *(low for low, _ in reaches)), max(0.0, *(high for _, high in reaches))


def check_size(count: int, series: Iterable[Series]) -> None:
    """Refuse series of unequal lengths, no series, and charts that are too large to draw."""
    given = tuple(series)
    if not given or any(len(one.values) != count for one in given):
        raise RequestError(f"A picture of {count:,} places needs series of {count:,} values.")
    if not 1 <= count * len(given) <= MAX_MARKS:
        raise RequestError(f"A chart can show 1 to {MAX_MARKS:,} values, not {count * len(given):,}.")


def format_short(value: float) -> str:
    """Format ``value`` with four digits and thousands separators.

    >>> format_short(1234567.0), format_short(0.25), format_short(-3.0), format_short(2.5e-9)
    ('1,235,000', '0.25', '-3', '2.5e-09')
    """
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size < 15:
        return f"{value:.4g}"
    text = f"{round(value, 3 - size):,.{max(0, 3 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def build_caption(words: Labels) -> list[str]:
    """Return the axes' quantities as a line below a chart in a terminal; empty if there are none."""
    named = [f"{axis}: {clean_name(name)}" for axis, name in (("across", words.across), ("up", words.up)) if name]
    return ["; ".join(named)] if named else []


def remove_unprintable(text: str) -> str:
    """Return ``text`` without characters that control a terminal or are invalid in XML (control, direction, ...)."""
    spaced = (" " if unicodedata.category(letter) == "Zs" else letter for letter in text)
    return "".join(letter for letter in spaced if letter.isprintable())


def clean_name(text: object) -> str:
    """Return a printable name of at most 60 characters."""
    kept = remove_unprintable(str(text))
    return kept if len(kept) <= MAX_LETTERS else kept[: MAX_LETTERS - 1] + "…"


def _drop_non_finite(value: float | None) -> float | None:
    if value is None:
        return None
    number = float(value)
    return number if abs(number) <= LARGEST else None  # also no NaN
