"""Documents about sketches: what was built, and its answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import format_three_digits

if TYPE_CHECKING:
    from siloquent.sketch import Sketch


def build_sketch_document(sketch: Sketch, folder: Path | None, key: str) -> dict[str, Any]:
    """Return a sketch as a document of kind ``siloquent/sketch/1``; its counters are in its file.

    ``key``: under which the build is free; empty for a sketch that cost nothing or was built before.
    """
    from siloquent.maths.lsh import dump_kernel
    from siloquent.sketch.release import format_sketch_id

    classes, rows, width = sketch.plan.shape
    return {
        "schema": "siloquent/sketch/1",
        "id": format_sketch_id(sketch),
        "folder": str(folder or ""),
        "table": sketch.table,
        "features": [feature.name for feature in sketch.plan.features],
        "kernel": dump_kernel(sketch.plan.kernel),
        "label": sketch.plan.label,
        "labels": list(sketch.plan.labels),
        "plan": sketch.plan.digest,
        "classes": classes,
        "rows": rows,
        "width": width,
        "hits": sketch.hits,
        "noise": sketch.noise,
        "records": None if sketch.sizes is None else sketch.sizes.tolist(),
        "guarantee": sketch.describe_guarantee(),
        "receipts": [{"ledger": part.ledger, "seq": part.seq, "hash": part.hash} for part in sketch.parts],
        "notes": list(sketch.notes),
        "key": key,
    }


def build_answer_document(sketch: Sketch, question: Any, answer: Any) -> dict[str, Any]:
    """Return an answer as a document of kind ``siloquent/sketch-answer/2``: each point with what was asked of it."""
    columns, rows = list_answer_rows(sketch, question, answer)
    return {
        "schema": "siloquent/sketch-answer/2",
        "columns": columns,
        "rows": rows,
        "free": True,
        "guarantee": sketch.describe_guarantee(),
        "notes": list_answer_notes(answer),
    }


def build_map_document(
    sketch: Sketch, features: list[str], ends: list[list[float]], values: list[list[float]]
) -> dict[str, Any]:
    """Return a map of densities as a document of kind ``siloquent/sketch-map/1``; the lowest line comes first."""
    return {
        "schema": "siloquent/sketch-map/1",
        "features": features,
        "ends": ends,
        "values": values,
        "free": True,
        "guarantee": sketch.describe_guarantee(),
    }


def list_answer_rows(sketch: Sketch, question: Any, answer: Any) -> tuple[list[str], list[list[Any]]]:
    """Return an answer's columns and rows, in the order of the points."""
    from siloquent import sketch as task
    from siloquent.sketch.spec import DensityEstimate, Flags, LinearModel, Peaks, SampledPoints, Verdicts

    names = [feature.name for feature in sketch.plan.features]
    numbers = ["value", "error", "low", "high"]
    if isinstance(answer, DensityEstimate):
        return [*names, *numbers, "outside"], [
            [*_split_point(question.points[i]), *_list_numbers(answer, i), bool(answer.outside[i])]
            for i in range(len(answer.values))
        ]
    if isinstance(answer, Verdicts):
        return [*names, "class", "decided"], [
            [*_split_point(question.points[i]), answer.labels[i], bool(answer.decided[i])]
            for i in range(len(answer.labels))
        ]
    if isinstance(answer, Flags):
        found = answer.density
        return [*names, "unusual", *numbers], [
            [*_split_point(question.points[i]), bool(answer.flagged[i]), *_list_numbers(found, i)]
            for i in range(len(answer.flagged))
        ]
    if isinstance(answer, Peaks):
        rows = [[*point.tolist(), *_list_numbers(answer.heights, i)] for i, point in enumerate(answer.points)]
        return [*names, *numbers], rows
    if isinstance(answer, LinearModel):
        weights = zip((*answer.features, "constant"), (*answer.weights.tolist(), answer.intercept), strict=True)
        return [f"{answer.target} is the sum of", "times"], [[name, weight] for name, weight in weights]
    assert isinstance(answer, SampledPoints)
    assert isinstance(question, task.Sample)
    return names, [point.tolist() for point in answer.points]


def list_answer_notes(answer: Any) -> list[str]:
    """Return the notes on an answer's rows."""
    from siloquent.sketch.spec import Flags, LinearModel, SampledPoints

    if isinstance(answer, Flags):
        return [
            f"unusual: surely below a density of {format_three_digits(answer.threshold)}, as a share of all records"
        ]
    if isinstance(answer, LinearModel):
        return ["from the paper's surrogate loss, which hashing makes rough: siloquent.sketch.regress does better"]
    return list(answer.notes) if isinstance(answer, SampledPoints) else []


def _split_point(point: Any) -> list[Any]:
    if isinstance(point, str):
        return [point]
    values = list(point)
    return values if all(isinstance(value, int | float | bool) for value in values) else [" ".join(map(str, values))]


def _list_numbers(found: Any, i: int) -> list[float]:
    return [float(array[i]) for array in (found.values, found.errors, found.low, found.high)]
