"""The findings of a check, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from siloquent.readable import Readable
from siloquent.schema.changes import DeclarationChange, describe_change

Kind = Literal[
    "unreadable_lines",
    "unreadable_cells",
    "extra_column",
    "null",
    "unreadable",
    "outside",
    "rounded",
    "unlisted",
    "nothing_counts",
    "too_long",
    "no_user",
    "over_max_rows",
    "several_owners",
    "violated",
    "allowed",
    "not_checked",
    "large_delta",
    "source_changed",
    "domain_changed",
    "changed_declaration",
    "changed_promise",
]
NOTES: tuple[Kind, ...] = (
    "extra_column",
    "null",
    "outside",
    "rounded",
    "unlisted",
    "over_max_rows",
    "allowed",
    "not_checked",
    "large_delta",
    "changed_declaration",
)
"""Findings that are not problems: the declaration itself defines how such rows are treated."""


@dataclass(frozen=True, slots=True)
class TableFinding:
    """One finding for the owner. ``count`` is the exact count of what ``sentence`` describes; no value is shown.

    ``fix`` is a line of the table file, or a change to the source.
    """

    kind: Kind
    subject: str
    count: int
    sentence: str
    fix: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether rows are lost, or contradict the declaration in a way that it does not cover."""
        return self.kind not in NOTES


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Readable):
    """All findings about one table; they are exact, so they are for the owner only and never leave the machine.

    ``counted``: the rows that count, of a user at most ``max_rows``. ``complete``: those with a value in every column.
    """

    table: str
    rows: int
    counted: int
    findings: tuple[TableFinding, ...]
    complete: int = 0

    def __str__(self) -> str:
        from siloquent.schema.files.reading_edits import list_reading_lines

        told = [
            f"  {'problem' if one.is_problem else 'note'}: {one.subject}: {one.sentence}"
            f"{f' Fix: {one.fix}.' if one.fix and one.is_problem else ''}"
            for one in self.findings
        ]
        if lines := list_reading_lines(one.fix for one in self.findings):
            call = f"session.check({self.table!r}, reading={chr(10).join(lines)!r})"
            told.append(f"If they are meant, this writes these settings: {call}")
        outcome = "as declared" if self.is_clean else "not as declared"
        return "\n".join(
            [
                f"{self.table}: {outcome}; {self.counted:,} of {self.rows:,} rows count",
                f"  {self.complete:,} rows have a value in every column",
                *told,
                "Exact counts, for the owner only: do not pass this on.",
            ]
        )

    @property
    def is_clean(self) -> bool:
        """Whether no finding is a problem."""
        return not any(finding.is_problem for finding in self.findings)

    def add_source_change(self, entry: int) -> CheckReport:
        """Return the report with a finding that the source held other rows when entry ``entry`` was answered."""
        finding = TableFinding(
            "source_changed",
            "source",
            0,
            f"The source held other rows when entry {entry} was answered, under the version that is declared now: "
            "answers about those rows are not reused.",
            f"siloquent refresh {self.table}, or raise version under [table] in schemas/{self.table}.toml",
        )
        return replace(self, findings=(finding, *self.findings))

    def add_domain_fault(self, sentence: str, fix: str) -> CheckReport:
        """Return the report with a finding about a released domain that the table uses."""
        finding = TableFinding("domain_changed", "released domain", 1, sentence, fix)
        return replace(self, findings=(finding, *self.findings))

    def add_changes(self, changes: Sequence[DeclarationChange], fixes: Mapping[str, str]) -> CheckReport:
        """Return the report with a finding for each change since the declaration that the ledger records.

        Args:
            fixes: What to do about a change, by its class; a class with a fix is a problem until then.
        """
        found = [
            TableFinding(
                "changed_promise" if one.effect in fixes else "changed_declaration",
                "declaration",
                0,
                describe_change(one),
                fixes.get(one.effect, ""),
            )
            for one in changes
        ]
        return replace(self, findings=(*found, *self.findings))

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "table": self.table,
            "rows": self.rows,
            "counted": self.counted,
            "complete": self.complete,
            "clean": self.is_clean,
            "findings": [{**asdict(finding), "problem": finding.is_problem} for finding in self.findings],
        }
