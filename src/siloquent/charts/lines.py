"""Line charts over an ordered axis, each line with the band in which its true values lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from siloquent.charts.chart import Labels, Series, build_caption, check_size, clean_name, compute_reach, format_short
from siloquent.charts.svg import (
    COLOURS,
    DASHES,
    GREY,
    PALE,
    draw_line,
    draw_text,
    format_coordinate,
    label_ticks,
    render_document,
)
from siloquent.errors import RequestError

WIDE, TALL, LEFT, TOP, BELOW, RIGHT = 540, 260, 76, 36, 44, 24
_MARKS = "*o+x#@"
_BLOCKS = "●○◆◇■□"


@dataclass(frozen=True, slots=True)
class Lines:
    """One line a series over the positions ``x``, with a light band over its intervals; empty values break a line.

    ``labels``: labels of the positions, instead of their numbers.
    """

    words: Labels
    x: Sequence[float]
    series: Sequence[Series]
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_size(len(self.x), self.series)
        if len(self.series) > 6:
            raise RequestError("A picture shows at most 6 lines: more cannot be told apart.")
        if any(b <= a for a, b in zip(self.x, self.x[1:], strict=False)):
            raise RequestError("The places of a line grow from left to right.")
        if self.labels and len(self.labels) != len(self.x):
            raise RequestError(f"Lines over {len(self.x):,} places have {len(self.x):,} labels, or none.")

    def svg(self) -> str:
        """Return the picture, 640 x 340."""
        low, high = compute_reach(self.series)
        first, last = float(self.x[0]), float(self.x[-1])
        right, bottom = LEFT + WIDE, TOP + TALL

        def across(value: float) -> float:
            return LEFT + (value - first) / (last - first or 1.0) * WIDE

        def up(value: float) -> float:
            return bottom - (value - low) / (high - low or 1.0) * TALL

        body = []
        for value, words in label_ticks(low, high):
            body += [draw_line(LEFT, up(value), right, up(value), colour=PALE)]
            body += [draw_text(LEFT - 8, up(value) + 4, words, anchor="end")]
        for value, words in self._choose_marks():
            body.append(draw_text(across(value), bottom + 16, words))
        body.append(draw_line(LEFT, up(0), right, up(0), colour=GREY))
        for j, one in enumerate(self.series):
            body += _draw_band(one, j, self.x, across, up)
            body += _draw_series(one, j, self.x, across, up)
        body += _draw_names(self.series)
        if self.words.across:
            body.append(draw_text(LEFT + WIDE / 2, bottom + 34, self.words.across))
        if self.words.up:
            body.append(draw_text(16, TOP + TALL / 2, self.words.up, turned=True))
        return render_document(self.words, right + RIGHT, bottom + BELOW, body)

    def lines(self, *, width: int = 80, ascii_only: bool = False) -> list[str]:
        """Return a grid of characters, 12 lines high: one mark a series, light where there is only its band."""
        low, high = compute_reach(self.series)
        margin, tall = max(len(format_short(low)), len(format_short(high))), 12
        wide = max(width - margin - 2, 10)
        grid = [[" "] * wide for _ in range(tall)]
        first, span = float(self.x[0]), float(self.x[-1]) - float(self.x[0]) or 1.0

        def down(value: float) -> int:
            return min(tall - 1, max(0, tall - 1 - round((value - low) / (high - low or 1.0) * (tall - 1))))

        for column in range(wide):
            at_x = first + column / (wide - 1) * span
            i = min(range(len(self.x)), key=lambda place: abs(self.x[place] - at_x))
            for one in self.series:
                if ends := one.get_interval(i):
                    for row in range(down(ends[1]), down(ends[0]) + 1):
                        grid[row][column] = "." if ascii_only else "░"
            for j, one in enumerate(self.series):
                if (value := one.values[i]) is not None:
                    grid[down(value)][column] = (_MARKS if ascii_only else _BLOCKS)[j]
        edge = "|" if ascii_only else "│"
        ends_at = {0: format_short(high), tall - 1: format_short(low)}
        drawn = [f"{ends_at.get(row, ''):>{margin}} {edge}{''.join(cells)}".rstrip() for row, cells in enumerate(grid)]
        marks = self._choose_marks()
        left, right = marks[0][1], marks[-1][1]
        names = [
            f"{(_MARKS if ascii_only else _BLOCKS)[j]} {clean_name(one.name)}"
            for j, one in enumerate(self.series)
            if one.name
        ]
        return [
            *drawn,
            f"{'':>{margin}}  {left}{right:>{max(wide - len(left), 1)}}".rstrip(),
            *(["  ".join(names)] if names else []),
            *build_caption(self.words),
        ]

    def _choose_marks(self) -> list[tuple[float, str]]:
        """Choose the labelled positions below the axis: at most 6 labels, or round numbers."""
        if not self.labels:
            return [
                (float(self.x[0]), format_short(self.x[0])),
                *label_ticks(self.x[0], self.x[-1])[1:-1],
                (float(self.x[-1]), format_short(self.x[-1])),
            ]
        step = max(1, -(-(len(self.x) - 1) // 5))
        return [(float(self.x[i]), clean_name(self.labels[i])) for i in range(0, len(self.x), step)]


PixelScale = Callable[[float], float]


def _split_runs(one: Series) -> list[list[int]]:
    """Return the indices of each stretch without an empty value."""
    runs: list[list[int]] = [[]]
    for i, value in enumerate(one.values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(i)
    return [run for run in runs if run]


def _draw_band(one: Series, j: int, x: Sequence[float], across: PixelScale, up: PixelScale) -> list[str]:
    parts = []
    for run in _split_runs(one):
        ends = [(i, found) for i in run if (found := one.get_interval(i))]
        if len(ends) > 1:
            over = [f"{format_coordinate(across(x[i]))} {format_coordinate(up(high))}" for i, (_, high) in ends]
            under = [
                f"{format_coordinate(across(x[i]))} {format_coordinate(up(low))}" for i, (low, _) in reversed(ends)
            ]
            parts.append(f'<path d="M{"L".join(over + under)}Z" fill="{COLOURS[j]}" fill-opacity="0.2"/>')
    return parts


def _draw_series(one: Series, j: int, x: Sequence[float], across: PixelScale, up: PixelScale) -> list[str]:
    dash = f' stroke-dasharray="{DASHES[j]}"' if DASHES[j] else ""
    parts = []
    for run in _split_runs(one):
        places = [(across(x[i]), up(value)) for i in run if (value := one.values[i]) is not None]
        if len(places) == 1:
            ((px, py),) = places
            parts.append(
                f'<circle cx="{format_coordinate(px)}" cy="{format_coordinate(py)}" r="3" fill="{COLOURS[j]}"/>'
            )
        else:
            path = "L".join(f"{format_coordinate(px)} {format_coordinate(py)}" for px, py in places)
            parts.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[j]}" stroke-width="2"{dash}/>')
    return parts


def _draw_names(series: Sequence[Series]) -> list[str]:
    parts, x = [], float(LEFT + 8)
    for j, one in enumerate(series):
        if one.name:
            dash = f' stroke-dasharray="{DASHES[j]}"' if DASHES[j] else ""
            parts.append(
                f'<path d="M{format_coordinate(x)} {TOP + 6}h24" fill="none" '
                f'stroke="{COLOURS[j]}" stroke-width="2"{dash}/>'
            )
            parts.append(draw_text(x + 30, TOP + 10, one.name, anchor="start"))
            x += 52 + 7 * len(clean_name(one.name))
    return parts
