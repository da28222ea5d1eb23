"""Display of dependencies, plans and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from siloquent.charts.text import clean_text
from siloquent.cli.base.screen import LEFT, Screen

if TYPE_CHECKING:
    from siloquent.profile import Dependency, FDReport, LocalResult, SessionPlan

MAX_SHOWN = 40
SIDES = (("left side", LEFT), ("", LEFT), ("right side", LEFT), ("holds", LEFT))


def show_local(screen: Screen, found: LocalResult) -> None:
    """Print a local profile."""
    _show(screen, [(one, "on these rows") for one in found.dependencies])
    if found.constants:
        screen.write_line(f"Constant: {clean_text(', '.join(found.constants))}.")
    screen.note("These are exact facts about the rows, for the owner only: no noise was added.")


def show_plan(screen: Screen, planned: SessionPlan) -> None:
    """Print a plan: sizes first, then what each role could learn."""
    spec = planned.spec
    screen.write_line(
        f"Dependencies between {len(spec.columns)} columns of {clean_text(spec.table)}, protocol {spec.protocol}."
    )
    screen.write_facts(
        [
            ("sets asked", f"at most {planned.most_sets:,}; usually far fewer"),
            ("votes", f"at most {planned.most_votes:,}"),
            (
                "a set costs",
                f"{planned.set_bytes / 1e6:.3g} MB and {planned.set_seconds:.3g} CPU s, all roles together",
            ),
            ("a vote costs", f"{planned.vote_bytes} bytes and {planned.vote_seconds * 1e3:.2g} CPU ms"),
        ]
    )
    screen.write_line("Not differential privacy. In addition to the dependencies, each role could learn:")
    _show_statement(screen, planned.statement)
    for warning in planned.warnings:
        screen.write_line(f"Note: {clean_text(warning)}")


def show_report(screen: Screen, report: FDReport) -> None:
    """Print a report: dependencies over all rows, then those within single silos."""
    rows = [(one, "over all rows") for one in report.ufd]
    rows += [(one, "within each silo, not over all rows") for one in report.only_inside]
    _show(screen, rows)
    for key in report.keys:
        screen.write_line(f"Key: {clean_text(', '.join(key))}.")
    if report.complete_to_lhs < len(report.columns):
        screen.write_line(f"Left sides with more than {report.complete_to_lhs} columns were not searched.")
    screen.write_line(
        f"{report.leakage.sets} sets and {report.leakage.votes} candidates were asked in {report.leakage.passes} "
        f"passes; {report.canaries[0]} canaries, none failed; confirmed by {len(report.signatures)} parties."
    )
    screen.write_line("Not differential privacy. In addition to the dependencies, each role could learn:")
    _show_statement(screen, report.leakage.statement)


def _show_statement(screen: Screen, pairs: Sequence[tuple[str, str]]) -> None:
    screen.write_facts([(clean_text(role), clean_text(text)) for role, text in pairs])


def _show(screen: Screen, rows: Sequence[tuple[Dependency, str]]) -> None:
    if not rows:
        screen.write_line("No dependency holds.")
        return
    shown = rows[:MAX_SHOWN]
    screen.write_table(
        SIDES, [(clean_text(", ".join(d.lhs) or "{}"), "->", clean_text(d.rhs), where) for d, where in shown]
    )
    if len(rows) > len(shown):
        screen.write_line(f"And {len(rows) - len(shown)} more: --json lists them all.")
