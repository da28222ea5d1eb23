"""Display of collections, counters and estimates."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charts.text import compute_step, format_label, format_number
from siloquent.cli.base.paths import require_svg, write_new
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.collect import format_plain_value
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.charts import Bars
    from siloquent.collect import (
        AggregateEstimate,
        CollectAnswer,
        Collection,
        Counters,
        DesignFinding,
        Prediction,
        ReportStore,
    )

MAX_BARS = 60
PICTURES = (".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")


def show_design(
    screen: Screen, made: Collection, document: Path, key: Path, users: int, predicted: Sequence[Prediction]
) -> None:
    """Print the reported values and the predicted accuracy."""
    spec = made.spec
    screen.write_facts(
        [
            ("collection", f"{spec.name}, epoch {spec.epoch}: epsilon {spec.epsilon} per user, over all services"),
            *[
                (
                    "reports",
                    f"{' with '.join(channel.services)}: {made.get_report_length(at)}bytes per user,  "
                    + f"epsilon {channel.epsilon}, "
                    + ("1 layer" if len(channel.layers) == 1 else f"{len(channel.layers)} layers")
                    + (f", one of {channel.slots} rows" if channel.slots > 1 else ""),
                )
                for at, channel in enumerate(made.channels)
            ],
            ("document", f"{document}: public; clients pin its digest {made.digest[:16]}"),
            ("secret", f"{key}: for the services only, never for the collector"),
        ]
    )
    screen.write_table(
        [("question", LEFT), ("of", LEFT), (f"typical error with {users:,} users", RIGHT)],
        [(one.question, " and ".join(one.services), f"{100 * one.relative:.2g} %") for one in predicted],
    )


def show_check(screen: Screen, findings: Sequence[DesignFinding]) -> None:
    """Print every finding, with the logarithm of the largest likelihood ratio."""
    screen.write_table(
        [("what", LEFT), ("largest log-ratio", RIGHT), ("allowed", RIGHT), ("", LEFT)],
        [
            (
                one.what,
                f"{one.epsilon:.12g}" if one.epsilon else "",
                str(one.allowed) if one.allowed else "",
                "holds" if one.holds else "BROKEN",
            )
            for one in findings
        ],
    )


def show_counters(screen: Screen, made: Collection, counters: Counters, store: ReportStore) -> None:
    """Print the counts of reports: only reasons that occurred, and only anomalies that honest clients hardly cause."""
    from siloquent.collect import REASONS, find_client_anomalies

    shown = {code: count for code, count in asdict(counters).items() if count or code == "accepted"}
    screen.write_table(
        [("reports", RIGHT), ("", LEFT), ("that is", LEFT)],
        [(f"{count:,}", code, REASONS[code]) for code, count in shown.items()],
    )
    screen.write_facts(
        [
            (" and ".join(channel.services), f"{count:,} users have reported in epoch {made.spec.epoch}")
            for channel, count in zip(made.channels, store.count_reports(), strict=True)
        ]
    )
    for one in find_client_anomalies(made, [store.tally((at,)) for at in range(len(made.channels))]):
        if one.is_odd:
            screen.warn(
                f"Anomaly in reports of {' and '.join(one.services)}: {one.what}. Some clients may not follow the "
                "protocol."
            )


def show_answer(screen: Screen, answer: CollectAnswer) -> None:
    """Print the rows with the digits that their errors allow, a chart of one series of groups, and their basis."""
    headings = [(name, LEFT) for name in answer.groups]
    for name in answer.aggregates:
        headings += [(name, RIGHT), ("+-", RIGHT), ("95 % interval", RIGHT)]
    rows = []
    for names, row in zip(answer.labels, answer.estimates, strict=True):
        rows.append([*(format_label(name) for name in names), *(cell for one in row for cell in _format_estimate(one))])
    screen.write_table(headings, rows)
    picture = build_chart(answer)
    if picture is not None and len(answer.labels) <= MAX_BARS:
        for line in picture.lines(ascii_only=screen.ascii_only):
            screen.write_line(line)
    screen.write_facts(
        [
            ("reports", f"of {answer.users:,} users; further queries are free"),
            ("privacy", clean_lines(answer.guarantee)),
            *[("note", note) for note in answer.notes],
        ]
    )


def _format_estimate(one: AggregateEstimate) -> tuple[str, str, str]:
    if not one.standard_error > 0 or not math.isfinite(one.standard_error):
        return format_number(Fraction(one.value)), "0", ""
    step = compute_step(Fraction(one.standard_error))
    low, high = format_number(Fraction(one.low), step, "down"), format_number(Fraction(one.high), step, "up")
    return (
        format_number(Fraction(one.value), step),
        format_number(Fraction(one.standard_error), step, "up"),
        f"{low} to {high}",
    )


def build_chart(answer: CollectAnswer) -> Bars | None:
    """Return bars with their intervals for an answer with one group column; None for any other."""
    from siloquent.charts import Bars, Labels, Series

    if len(answer.groups) != 1 or not answer.labels:
        return None
    columns = list(zip(*answer.estimates, strict=True))
    return Bars(
        Labels(f"{answer.aggregates[0]} by {answer.groups[0]}", f"Estimates from private reports: {answer.sql}"),
        [format_label(names[0]) for names in answer.labels],
        [
            Series(
                [one.value for one in column],
                low=[one.low for one in column],
                high=[one.high for one in column],
                name=name,
            )
            for name, column in zip(answer.aggregates[:1], columns[:1], strict=True)
        ],
    )


def keep_answer(output: Path, answer: CollectAnswer) -> None:
    """Write the rows as CSV, or the chart if the file's name ends in .svg.

    Raises:
        RequestError: a chart of an answer without exactly one group column is asked for, or the file exists.
    """
    if output.suffix == ".svg":
        picture = build_chart(answer)
        if picture is None:
            raise RequestError("A chart needs exactly one group column.", fix="GROUP BY one attribute, or -o rows.csv")
        write_new(output, picture.svg() + "\n")
        return
    if output.suffix.lower() in PICTURES:
        require_svg(output, "-o")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([answer.columns, *([format_plain_value(value) for value in row] for row in answer.rows)])
    write_new(output, text.getvalue())
