"""The check of one table, from its lines to its constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.charts.text import number_of
from siloquent.data.check.constraints import check_constraints
from siloquent.data.check.report import CheckReport, TableFinding
from siloquent.data.check.values import check_users, check_values
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.schema import TableSchema

if TYPE_CHECKING:
    from siloquent.data.engines.base import Engine, LineFault
    from siloquent.data.table import PrivateTable

LARGE_DELTA = Fraction(1, 1000)


def check(table: PrivateTable, *, others: Mapping[str, PrivateTable] | None = None) -> CheckReport:
    """Return the problems in the rows of ``table``, as exact counts for its owner only; the caller must ensure that.

    Args:
        others: Tables that foreign keys may refer to, by name.
    Raises:
        DataError: the source failed.
    Privacy:
        None: a report must not be shown to analysts.
    """
    engine, columns, salt = table.open_for_owner()
    schema = table.schema
    rows, complete, found = check_values(schema, columns, engine)
    known = {name: other.open_for_owner()[:2] for name, other in (others or {}).items()}
    findings = [
        *_check_delta(schema),
        *_check_lines(engine),
        *_check_extra_columns(schema, engine, {column.source for column in columns}),
        *found,
        *check_users(schema, columns, engine),
        *check_constraints(schema, columns, engine, known),
    ]
    counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(
        select_bounded_rows(columns, schema.unit, salt=salt, wanted=[]).subquery("bounded")
    )
    count = int(engine.aggregate(counted).column("n")[0].as_py())
    return CheckReport(schema.name, rows, count, tuple(findings), complete)


def _check_delta(schema: TableSchema) -> list[TableFinding]:
    """Return a finding if delta is so large that the guarantee is weak."""
    delta = schema.budget.delta
    if delta <= LARGE_DELTA:
        return []
    sentence = (
        f"delta is {float(delta):g}: to show 1 in {math.floor(1 / delta):,} units as they are would keep this promise, "
        "too; choose it well below 1 / (number of units)."
    )
    return [
        TableFinding("large_delta", "budget", 0, sentence, f'delta = "1e-6" under [budget] in {schema.budget_file}')
    ]


def _check_lines(engine: Engine) -> list[TableFinding]:
    return [
        TableFinding(
            "unreadable_cells" if fault in _CELLS else "unreadable_lines",
            "source",
            count,
            f"{number_of(count, *_WRONG[fault])}: {_CELLS.get(fault, 'skipped')}.",
            _FIX[fault],
        )
        for fault, count in sorted(engine.count_unreadable_lines().items())
    ]


_WRONG: dict[LineFault, tuple[str, str]] = {
    "encoding": ("line is not in the declared encoding", "lines are not in the declared encoding"),
    "form": (
        "line cannot be parsed (quotes, too few or too many columns, or length)",
        "lines cannot be parsed (quotes, too few or too many columns, or length)",
    ),
    "formula": (
        "cell has a formula whose value is not in the file",
        "cells have formulas whose values are not in the file",
    ),
    "error": ("cell holds an error such as #N/A", "cells hold errors such as #N/A"),
    "merged": ("area of cells is merged", "areas of cells are merged"),
}
_CELLS: dict[LineFault, str] = {
    "formula": "read as NULL",
    "error": "read as NULL",
    "merged": "its value is only in its first cell, and the others are NULL",
}
_FIX: dict[LineFault, str] = {
    "encoding": 'encoding = "cp1252" under [reading] if the file comes from Windows, or save it as UTF-8: iconv -f '
    "LATIN1 -t UTF-8",
    "form": "rewrite the file with a CSV library; if quoted texts contain line breaks: "
    'source = "csv-records:..."; if quotes are part of texts: quote = "" under [reading]',
    "formula": "open the file in a spreadsheet program and save it, which stores the values of formulas",
    "error": "correct the formulas in the source",
    "merged": "split the merged cells and fill in the value of each",
}


def _check_extra_columns(schema: TableSchema, engine: Engine, used: set[str]) -> list[TableFinding]:
    extra = [column for column in engine.list_columns() if column not in used]
    if not extra:
        return []
    sentence = (
        f"{number_of(len(extra), 'column is', 'columns are')} not declared and never read: {', '.join(extra[:20])}."
    )
    return [TableFinding("extra_column", "source", len(extra), sentence)]
