"""What a check found, in words and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Kind = Literal[
    "unreadable_lines",
    "extra_column",
    "null",
    "unreadable",
    "outside",
    "unlisted",
    "too_long",
    "no_user",
    "over_max_rows",
    "violated",
    "allowed",
    "not_checked",
    "large_delta",
    "source_changed",
]
NOTES: tuple[Kind, ...] = (
    "extra_column",
    "null",
    "outside",
    "unlisted",
    "over_max_rows",
    "allowed",
    "not_checked",
    "large_delta",
)
"""Findings that are no fault: the declaration itself says what becomes of such rows."""


@dataclass(frozen=True, slots=True)
class TableFinding:
    """One thing that an owner should know. ``count`` is exact, of what ``sentence`` says; no value is shown.

    ``fix`` is a line of the table file, or what to do with the source.
    """

    kind: Kind
    subject: str
    count: int
    sentence: str
    fix: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether rows are lost, or contradict the declaration, in a way that it does not cover."""
        return self.kind not in NOTES


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All that a check found about one table; exact, so it is for the owner alone and never leaves the machine."""

    table: str
    rows: int
    counted: int
    findings: tuple[TableFinding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether no finding is a problem."""
        return not any(finding.is_problem for finding in self.findings)

    def add_source_change(self, entry: int) -> CheckReport:
        """The report, where ``entry`` of the ledger is about other rows although the version is the same."""
        finding = TableFinding(
            "source_changed",
            "source",
            0,
            f"The source held other rows when entry {entry} was answered, under the version that is declared now: "
            "answers about those rows are not drawn from.",
            f"raise version under [table] in schemas/{self.table}.toml each time the rows change",
        )
        return replace(self, findings=(finding, *self.findings))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON takes it."""
        return {
            "table": self.table,
            "rows": self.rows,
            "counted": self.counted,
            "clean": self.is_clean,
            "findings": [{**asdict(finding), "problem": finding.is_problem} for finding in self.findings],
        }
