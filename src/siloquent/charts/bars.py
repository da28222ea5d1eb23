"""Bar charts with error bars, one bar for each label: horizontal, so that labels stay readable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from siloquent.charts.chart import Labels, Series, check_size, clean_name, compute_reach, format_short
from siloquent.charts.svg import (
    GREY,
    INK,
    PALE,
    draw_legend,
    draw_line,
    draw_rect,
    draw_text,
    format_fill,
    label_ticks,
    render_document,
)
from siloquent.errors import RequestError

THICK, GAP, WIDTH, RIGHT, TOP = 16, 8, 640, 24, 36


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar a label and series, from 0 to its value, with a whisker over its interval."""

    words: Labels
    labels: Sequence[str]
    series: Sequence[Series]

    def __post_init__(self) -> None:
        check_size(len(self.labels), self.series)
        if len(self.series) > 6:
            raise RequestError("Bars show at most 6 series: more cannot be told apart.")

    def svg(self) -> str:
        """Return the picture, 640 wide, with a height that grows with the bars."""
        low, high = compute_reach(self.series)
        left = 20 + 7 * max(len(clean_name(label)) for label in self.labels)
        span, group = high - low or 1.0, THICK * len(self.series) + GAP
        named = any(one.name for one in self.series)
        top = TOP + (20 if named else 0)
        bottom = top + group * len(self.labels)
        wide = max(WIDTH - left - RIGHT, 120)

        def place(value: float) -> float:
            return left + (value - low) / span * wide

        body = draw_legend([one.name for one in self.series], left, TOP + 4)
        for value, words in label_ticks(low, high):
            body += [
                draw_line(place(value), top, place(value), bottom, colour=PALE),
                draw_text(place(value), bottom + 16, words),
            ]
        for i, label in enumerate(self.labels):
            start = top + i * group + GAP / 2
            body.append(draw_text(left - 8, start + THICK * len(self.series) / 2 + 4, label, anchor="end"))
            for j, one in enumerate(self.series):
                body += _draw_svg_bar(one, i, j, start + j * THICK, place, label)
        body.append(draw_line(place(0), top, place(0), bottom, colour=GREY))
        if self.words.across:
            body.append(draw_text(left + wide / 2, bottom + 34, self.words.across))
        return render_document(self.words, left + wide + RIGHT, bottom + 44, body, fills=len(self.series))

    def lines(self, *, width: int = 80, ascii_only: bool = False) -> list[str]:
        """Return a line a label and series; the uncertain part of a bar is light."""
        low, high = compute_reach(self.series)
        names = [
            " ".join(part for part in (clean_name(label), clean_name(one.name)) if part)
            for label in self.labels
            for one in self.series
        ]
        wide = min(max(len(name) for name in names), max(width // 3, 8))
        places = [(one, i) for i in range(len(self.labels)) for one in self.series]
        numbers = [_format_value(one, i) for one, i in places]
        room = max(width - wide - max(len(number) for number in numbers) - 2, 8)
        return [
            f"{name[:wide]:<{wide}} {cell:<{room}} {number}".rstrip()
            for name, number, (one, i) in zip(names, numbers, places, strict=True)
            for cell in [_draw_text_cell(one, i, low, high, room, ascii_only=ascii_only)]
        ]


def draw_text_bar(
    low: float, value: float, high: float, *, span: tuple[float, float], width: int, ascii_only: bool = False
) -> str:
    """Return a bar from 0 to ``value`` in a line of ``width``, its uncertain part, ``low`` to ``high``, drawn lighter.

    Args:
        span: The values at the line's ends; it contains 0.

    >>> draw_text_bar(4, 6, 8, span=(0, 10), width=10, ascii_only=True)
    '####--|--'
    >>> draw_text_bar(-4, -2, 0, span=(-4, 4), width=8, ascii_only=True)
    '--|--'
    """
    sure, unsure, mark = ("#", "-", "|") if ascii_only else ("█", "░", "┃")
    least, most = span
    if not most > least:
        return ""

    def cell(x: float) -> int:
        return max(0, min(width, round((x - least) / (most - least) * width)))

    zero = cell(0)
    first, last = sorted((cell(low), cell(high)))
    middle = cell(value)
    drawn = [" "] * width
    # The part common to the whole interval is certain: from 0 to its nearer end.
    sure_from, sure_to = (zero, first) if first >= zero else (last, zero) if last <= zero else (zero, zero)
    drawn[sure_from:sure_to] = sure * (sure_to - sure_from)
    drawn[first:last] = unsure * (last - first)
    line = "".join(drawn).rstrip()
    return f"{line[:middle]:<{middle}}{mark}{line[middle:]}" if line or middle else ""


def _draw_text_cell(one: Series, i: int, low: float, high: float, room: int, *, ascii_only: bool) -> str:
    value = one.values[i]
    if value is None:
        return ""
    ends = one.get_interval(i) or (value, value)
    return draw_text_bar(ends[0], value, ends[1], span=(low, high), width=room - 1, ascii_only=ascii_only)


def _format_value(one: Series, i: int) -> str:
    value, ends = one.values[i], one.get_interval(i)
    if value is None:
        return "-"
    return (
        format_short(value)
        if ends is None
        else f"{format_short(value)} ({format_short(ends[0])} to {format_short(ends[1])})"
    )


def _draw_svg_bar(one: Series, i: int, j: int, top: float, place: Callable[[float], float], label: str) -> list[str]:
    value = one.values[i]
    if value is None:
        return []
    start, end = sorted((place(0), place(value)))
    parts = [
        draw_rect(
            start,
            top,
            end - start,
            THICK - 2,
            format_fill(j),
            f"{clean_name(label)} {clean_name(one.name)}: {_format_value(one, i)}",
        )
    ]
    if ends := one.get_interval(i):
        low, high, middle = place(ends[0]), place(ends[1]), top + THICK / 2 - 1
        parts.append(draw_line(low, middle, high, middle, colour="#ffffff", width=4))
        parts.append(draw_line(low, middle, high, middle, colour=INK, width=1.5))
        parts += [draw_line(x, middle - 4, x, middle + 4, colour=INK, width=1.5) for x in (low, high)]
    return parts
