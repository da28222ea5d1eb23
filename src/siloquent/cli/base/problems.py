"""Display of refusals and failures: code, message, fix and cost; never a stack trace."""

from __future__ import annotations

from siloquent.charts.chart import remove_unprintable
from siloquent.charts.text import clean_text
from siloquent.cli.base.screen import Screen
from siloquent.documents.problems import Problem

UNCONFIRMED = "confirmation is required, but standard input is not a terminal."
USAGE = 2


class Interrupted(KeyboardInterrupt):
    """Control-C when there may be a charge; ``spent`` describes it."""

    def __init__(self, spent: str, fix: str = "") -> None:
        self.spent, self.fix = spent, fix
        super().__init__(spent)


def build_usage_problem(message: str, fix: str) -> Problem:
    """Return the problem of an invalid command line."""
    return Problem("usage", "Invalid command line", message, USAGE, fix)


def report_problem(screen: Screen, problem: Problem) -> int:
    """Print ``problem`` once, on the expected stream, and return its exit status."""
    if screen.as_json:
        screen.write_document(problem.to_json())
        return problem.exit_status
    screen.warn(f"{problem.title} [{problem.code}]", style="bold red")
    screen.warn(clean_lines(problem.detail))
    for note in problem.notes:
        screen.warn(f"  {clean_lines(note)}", style="dim")
    if problem.fix:
        screen.warn(f"Fix: {clean_lines(problem.fix)}", style="bold")
    screen.warn(f"Spent: {problem.spent}.")
    return problem.exit_status


def clean_lines(text: str) -> str:
    """Return ``text`` without terminal control characters, line by line and untruncated."""
    return "\n".join(remove_unprintable(line) for line in text.split("\n"))


def point_at_error(text: str, position: int) -> list[str]:
    """Return the line of ``text`` around character ``position``, and a caret below it.

    >>> point_at_error("SELECT wrad", 7)
    ['SELECT wrad', '       ^']
    """
    position = max(0, min(position, len(text)))
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0]
    at = position - start
    first = max(0, at - 60)
    shown = line[first : first + 90]
    return [clean_text(shown), " " * len(clean_text(line[first:at])) + "^"]
