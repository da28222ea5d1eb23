"""Dependencies, plans and reports, for people and as documents for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from siloquent.cli.screen import LEFT, Screen
from siloquent.documents.dependencies import report_document
from siloquent.pictures.plain import clean

if TYPE_CHECKING:
    from siloquent.profile import Dependency, FDReport, LocalResult, SessionPlan

__all__ = ["local_document", "plan_document", "report_document", "show_local", "show_plan", "show_report"]
MOST_SHOWN = 40
SIDES = (("left side", LEFT), ("", LEFT), ("right side", LEFT), ("holds", LEFT))


def local_document(table: str, found: LocalResult) -> dict[str, Any]:
    """A local profile as a document of kind ``siloquent/fd-local/1``."""
    return {
        "schema": "siloquent/fd-local/1",
        "table": table,
        "columns": list(found.columns),
        "dependencies": _plain(found.dependencies),
        "constants": list(found.constants),
        "complete_to_lhs": found.complete_to_lhs,
        "private": False,
    }


def show_local(screen: Screen, found: LocalResult) -> None:
    """A local profile on the screen."""
    _show(screen, [(one, "on these rows") for one in found.dependencies])
    if found.constants:
        screen.line(f"Constant: {clean(', '.join(found.constants))}.")
    screen.note("These are exact facts about the rows, for their owner's eyes: nothing was hidden.")


def plan_document(planned: SessionPlan) -> dict[str, Any]:
    """A plan as a document of kind ``siloquent/fd-plan/1``."""
    return {
        "schema": "siloquent/fd-plan/1",
        "table": planned.spec.table,
        "columns": list(planned.spec.columns),
        "protocol": planned.spec.protocol,
        "parties": planned.parties,
        "workers": planned.workers,
        "most_sets": planned.most_sets,
        "most_votes": planned.most_votes,
        "set_bytes": planned.set_bytes,
        "set_seconds": round(planned.set_seconds, 6),
        "statement": [list(pair) for pair in planned.statement],
        "warnings": list(planned.warnings),
        "data_touched": False,
    }


def show_plan(screen: Screen, planned: SessionPlan) -> None:
    """A plan on the screen: sizes first, then what each role could learn."""
    spec = planned.spec
    screen.line(f"Dependencies between {len(spec.columns)} columns of {clean(spec.table)}, protocol {spec.protocol}.")
    screen.facts(
        [
            ("sets asked", f"at most {planned.most_sets:,}; few of them as a rule"),
            ("votes", f"at most {planned.most_votes:,}"),
            (
                "a set costs",
                f"{planned.set_bytes / 1e6:.3g} MB and {planned.set_seconds:.3g} CPU s, all roles together",
            ),
            ("a vote costs", f"{planned.vote_bytes} bytes and {planned.vote_seconds * 1e3:.2g} CPU ms"),
        ]
    )
    screen.line("Not differential privacy. Besides the dependencies, each role could learn:")
    _show_statement(screen, planned.statement)
    for warning in planned.warnings:
        screen.line(f"Note: {clean(warning)}")


def show_report(screen: Screen, report: FDReport) -> None:
    """A report on the screen: what is a rule of all, what is a rule of each house alone."""
    rows = [(one, "over all rows") for one in report.ufd]
    rows += [(one, "in each silo, not over all rows") for one in report.only_inside]
    _show(screen, rows)
    for key in report.keys:
        screen.line(f"Key: {clean(', '.join(key))}.")
    if report.complete_to_lhs < len(report.columns):
        screen.line(f"Left sides of more than {report.complete_to_lhs} columns were not searched.")
    screen.line(
        f"{report.leakage.sets} sets and {report.leakage.votes} candidates were asked in {report.leakage.passes} "
        f"passes; {report.canaries[0]} canaries, none failed; confirmed by {len(report.signatures)} parties."
    )
    screen.line("Not differential privacy. Besides the dependencies, each role could learn:")
    _show_statement(screen, report.leakage.statement)


def _show_statement(screen: Screen, pairs: Sequence[tuple[str, str]]) -> None:
    screen.facts([(clean(role), clean(text)) for role, text in pairs])


def _show(screen: Screen, rows: Sequence[tuple[Dependency, str]]) -> None:
    if not rows:
        screen.line("No dependency holds.")
        return
    shown = rows[:MOST_SHOWN]
    screen.table(SIDES, [(clean(", ".join(d.lhs) or "{}"), "->", clean(d.rhs), where) for d, where in shown])
    if len(rows) > len(shown):
        screen.line(f"And {len(rows) - len(shown)} more: --json lists them all.")


def _plain(found: Sequence[Dependency]) -> list[list[Any]]:
    return [[list(one.lhs), one.rhs] for one in found]
