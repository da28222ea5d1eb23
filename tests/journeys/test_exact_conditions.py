"""Conditions with fractions through a session: the counts are those of the numbers as they are written.

Answers are asked with a confidence of 1 - 10^-9, so that an interval that misses the truth is a fault, not bad luck.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import KeyReused, RequestError
from siloquent.explore.plan.relations import public_joins
from siloquent.explore.plan.reuse import plans as reuse_plan

SCHEMA = """
format = 1
attribute = [{{ name = "d", type = "real", lo = 0, hi = {hi}, grid = 0.01, null = "drop", outside = "drop" }}]
[table]
name = "{name}"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "10000"
"""
ASK = "SELECT COUNT(*) FROM {} WHERE {} ERROR 5 CONFIDENCE 0.999999999"
BETWEEN = "d BETWEEN 0.06 - 0.01 AND 0.06 + 0.01"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place: Path = tmp_path_factory.mktemp("exact") / "w"
    sq.create_workspace(place)
    with sq.open(place) as opened:
        narrow = pa.table({"d": np.repeat([0.05, 0.06, 0.07, 0.08], 1000)})
        wide = pa.table({"d": np.repeat(np.arange(1001) / 100, 100)})
        opened.add_frame(sq.read_schema(SCHEMA.format(hi="0.1", name="narrow")), narrow)
        opened.add_frame(sq.read_schema(SCHEMA.format(hi="10", name="wide")), wide)
        yield opened


@pytest.mark.parametrize(
    ("table", "condition", "truth"),
    [
        ("narrow", BETWEEN, 3_000),
        ("wide", "d % 0.1 = 0", 10_100),
        ("wide", "abs(d - 0.3) <= 0.1", 2_100),
        ("wide", "d * 100 >= 57", 94_400),
        ("wide", "d // 0.1 = 3", 1_000),
        ("wide", "d = 0.1 + 0.2", 100),
    ],
)
def test_fractions_are_counted_as_they_are_written(session: Session, table: str, condition: str, truth: int) -> None:
    (row,) = session.ask(ASK.format(table, condition)).rows
    assert abs(row[0] - truth) <= 5


def test_a_question_that_is_not_exact_costs_nothing(session: Session) -> None:
    before = session.get_remaining("wide")
    with pytest.raises(RequestError, match=r"exceeds 2\^53") as refused:
        session.ask(ASK.format("wide", "d + 0.00000000000000000001 > 1"))
    assert refused.value.code == "request_invalid"
    assert session.get_remaining("wide") == before


def test_an_answer_of_the_earlier_reading_is_not_given_again_under_its_key(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(public_joins, "list_reading_rules", lambda *_: ())
        session.ask(ASK.format("narrow", "d + 0.01 > 0.06"), key="k")
        session.ask(ASK.format("narrow", "d > 0.06"), key="plain")
    with pytest.raises(KeyReused):
        session.ask(ASK.format("narrow", "d + 0.01 > 0.06"), key="k")
    session.ask(ASK.format("narrow", "d > 0.06"), key="plain")


def test_a_release_of_the_earlier_reading_is_verified(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        for module in (public_joins, reuse_plan):
            earlier.setattr(module, "list_reading_rules", lambda *_: ())
        answer = session.ask(ASK.format("narrow", "d + 0.02 > 0.06"), key="kept")
        folder = session.save(answer)
    assert session.verify(folder).ok
