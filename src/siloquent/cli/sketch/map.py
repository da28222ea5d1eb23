"""Charts of a density over one or two features: a line with its band, or a map, on a terminal and as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.cli.base.paths import require_svg, write_new
from siloquent.cli.base.screen import Screen
from siloquent.documents.sketch import build_map_document
from siloquent.errors import RequestError, UnknownName

if TYPE_CHECKING:
    from siloquent.charts import Chart
    from siloquent.sketch import Sketch
    from siloquent.sketch.spec import DensityEstimate

ACROSS, DOWN = 60, 24
FINE = 64


def show_map(screen: Screen, sketch: Sketch, names: list[str], output: Path | None) -> None:
    """Draw the density over ``names``; other features are fixed at the middle of their range.

    Raises:
        RequestError: the sketch compares sets, or there are more than two features. UnknownName: no such feature.
    """
    axes = [_find_axis(sketch, name.strip()) for name in names]
    if not 1 <= len(axes) <= 2:
        raise RequestError("A chart takes one or two features.", fix="--map age,bmi")
    if output is not None:
        require_svg(output, "-o")
        write_new(output, build_density_chart(sketch, axes, FINE, FINE if len(axes) == 2 else 1).svg())
    across, down = ACROSS, DOWN if len(axes) == 2 else 1
    if screen.as_json:
        values = _estimate_densities(sketch, axes, across, down).values.clip(0).reshape(down, across)
        screen.write_document(
            build_map_document(
                sketch, [sketch.plan.features[i].name for i in axes], _list_ends(sketch, axes), values.tolist()
            )
        )
        return
    picture = build_density_chart(sketch, axes, across, down)
    for line in picture.lines(width=ACROSS + 20, ascii_only=screen.ascii_only):
        screen.write_line(line)
    screen.note(f"{picture.words.about} Free: computed from the release.")


def build_density_chart(sketch: Sketch, axes: list[int], across: int, down: int) -> Chart:
    """Return the density at ``across`` by ``down`` points over the features number ``axes``, at least 0."""
    from siloquent.charts import HeatMap, Labels, Lines, Series

    found = _estimate_densities(sketch, axes, across, down)
    features, ends = [sketch.plan.features[i].name for i in axes], _list_ends(sketch, axes)
    named = [f"{name} ({lo:g} to {hi:g})" for name, (lo, hi) in zip(features, ends, strict=True)]
    values = found.values.clip(0)
    most = f"at most {values.max():,.0f} records lie near a point."
    title = f"Density over {' and '.join(features)}"
    if len(axes) == 1:
        (lo, hi), series = ends[0], Series(values, low=found.low.clip(0), high=found.high.clip(0))
        places = [lo + (i + 0.5) / across * (hi - lo) for i in range(across)]
        about = f"Noisy kernel sums with their 95 % intervals: {most}"
        return Lines(Labels(title, about, across=named[0], up="records near"), places, [series])
    words = [[f"{lo:g}", f"{hi:g}"] for lo, hi in ends]
    about = f"Noisy kernel sums: {most}"
    return HeatMap(Labels(title, about, *named), values.reshape(down, across).tolist(), across=words[0], up=words[1])


def _find_axis(sketch: Sketch, name: str) -> int:
    names = [feature.name for feature in sketch.plan.features]
    if name not in names:
        raise UnknownName("feature of this sketch", name, names, fix=f"--map {names[0]}")
    return names.index(name)


def _list_ends(sketch: Sketch, axes: list[int]) -> list[list[float]]:
    features = [sketch.plan.features[i] for i in axes]
    return [[feature.lo, feature.lo + (feature.steps - 1) * feature.grid] for feature in features]


def _estimate_densities(sketch: Sketch, axes: list[int], across: int, down: int) -> DensityEstimate:
    """Return kernel sums at ``down`` by ``across`` points, the lowest line first."""
    import numpy as np

    from siloquent.sketch import Density, ask
    from siloquent.sketch.estimate.points import compute_corners

    low, high = compute_corners(sketch.plan)
    points = np.tile((low + high) / 2, (down * across, 1))
    up, right = np.divmod(np.arange(down * across), across)
    for axis, place, count in zip(axes, (right, up), (across, down), strict=False):
        points[:, axis] = low[axis] + (place + 0.5) / count * (high[axis] - low[axis])
    found: DensityEstimate = ask(sketch, Density(points))
    return found
