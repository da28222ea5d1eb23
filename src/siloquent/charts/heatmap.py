"""Heat maps: a value for each cell of a grid, as lightness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from siloquent.charts.chart import MAX_MARKS, Labels, Series, build_caption, clean_name, format_short
from siloquent.charts.svg import INK, choose_heat_colour, draw_rect, draw_text, render_document
from siloquent.errors import RequestError

SIZE, TOP = 480, 36


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Values, shape (lines, columns), the lowest line first; empty ones are left white.

    ``across`` and ``up``: labels for all columns and lines, or for the two ends of an axis, or none.
    """

    words: Labels
    values: Sequence[Iterable[float | None]]
    across: Sequence[str] = ()
    up: Sequence[str] = ()

    def __post_init__(self) -> None:
        grid = tuple(Series(line).values for line in self.values)
        object.__setattr__(self, "values", grid)
        if not grid or not grid[0] or len({len(line) for line in grid}) != 1:
            raise RequestError("A heat map is a grid: lines of equal length.")
        if len(grid) * len(grid[0]) > MAX_MARKS:
            raise RequestError(f"A heat map has at most {MAX_MARKS:,} places.")
        for labels, count in ((self.across, len(grid[0])), (self.up, len(grid))):
            if labels and len(labels) not in (2, count):
                raise RequestError(f"An axis of {count:,} places has {count:,} labels, 2 or none.")

    def svg(self) -> str:
        """Return the picture with its scale of lightness beside it."""
        grid = self._grid
        down, across = len(grid), len(grid[0])
        left = 44 + 7 * max((len(clean_name(name)) for name in self.up), default=0)
        wide, tall = SIZE / across, min(SIZE / down, 48.0)
        bottom = TOP + tall * down
        body = [
            # Slightly wider than its cell: browsers leave light seams between neighbours.
            draw_rect(
                left + j * wide,
                bottom - (i + 1) * tall,
                wide + 0.3,
                tall + 0.3,
                choose_heat_colour(self._compute_fraction(value)),
            )
            for i, line in enumerate(grid)
            for j, value in enumerate(line)
            if value is not None
        ]
        body += [
            draw_text(x, bottom + 16, name, anchor=anchor)
            for x, name, anchor in _arrange_labels(self.across, left, across)
        ]
        body += [
            draw_text(left - 6, bottom - (place + 0.5) * tall + 4, name, anchor="end")
            for place, name in _choose_labels(self.up, down)
        ]
        low, high = self._reach
        scale, right = 8, left + SIZE + 16
        each = (bottom - TOP) / scale
        body += [
            draw_rect(right, bottom - (k + 1) * each, 14, each + 0.3, choose_heat_colour(k / (scale - 1)))
            for k in range(scale)
        ]
        body += [
            draw_text(right + 18, bottom, format_short(low), anchor="start"),
            draw_text(right + 18, TOP + 10, format_short(high), anchor="start"),
        ]
        body.append(
            f'<rect x="{left}" y="{TOP}" width="{SIZE}" height="{bottom - TOP:.2f}" fill="none" stroke="{INK}"/>'
        )
        if self.words.across:
            body.append(draw_text(left + SIZE / 2, bottom + 34, self.words.across))
        if self.words.up:
            body.append(draw_text(16, (TOP + bottom) / 2, self.words.up, turned=True))
        return render_document(self.words, right + 100, bottom + 44, body)

    def lines(self, *, width: int = 80, ascii_only: bool = False) -> list[str]:
        """Return one shade a cell, the highest line on top, each as wide as fits, and the scale below."""
        shades = " .:*#" if ascii_only else " ░▒▓█"
        grid = self._grid
        down, across = len(grid), len(grid[0])
        names = dict(_choose_labels(self.up, down))
        margin = min(max((len(clean_name(name)) for name in names.values()), default=0), max(width // 3, 8))
        room = max(width - margin - 3, 10)
        each, step = max(1, min(room // across, 6)), max(1, -(-across // room))
        edge = "|" if ascii_only else "│"
        drawn = []
        for i in reversed(range(down)):
            cells = "".join(
                _choose_shade(shades, value, self._compute_fraction(value)) * each for value in grid[i][::step]
            )
            name = clean_name(names.get(i, ""))[:margin]
            drawn.append(f"{name:>{margin}} {edge}{cells}{edge}")
        low, high = self._reach
        ends = [clean_name(self.across[0]), clean_name(self.across[-1])] if self.across else []
        span = len(grid[0][::step]) * each
        below = [f"{'':>{margin}}  {ends[0]}{ends[1]:>{max(span - len(ends[0]), 1)}}"] if ends else []
        scale = f"{'':>{margin}}  {shades[1]} {format_short(low)} to {shades[-1]} {format_short(high)}"
        return [*drawn, *below, scale, *build_caption(self.words)]

    @property
    def _grid(self) -> Sequence[Sequence[float | None]]:
        return self.values  # type: ignore[return-value]  # made so by __post_init__

    @property
    def _reach(self) -> tuple[float, float]:
        seen = [value for line in self._grid for value in line if value is not None]
        return (min(0.0, *seen), max(0.0, *seen)) if seen else (0.0, 0.0)

    def _compute_fraction(self, value: float | None) -> float:
        low, high = self._reach
        return 0.0 if value is None or not high > low else (value - low) / (high - low)


def _choose_shade(shades: str, value: float | None, part: float) -> str:
    return " " if value is None else shades[min(int(part * len(shades)), len(shades) - 1)]


def _choose_labels(labels: Sequence[str], count: int) -> list[tuple[int, str]]:
    """Choose the labelled positions, at most 24."""
    if len(labels) != count:
        return list(zip((0, count - 1), labels, strict=False))
    step = max(1, -(-count // 24))
    return [(place, labels[place]) for place in range(0, count, step)]


def _arrange_labels(labels: Sequence[str], left: float, count: int) -> list[tuple[float, str, str]]:
    """Arrange the labels below the map; the two ends' labels stay inside."""
    if len(labels) != count:
        return list(zip((left, left + SIZE), labels, ("start", "end"), strict=False))
    letters = max(len(clean_name(name)) for name in labels)
    step = max(1, -(-count * (7 * letters + 8) // SIZE))
    return [(left + (place + 0.5) * SIZE / count, labels[place], "middle") for place in range(0, count, step)]
