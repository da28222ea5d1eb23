"""Intervals hold for an analyst who knows the rows and picks each question from the answers before, by default.

Through the real door. A right program fails a test once in 10^9 runs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import siloquent as sq
from siloquent.api import Session

pytestmark = pytest.mark.statistical
FALSE_ALARM, BETA, SESSIONS, AGES = 1e-9, 0.05, 16, 40
TABLE = """
format = 1
attribute = [{{ name = "age", type = "integer", lo = 0, hi = 39, outside = "clamp", null = "drop" }}]
[table]
name = "people"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{accountant}"
epsilon = "50"
{delta}
{reuse}
"""
COUNTS = np.arange(100, 100 + AGES)


def opened(folder: Path, accountant: str, reuse: str) -> Session:
    sq.create_workspace(folder)
    session = sq.open(folder)
    delta = 'delta = "1e-6"' if accountant == "zcdp" else ""
    rows = pa.table({"age": np.repeat(np.arange(AGES), COUNTS)})
    session.add_frame(sq.read_schema(TABLE.format(accountant=accountant, delta=delta, reuse=reuse)), rows)
    return session


def worst_run(error: NDArray[np.float64]) -> tuple[int, int]:
    """The ages whose errors together are furthest from what chance would have them."""
    sums = np.concatenate([[0.0], np.cumsum(error)])
    runs = [(low, high) for low in range(AGES) for high in range(low + 1, AGES + 1)]
    return max(runs, key=lambda run: abs(sums[run[1]] - sums[run[0]]) / np.sqrt(run[1] - run[0]))


def least_free(session: Session, question: str) -> int:
    """The smallest ERROR, to a unit, at which ``question`` is free: EXPLAIN says so for nothing."""
    low, high = 1, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if session.explain(question.format(middle)).price == 0 else (middle, high)
    return high


def is_broken(session: Session) -> bool:
    """Whether some promise of this session is: its analyst asks along the noise, and stops when one is."""
    every = f"BIN people ON COUNT(*) WHERE W = HISTOGRAM(age, 0, {AGES}, 1) ERROR 60 CONFIDENCE 0.95"
    answer = session.ask(every)
    labels = {answer.accuracy.label}
    error = np.array([row[1] for row in answer.rows], dtype=float) - COUNTS
    broken = bool(np.abs(error).max() > 60)
    low, high = worst_run(error)
    run = f"SELECT COUNT(*) FROM people WHERE age >= {low} AND age < {high} ERROR {{}} CONFIDENCE 0.95"
    ages = ", ".join(map(str, np.flatnonzero(error > 0)))
    odd = f"SELECT COUNT(*) FROM people WHERE age IN ({ages}) ERROR {{}} CONFIDENCE 0.95"
    for question, places in ((run, slice(low, high)), (odd, error > 0)):
        bound = least_free(session, question)
        found = session.ask(question.format(bound))
        labels.add(found.accuracy.label)
        assert found.cost.amount == 0
        broken |= abs(found.rows[0][0] - COUNTS[places].sum()) > bound
    assert session.ask(every).rows == answer.rows
    assert labels == {"fresh", "independent" if session.schema("people").budget.reuse == "any" else "simultaneous"}
    return broken


def broken_sessions(folder: Path, accountant: str, reuse: str = "") -> int:
    return sum(is_broken(opened(folder / str(place), accountant, reuse)) for place in range(SESSIONS))


def assert_rate_at_most(hits: int, trials: int, rate: float) -> None:
    limit = binom.isf(FALSE_ALARM, trials, rate)
    assert hits <= limit, f"{hits} hits in {trials}; a true rate of {rate} gives at most {limit:.0f}"


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_by_default_promises_hold_for_questions_chosen_from_answers(tmp_path: Path, accountant: str) -> None:
    # One promise in the first answer, one for all simultaneous ones together.
    assert_rate_at_most(broken_sessions(tmp_path, accountant), SESSIONS, 2 * BETA)


@pytest.mark.slow
def test_the_earlier_default_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(broken_sessions(tmp_path, "zcdp", 'reuse = "any"'), SESSIONS, 2 * BETA)
