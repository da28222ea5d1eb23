"""Plans, sketches and their answers: display and JSON documents."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import clean_text, format_label
from siloquent.cli.base.paths import write_new
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.plans import SKETCH_DENSITIES, price_words

if TYPE_CHECKING:
    from siloquent.privacy import Cost
    from siloquent.sketch import Sketch, SketchPlan

MAX_SHOWN = 100


def show_plan(screen: Screen, planned: SketchPlan, left: Cost) -> None:
    """Print the price first, then size, noise and typical errors."""
    from siloquent.documents.ledger import format_significant
    from siloquent.privacy import get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    classes, rows, width = planned.hash_plan.shape
    stacks = f"{classes} classes x " if classes > 1 else ""
    kind = "every record counts in all rows" if planned.hits is None else f"a record counts in {planned.hits} of them"
    screen.write_facts(
        [
            ("price", f"{price_words(planned)}; asking is free afterwards"),
            ("left", f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"),
            ("counters", f"{stacks}{rows:,} rows x {width:,}, {8 * planned.counters / 2**20:,.1f} MiB; {kind}"),
            ("noise", f"{planned.noise}, +-{_format_three_digits(planned.noise_deviation)} records on each kernel sum"),
            ("data", "not touched; nothing was spent"),
            *[("note", clean_lines(note)) for note in planned.notes],
        ]
    )
    errors = [(d, planned.estimate_typical_error(d)) for d in SKETCH_DENSITIES]
    if errors[0][1] is not None:
        screen.write_table(
            [("near a point lie", RIGHT), ("typical error", RIGHT)],
            [(f"{d:.1%} of the records", f"{float(f'{100 * e:.2g}'):,.10g} %") for d, e in errors if e is not None],
        )


def build_sketch_document(sketch: Sketch, folder: Path | None) -> dict[str, Any]:
    """Return a sketch as a document of kind ``siloquent/sketch/1``; its counters are in its file."""
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
    }


def show_sketch(screen: Screen, sketch: Sketch, folder: Path | None) -> None:
    """Print a sketch's content, accuracy and guarantee."""
    classes, rows, width = sketch.plan.shape
    noise = math.sqrt(float(sketch.variance) * rows) / sketch.per_record
    names = [format_label(value) for value in sketch.plan.labels] or ["all"]
    sizes = ["not released"] * classes
    if sketch.sizes is not None:  # some counts of records are far less exact than the sums beside them
        sizes = [f"{size:,} +- {_format_three_digits(math.sqrt(float(sketch.size_variance)))}" for size in sketch.sizes]
    screen.write_table(
        [("class" if classes > 1 else "records", LEFT), ("about", RIGHT)], list(zip(names, sizes, strict=True))
    )
    parts = ", ".join(f"entry {part.seq} ({part.hash[:12]}) of ledger {part.ledger[:12]}" for part in sketch.parts)
    screen.write_facts(
        [
            ("features", clean_text(", ".join(feature.name for feature in sketch.plan.features))),
            ("kernel", clean_text(repr(sketch.plan.kernel))),
            (
                "counters",
                f"{classes * rows * width:,}, noise +-{_format_three_digits(noise)} records on each kernel sum",
            ),
            ("hash plan", sketch.plan.digest[:16]),
            ("privacy", clean_lines(sketch.describe_guarantee())),
            ("receipt", parts),
            *([("folder", str(folder))] if folder is not None else []),
            *[("note", clean_text(note)) for note in sketch.notes],
        ]
    )


def build_answer_rows(sketch: Sketch, question: Any, answer: Any) -> tuple[list[str], list[list[Any]]]:
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
            f"unusual: surely below a density of {_format_three_digits(answer.threshold)}, as a share of all records"
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


def show_rows(
    screen: Screen,
    sketch: Sketch,
    columns: list[str],
    rows: list[list[Any]],
    output: Path | None,
    notes: Sequence[str] = (),
) -> None:
    """Print the rows as a document, as a CSV file, or as a table with the digits that their errors allow."""
    if output is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([columns, *rows])
        write_new(output, text.getvalue())
    if screen.as_json:
        screen.write_document(
            {
                "schema": "siloquent/sketch-answer/1",
                "columns": columns,
                "rows": rows,
                "free": True,
                "guarantee": sketch.describe_guarantee(),
                "notes": list(notes),
            }
        )
        return
    shown = rows[:MAX_SHOWN]
    sides = [RIGHT if all(isinstance(row[i], float | int) for row in shown) else LEFT for i in range(len(columns))]
    screen.write_table(
        list(zip(columns, sides, strict=True)), [[_format_cell(value) for value in row] for row in shown]
    )
    if len(rows) > MAX_SHOWN:
        screen.note(f"{len(rows) - MAX_SHOWN:,} more rows: -o FILE.csv")
    for note in notes:
        screen.note(f"Note: {note}.")
    screen.note("Free: it is computed from what was released.")


def _format_cell(value: Any) -> str:
    return _format_three_digits(value) if isinstance(value, float) else format_label(value)


def _format_three_digits(value: float) -> str:
    """Return three digits, as plain decimal text."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 12)}f}"


__all__: Sequence[str] = (
    "build_answer_rows",
    "build_sketch_document",
    "list_answer_notes",
    "show_plan",
    "show_rows",
    "show_sketch",
)
