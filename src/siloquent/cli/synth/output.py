"""Display of plans, releases, rows and reports of synthesis."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import clean_text
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.synth import FIRST_ROWS

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.synth.spec.release import SyntheticRelease

NO_FORECAST = "no forecast: engine tree makes one if the table declares a size_hint, such as size_hint = 5000"


def show_plan(screen: Screen, plan: Mapping[str, Any]) -> None:
    """Print the price, the constraints, the steps, and the expected quality."""
    expected = plan["expected_distance"]
    screen.write_facts(
        [
            ("price", f"{plan['price_words']}; more rows are free afterwards"),
            ("left", f"{plan['symbol']} {plan['left_before']}"),
            ("model", plan["model"]),
            (
                "expect",
                NO_FORECAST if expected is None else f"pairs of columns are off in about {expected:.1%} of the rows",
            ),
            ("data", "not read; nothing was spent"),
        ]
    )
    if plan["constraints"]:
        screen.write_table(
            [("", RIGHT), ("constraint", LEFT), ("hard", LEFT), ("how it is enforced", LEFT)],
            [
                (
                    str(one["number"]),
                    clean_text(one["constraint"]),
                    "yes" if one["hard"] else "no",
                    clean_text(one["kept"]),
                )
                for one in plan["constraints"]
            ],
        )
    screen.write_table(
        [("step", LEFT), (plan["symbol"], RIGHT), ("noise of a count, in rows", RIGHT)],
        [
            (one["step"], f"{one['price']:.3g}", "" if one["deviation"] is None else f"{one['deviation']:,.1f}")
            for one in plan["steps"]
        ],
    )
    for note in plan["notes"]:
        screen.note(clean_text(note))


def show_release(screen: Screen, made: SyntheticRelease, folder: Path) -> None:
    """Print the number of rows, the constraints that hold, the quality and the cost."""
    report = made.report
    kept = sum(one.hard for one in report.constraints)
    screen.write_facts(
        [
            ("release", str(folder)),
            ("rows", f"{report.rows:,} of {len(made.rows.column_names)} columns"),
            ("constraints", f"{kept} hard ones, none violated" if kept else "no hard ones"),
            *[(f"{p.name}", f"{p.value:.4f} ({p.low:.4f} to {p.high:.4f})") for p in report.paid],
            ("guarantee", made.guarantee.describe()),
        ]
    )
    screen.note(f"The report with its charts: {folder / 'report.html'}")


def show_rows(screen: Screen, table: pa.Table, output: Path | None) -> None:
    """Print the location of the rows, or the first of them."""
    if output is not None:
        screen.write_line(f"{table.num_rows:,} rows in {output}; free.")
        return
    screen.write_line(_format_csv(table.column_names))
    for row in table.slice(0, FIRST_ROWS).to_pylist():
        screen.write_line(_format_csv("" if value is None else str(value) for value in row.values()))
    if table.num_rows > FIRST_ROWS:
        screen.note(f"The first {FIRST_ROWS} of {table.num_rows:,}; -o FILE writes all.")


def show_report(screen: Screen, report: Mapping[str, Any]) -> None:
    """Print constraints, the worst columns and pairs, and the measured statistics of the true table."""
    screen.write_line(clean_text(report["guarantee"]))
    screen.write_table(
        [("constraint", LEFT), ("hard", LEFT), ("broken", RIGHT), ("of", RIGHT), ("how it is enforced", LEFT)],
        [
            (
                clean_text(one["text"]),
                "yes" if one["hard"] else "no",
                "" if one["pairs"] is None else f"{one['pairs']:,}",
                "" if one["possible"] is None else f"{one['possible']:,}",
                clean_text(one["how"]),
            )
            for one in report["constraints"]
        ],
    )
    screen.write_table(
        [("column", LEFT), ("groups", RIGHT), ("share of rows in a different group than measured", RIGHT)],
        [(clean_text(c["name"]), str(len(c["groups"])), f"{_compute_distance(c):.4f}") for c in report["columns"]],
    )
    measured = [pair for pair in report["pairs"] if pair["measured"]]
    screen.write_line(
        f"{len(measured):,} of {len(report['pairs']):,} pairs of columns were counted jointly; the model infers the "
        "rest."
    )
    for paid in report["paid"]:
        screen.write_line(f"{paid['name']}: {paid['value']:.4f} (95 %: {paid['low']:.4f} to {paid['high']:.4f})")
    for note in report["known"]:
        screen.note(clean_text(note))


def _compute_distance(column: Mapping[str, Any]) -> float:
    apart = [abs(float(a) - float(b)) for a, b in zip(column["noisy"], column["output"], strict=True)]
    return sum(apart) / 2


def _format_csv(cells: Iterable[str]) -> str:
    """Return one line of a CSV file."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([clean_text(cell) for cell in cells])
    return line.getvalue()
