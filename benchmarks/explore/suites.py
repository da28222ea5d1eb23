"""Questions as analysts type them, in six suites: how many are answered as typed, and that no answer is wrong."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.row import Options, Row
from benchmarks.suites.judge import ACCURACY, MISS, Outcome, Verdict, judge_all
from benchmarks.suites.questions import list_questions

QUICK = 8
"""With --quick, one of so many."""


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module; ``SUITES_REPORT`` names a file for the verdicts."""
    if not options.wants("relational-suites"):
        return
    questions = list_questions()[:: QUICK if options.quick else 1]
    verdicts = list(judge_all(questions))
    if report := os.environ.get("SUITES_REPORT"):
        Path(report).write_text(json.dumps([describe(verdict) for verdict in verdicts], indent=1))
    yield from _list_totals(verdicts, quick=options.quick)
    for suite in dict.fromkeys(question.suite for question in questions):
        chosen = [verdict for verdict in verdicts if verdict.question.suite == suite]
        yield _build_share(f"relational-suites-{suite}", chosen)
    for kind in sorted({kind for question in questions for kind in question.kinds}):
        chosen = [verdict for verdict in verdicts if kind in verdict.question.kinds]
        yield _build_share(f"relational-suites-kind-{kind}", chosen)


def describe(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON takes it."""
    question = verdict.question
    asked = {"suite": question.suite, "kinds": question.kinds, "text": question.text, "refused": question.refused}
    return {**asked, "outcome": verdict.outcome, "why": verdict.why, "fix": verdict.fix}


def _list_totals(verdicts: Sequence[Verdict], *, quick: bool) -> Iterator[Row]:
    counts = _count(verdicts)
    refused = counts["refused with a fix"] + counts["refused without"]
    wanted = sum(bool(verdict.question.refused) for verdict in verdicts)
    how = f"{_describe(verdicts)}; {wanted} must be refused; as typed; by default ERROR {ACCURACY.error}"
    against = f"DuckDB's exact answers to the same texts; {MISS * counts['answered']:.1g} misses expected by chance"
    share, fixes = 100 * counts["answered"] / len(verdicts), 100 * counts["refused with a fix"] / max(refused, 1)
    yield Row("relational-suites-asked", ours=len(verdicts), goal=None if quick else 400, better="higher",
              unit="questions", how="six suites, in our words, over single and linked tables")  # fmt: skip
    yield Row("relational-suites-answered", ours=share, goal=85, better="higher", unit="%", how=how)
    yield Row("relational-suites-wrong", ours=counts["wrong"], goal=0, unit="answers", how=against)
    yield Row("relational-suites-crashed", ours=counts["crashed"], goal=0, unit="questions",
              how="errors without a code")  # fmt: skip
    yield Row("relational-suites-fixes", ours=fixes, goal=100, better="higher", unit="%",
              how=f"of {refused} refusals: the fix is a question that is planned")  # fmt: skip


def _build_share(row: str, verdicts: Sequence[Verdict]) -> Row:
    share = 100 * _count(verdicts)["answered"] / len(verdicts)
    return Row(row, ours=share, better="higher", unit="% answered", how=_describe(verdicts))


def _count(verdicts: Sequence[Verdict]) -> Counter[Outcome]:
    return Counter(verdict.outcome for verdict in verdicts)


def _describe(verdicts: Sequence[Verdict]) -> str:
    counts = _count(verdicts)
    return f"of {len(verdicts)}: " + ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
