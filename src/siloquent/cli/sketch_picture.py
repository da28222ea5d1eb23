"""Pictures of a density over one or two features: shades on a terminal, SVG in a file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.cli.plain import clean
from siloquent.cli.screen import Screen
from siloquent.cli.sketch_files import write_text
from siloquent.errors import RequestError, UnknownName

if TYPE_CHECKING:
    from siloquent.sketch import Sketch

Floats = NDArray[np.float64]
ACROSS, DOWN = 60, 24
FINE = 64
# From a dark blue over green to yellow: readable without colours, since lightness alone grows.
_COLOURS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def show_map(screen: Screen, sketch: Sketch, names: list[str], output: Path | None) -> None:
    """Draw the density over ``names``; other features stay in the middle of their range.

    Raises:
        RequestError: The sketch compares sets, or there are more than two features. UnknownName: no such feature.
    """
    axes = [_axis(sketch, name.strip()) for name in names]
    if not 1 <= len(axes) <= 2:
        raise RequestError("A picture is over one or two features.", fix="--map age,bmi")
    if output is not None:
        values = _grid(sketch, axes, FINE, FINE)
        write_text(output, svg(values, [sketch.plan.features[i].name for i in axes], _ends(sketch, axes)))
    across, down = (ACROSS, DOWN if len(axes) == 2 else 1)
    values = _grid(sketch, axes, across, down)
    if screen.as_json:
        screen.document(
            {
                "schema": "siloquent/sketch-map/1",
                "features": [sketch.plan.features[i].name for i in axes],
                "ends": _ends(sketch, axes),
                "values": values.tolist(),
                "free": True,
                "guarantee": sketch.sentence(),
            }
        )
        return
    for line in _shades(values, ascii_only=screen.ascii_only) if len(axes) == 2 else _bars(values[0], screen):
        screen.line(line)
    ends = _ends(sketch, axes)
    words = [f"{clean(sketch.plan.features[i].name)} {lo:g} to {hi:g}" for i, (lo, hi) in zip(axes, ends, strict=True)]
    screen.line(f"across: {words[0]}" + (f"; up: {words[1]}" if len(axes) == 2 else ""))
    screen.note(f"At most {values.max():,.0f} records near a point. Free: it is computed from what was released.")


def _axis(sketch: Sketch, name: str) -> int:
    names = [feature.name for feature in sketch.plan.features]
    if name not in names:
        raise UnknownName("feature of this sketch", name, names, fix=f"--map {names[0]}")
    return names.index(name)


def _ends(sketch: Sketch, axes: list[int]) -> list[list[float]]:
    features = [sketch.plan.features[i] for i in axes]
    return [[feature.lo, feature.lo + (feature.steps - 1) * feature.grid] for feature in features]


def _grid(sketch: Sketch, axes: list[int], across: int, down: int) -> Floats:
    """Kernel sums, shape (down, across), the lowest line first."""
    from siloquent.sketch import Density, ask
    from siloquent.sketch.estimate.points import box

    low, high = box(sketch.plan)
    points = np.tile((low + high) / 2, (down * across, 1))
    up, right = np.divmod(np.arange(down * across), across)
    for axis, place, count in zip(axes, (right, up), (across, down), strict=False):
        points[:, axis] = low[axis] + (place + 0.5) / count * (high[axis] - low[axis])
    values: Floats = np.maximum(ask(sketch, Density(points)).values, 0).reshape(down, across)
    return values


def _shades(values: Floats, *, ascii_only: bool) -> list[str]:
    shades = " .:*#" if ascii_only else " ░▒▓█"
    level = np.minimum((values / max(values.max(), 1e-9) * len(shades)).astype(int), len(shades) - 1)
    return ["".join(shades[i] for i in line) for line in level[::-1]]


def _bars(values: Floats, screen: Screen) -> list[str]:
    full = "#" if screen.ascii_only else "█"
    height = 8
    filled = np.rint(values / max(values.max(), 1e-9) * height).astype(int)
    return ["".join(full if h >= level else " " for h in filled) for level in range(height, 0, -1)]


def svg(values: Floats, names: list[str], ends: list[list[float]]) -> str:
    """A picture with axes, a title and a description for readers who do not see it; every text is escaped."""
    down, across = values.shape
    size, edge = 480, 40
    most = max(float(values.max()), 1e-9)
    wide, tall = size / across, size / down
    cells = [
        f'<rect x="{edge + j * wide:.2f}" y="{(down - 1 - i) * tall:.2f}" width="{wide + 0.3:.2f}" '
        f'height="{tall + 0.3:.2f}" fill="{_colour(values[i, j] / most)}"/>'
        for i in range(down)
        for j in range(across)
    ]
    labels = [escape(name) for name in names]
    about = " and ".join(labels)
    (left, right), texts = ends[0], []
    texts.append(_text(edge + size / 2, size + 32, f"{labels[0]}: {left:g} to {right:g}"))
    if len(names) == 2:
        lowest, highest = ends[1]
        turned = f'transform="rotate(-90 14 {size / 2})"'
        texts.append(_text(14, size / 2, f"{labels[1]}: {lowest:g} to {highest:g}", turned))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size + edge} {size + edge}" role="img">'
        f"<title>Density over {about}</title>"
        f"<desc>Noisy kernel sums; the lightest places have about {most:,.0f} records near them.</desc>"
        + "".join(cells)
        + "".join(texts)
        + "</svg>\n"
    )


def _text(x: float, y: float, words: str, extra: str = "") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-family="sans-serif" font-size="13" text-anchor="middle" {extra}>{words}</text>'
    )


def _colour(part: float) -> str:
    at = min(max(part, 0.0), 1.0) * (len(_COLOURS) - 1)
    low = min(int(at), len(_COLOURS) - 2)
    mixed = [round(a + (b - a) * (at - low)) for a, b in zip(_COLOURS[low], _COLOURS[low + 1], strict=True)]
    return "#" + "".join(f"{value:02x}" for value in mixed)
