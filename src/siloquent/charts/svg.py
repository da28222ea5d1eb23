"""SVG elements as text, axes with round numbers, and fills that differ in more than their colour."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from html import escape

from siloquent.charts.chart import Labels, clean_name, format_short, remove_unprintable

INK, GREY, PALE = "#222222", "#6b6b6b", "#dddddd"
COLOURS = ("#1f5a94", "#b3541e", "#2e7d4f", "#7a3f98", "#8a6d00", "#a0304f")
"""Colours with a contrast of at least 4.5 : 1 against white."""
DASHES = ("", "6 3", "2 2", "8 3 2 3", "1 3", "10 4")
_HATCHES = ("", "M0 8 8 0", "M0 0 8 8", "M0 4h8", "M4 0v8", "M0 8 8 0M0 0 8 8")
_HEAT = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def render_document(words: Labels, width: float, height: float, body: Sequence[str], *, fills: int = 0) -> str:
    """Render one ``<svg>`` with title, description and ``fills`` hatched fills; equal bodies give equal bytes.

    The ids of its parts depend on its content, so that several pictures can be in one page. In ``body`` the text
    ``ID-`` is replaced by them.
    """
    inner = "\n".join(body)
    title, about = (escape(remove_unprintable(said)) for said in (words.title, words.about))
    mark = "p" + hashlib.sha256(f"{words.title}\n{words.about}\n{inner}".encode()).hexdigest()[:8] + "-"
    hatched = "".join(_draw_hatching(f"{mark}fill{i}", i) for i in range(fills))
    defs = f"<defs>{hatched}</defs>\n" if hatched else ""
    wide, tall = format_coordinate(width), format_coordinate(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" '
        f'height="{tall}" role="img" aria-labelledby="{mark}title {mark}about" font-family="sans-serif">\n'
        f'<title id="{mark}title">{title}</title>\n<desc id="{mark}about">{about}</desc>\n'
        f'{defs}<rect width="{wide}" height="{tall}" fill="#ffffff"/>\n'
        f"{draw_text(12, 20, words.title, anchor='start', size=14)}\n{inner.replace('ID-', mark)}\n</svg>\n"
    )


def _draw_hatching(name: str, i: int) -> str:
    colour, path = COLOURS[i % len(COLOURS)], _HATCHES[i % len(_HATCHES)]
    lines = f'<path d="{path}" stroke="#ffffff" stroke-width="1.5"/>' if path else ""
    return (
        f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{colour}"/>{lines}</pattern>'
    )


def format_fill(i: int) -> str:
    """Return the fill of series i, as a value of ``fill=``; for documents with more than i ``fills``."""
    return f"url(#ID-fill{i})"


def draw_text(x: float, y: float, words: str, *, anchor: str = "middle", size: int = 12, turned: bool = False) -> str:
    """Return a line of text at (x, y); ``turned``: it reads upwards."""
    turn = f' transform="rotate(-90 {format_coordinate(x)} {format_coordinate(y)})"' if turned else ""
    return (
        f'<text x="{format_coordinate(x)}" y="{format_coordinate(y)}" '
        f'font-size="{size}" text-anchor="{anchor}" fill="{INK}"{turn}>'
        f"{escape(clean_name(words))}</text>"
    )


def draw_line(x1: float, y1: float, x2: float, y2: float, *, colour: str = INK, width: float = 1) -> str:
    """Return a straight line."""
    start = f'x1="{format_coordinate(x1)}" y1="{format_coordinate(y1)}"'
    ends = f'{start} x2="{format_coordinate(x2)}" y2="{format_coordinate(y2)}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{format_coordinate(width)}"/>'


def draw_rect(x: float, y: float, wide: float, tall: float, colour: str, about: str = "") -> str:
    """Return a filled rectangle; ``about`` is its tooltip."""
    inner = f"<title>{escape(about)}</title>" if about else ""
    size = f'width="{format_coordinate(max(wide, 0))}" height="{format_coordinate(max(tall, 0))}"'
    place = f'x="{format_coordinate(x)}" y="{format_coordinate(y)}" {size}'
    return f'<rect {place} fill="{colour}">{inner}</rect>' if inner else f'<rect {place} fill="{colour}"/>'


def format_coordinate(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def choose_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return at most ``most`` round numbers in [low, high]: multiples of 1, 2 or 5 times a power of ten.

    >>> choose_ticks(0, 4323), choose_ticks(-3, 12, most=4)
    ([0.0, 1000.0, 2000.0, 3000.0, 4000.0], [0.0, 5.0, 10.0])
    """
    if not high - low > 1e-300:
        return [low]
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * turn for turn in (1, 2, 5, 10) if power * turn >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def choose_heat_colour(part: float) -> str:
    """Return a colour for 0..1, from dark blue over green to yellow, with increasing lightness for colour blindness."""
    place = min(max(part, 0.0), 1.0) * (len(_HEAT) - 1)
    low = min(int(place), len(_HEAT) - 2)
    mixed = [round(a + (b - a) * (place - low)) for a, b in zip(_HEAT[low], _HEAT[low + 1], strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)


def draw_legend(names: Sequence[str], x: float, y: float) -> list[str]:
    """Draw one hatched square and name a series, in a line from (x, y); nothing if no series has a name."""
    parts = []
    for i, name in enumerate(names):
        if name:
            parts += [draw_rect(x, y - 9, 12, 12, format_fill(i)), draw_text(x + 17, y + 1, name, anchor="start")]
            x += 40 + 7 * len(clean_name(name))
    return parts


def label_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round numbers in [low, high] and their labels."""
    return [(value, format_short(value)) for value in choose_ticks(low, high)]
