"""One table, checked from its lines to its constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.bounding import bounded_rows
from siloquent.data.check.constraints import constraint_findings
from siloquent.data.check.report import CheckReport, Finding
from siloquent.data.check.values import user_findings, value_findings
from siloquent.pictures.plain import number_of
from siloquent.schema import TableSchema

if TYPE_CHECKING:
    from siloquent.data.engines.base import Engine, LineFault
    from siloquent.data.table import PrivateTable

LARGE_DELTA = Fraction(1, 1000)


def check(table: PrivateTable, *, others: Mapping[str, PrivateTable] | None = None) -> CheckReport:
    """What is wrong with the rows of ``table``: exact counts, for its owner alone; the caller makes sure of that.

    Args:
        others: Tables that foreign keys may refer to, by name.
    Raises:
        DataError: The source failed.
    Privacy:
        None: nothing of a report may be shown to analysts.
    """
    engine, columns, salt = table.for_its_owner()
    schema = table.schema
    rows, found = value_findings(schema, columns, engine)
    known = {name: other.for_its_owner()[:2] for name, other in (others or {}).items()}
    findings = [
        *_delta_findings(schema),
        *_line_findings(engine),
        *_extra_columns(schema, engine, {column.source for column in columns}),
        *found,
        *user_findings(schema, columns, engine),
        *constraint_findings(schema, columns, engine, known),
    ]
    counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(
        bounded_rows(columns, schema.unit, salt=salt, wanted=[]).subquery("bounded")
    )
    return CheckReport(schema.name, rows, int(engine.aggregate(counted).column("n")[0].as_py()), tuple(findings))


def _delta_findings(schema: TableSchema) -> list[Finding]:
    """A delta so large that the promise itself is weak."""
    delta = schema.budget.delta
    if delta <= LARGE_DELTA:
        return []
    sentence = (
        f"delta is {float(delta):g}: to show 1 in {math.floor(1 / delta):,} units as they are would keep this promise, "
        "too; choose it well below 1 / (number of units)."
    )
    return [
        Finding("large_delta", "budget", 0, sentence, f'delta = "1e-6" under [budget] in schemas/{schema.name}.toml')
    ]


def _line_findings(engine: Engine) -> list[Finding]:
    return [
        Finding("unreadable_lines", "source", count, f"{number_of(count, *_WRONG[fault])}: left out.", _FIX[fault])
        for fault, count in sorted(engine.unreadable_lines().items())
    ]


_WRONG: dict[LineFault, tuple[str, str]] = {
    "encoding": ("line is not UTF-8", "lines are not UTF-8"),
    "form": (
        "line cannot be read (quotes, too few or too many columns, or length)",
        "lines cannot be read (quotes, too few or too many columns, or length)",
    ),
}
_FIX: dict[LineFault, str] = {
    "encoding": "save the file as UTF-8: iconv -f LATIN1 -t UTF-8, or the program's own choice of encoding",
    "form": 'write the file anew with a CSV library; if texts in quotes hold line ends: source = "csv-records:.."',
}


def _extra_columns(schema: TableSchema, engine: Engine, used: set[str]) -> list[Finding]:
    extra = [column for column in engine.schema() if column not in used]
    if not extra:
        return []
    sentence = (
        f"{number_of(len(extra), 'column is', 'columns are')} not declared and never read: {', '.join(extra[:20])}."
    )
    return [Finding("extra_column", "source", len(extra), sentence)]
