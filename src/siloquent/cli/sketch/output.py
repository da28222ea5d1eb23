"""Display of plans, sketches and their answers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import clean_text, format_label, format_three_digits
from siloquent.cli.base.paths import write_new
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.prices.plans import SKETCH_DENSITIES, price_words

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
    kind = "every record is counted in all rows"
    if planned.hits is not None:
        kind = f"a record is counted in {planned.hits} of them"
    screen.write_facts(
        [
            ("price", f"{price_words(planned)}; queries are free afterwards"),
            ("left", f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"),
            ("counters", f"{stacks}{rows:,} rows x {width:,}, {8 * planned.counters / 2**20:,.1f} MiB; {kind}"),
            ("noise", f"{planned.noise}, +-{format_three_digits(planned.noise_deviation)} records on each kernel sum"),
            ("data", "not read; nothing was spent"),
            *[("note", clean_lines(note)) for note in planned.notes],
        ]
    )
    errors = [(d, planned.estimate_typical_error(d)) for d in SKETCH_DENSITIES]
    if errors[0][1] is not None:
        screen.write_table(
            [("near a point lie", RIGHT), ("typical error", RIGHT)],
            [(f"{d:.1%} of the records", f"{float(f'{100 * e:.2g}'):,.10g} %") for d, e in errors if e is not None],
        )


def show_sketch(screen: Screen, sketch: Sketch, folder: Path | None) -> None:
    """Print a sketch's content, accuracy and guarantee."""
    classes, rows, width = sketch.plan.shape
    noise = math.sqrt(float(sketch.variance) * rows) / sketch.per_record
    names = [format_label(value) for value in sketch.plan.labels] or ["all"]
    sizes = ["not released"] * classes
    if sketch.sizes is not None:  # some counts of records are far less exact than the sums beside them
        sizes = [f"{size:,} +- {format_three_digits(math.sqrt(float(sketch.size_variance)))}" for size in sketch.sizes]
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
                f"{classes * rows * width:,}, noise +-{format_three_digits(noise)} records on each kernel sum",
            ),
            ("hash plan", sketch.plan.digest[:16]),
            ("privacy", clean_lines(sketch.describe_guarantee())),
            ("receipt", parts),
            *([("folder", str(folder))] if folder is not None else []),
            *[("note", clean_text(note)) for note in sketch.notes],
        ]
    )


def show_answer(screen: Screen, answer: Mapping[str, Any], output: Path | None) -> None:
    """Print an answer's document, or its rows as a table with the digits that their errors allow, or as a CSV file."""
    columns, rows = answer["columns"], answer["rows"]
    if output is not None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([columns, *rows])
        write_new(output, text.getvalue())
    if screen.as_json:
        screen.write_document(dict(answer))
        return
    shown = rows[:MAX_SHOWN]
    sides = [RIGHT if all(isinstance(row[i], float | int) for row in shown) else LEFT for i in range(len(columns))]
    screen.write_table(
        list(zip(columns, sides, strict=True)), [[_format_cell(value) for value in row] for row in shown]
    )
    if len(rows) > MAX_SHOWN:
        screen.note(f"{len(rows) - MAX_SHOWN:,} more rows: -o FILE.csv")
    for note in answer["notes"]:
        screen.note(f"Note: {note}.")
    screen.note("Free: computed from the release.")


def _format_cell(value: Any) -> str:
    return format_three_digits(value) if isinstance(value, float) else format_label(value)
