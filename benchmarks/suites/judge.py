"""Asks each question as it is typed, compares the answer with DuckDB's, and tries the fix of each refusal.

The session has a narrow default accuracy and a wide budget.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import duckdb

import siloquent as sq
from benchmarks.suites.compare import find_fault
from benchmarks.suites.exact import Exact
from benchmarks.suites.questions import Question
from benchmarks.suites.tables import build_workspace, connect
from siloquent.errors import SiloquentError

MISS = 1e-6
ACCURACY = sq.AccuracyDefaults("0.01 PERCENT", confidence="0.999999", max_share="1")
"""The session's default: so narrow that an exact value outside its interval is a fault, and not chance."""
_QUESTION = re.compile(r"\s*(SELECT|WITH|BIN)\b", re.IGNORECASE)

Outcome = Literal["answered", "wrong", "crashed", "refused with a fix", "refused without"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a question, and why: the fault of an answer, the error, or the refusal with its fix."""

    question: Question
    outcome: Outcome
    why: str = ""
    fix: str = ""


def judge_all(questions: Sequence[Question]) -> Iterator[Verdict]:
    """Yield a verdict for each question; each suite is asked of a new workspace with the suites' tables."""
    for _, suite in groupby(questions, key=lambda question: question.suite):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "w"
            build_workspace(folder)
            with connect(folder) as engine, sq.open(folder, defaults=ACCURACY) as session:
                for question in suite:
                    yield judge(session, engine, question)


def judge(session: sq.Session, engine: duckdb.DuckDBPyConnection, question: Question) -> Verdict:
    """Ask ``question`` and judge the answer, or the fix of the refusal."""
    try:
        answer = session.ask(question.text)
    except SiloquentError as refused:
        return _judge_refusal(session, question, refused)
    except Exception as problem:  # allowed: a crash is what is looked for
        return Verdict(question, "crashed", f"{type(problem).__name__}: {problem}")
    if question.refused:
        return Verdict(question, "wrong", f"answered, although it asks for: {question.refused}")
    fault = find_fault(answer, Exact(engine, question))
    return Verdict(question, "wrong" if fault else "answered", fault)


def _judge_refusal(session: sq.Session, question: Question, refused: SiloquentError) -> Verdict:
    """Try the fix: a question that is planned as it stands."""
    if not refused.code or refused.code == "internal":
        return Verdict(question, "crashed", f"an error without a code: {refused}")
    if not _QUESTION.match(refused.fix):
        return Verdict(question, "refused without", refused.detail, refused.fix)
    try:
        session.explain(refused.fix)
    except SiloquentError as again:
        return Verdict(question, "refused without", f"{refused.detail}; then {again.detail}", refused.fix)
    except Exception as problem:  # allowed: a crash is what is looked for
        return Verdict(question, "crashed", f"its fix: {type(problem).__name__}: {problem}", refused.fix)
    return Verdict(question, "refused with a fix", refused.detail, refused.fix)
