"""EXPLAIN says from which group size on an average keeps its ERROR, and such groups keep it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore.plan import steps

GROUPS = {"": 1, "ward": 4, "ward, ill": 8}
ACCOUNTS = ('accountant = "pure"\nepsilon = "400"', 'accountant = "zcdp"\nrho = "400"\ndelta = "1e-6"')


NULLS = ('"drop"', '"cell"')


def declared(chance: random.Random, name: str, size: int, lo: int, hi: int) -> str:
    return f"""
format = 1
attribute = [
  {{ name = "ward", type = "category", values = ["A", "B", "C", "D"], null = "drop" }},
  {{ name = "ill", type = "boolean", null = "drop" }},
  {{ name = "m", type = "integer", lo = {lo}, hi = {hi}, outside = "clamp", null = {chance.choice(NULLS)} }},
]
[table]
name = "{name}"
adjacency = "{chance.choice(["add-remove", "replace-one"])}"
size_hint = {size}
unit = {{ kind = "row" }}
[budget]
{chance.choice(ACCOUNTS)}
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        yield session


def faults(session: Session, chance: random.Random, number: int) -> Iterator[str]:
    """What is wrong with one question, whose groups have the size of an even share."""
    name, group = f"t{number}", chance.choice(tuple(GROUPS))
    lo = chance.choice((0, -50, 1_000))
    hi = lo + chance.choice((10, 60, 500))
    even = chance.choice((400, 1_500, 3_000))
    rows = [
        (ward, ill, chance.randint(lo, hi)) for ward in "ABCD" for ill in (False, True) for _ in range(even)
    ]  # more than an even share where there are fewer groups
    size = even * GROUPS[group]
    session.add_frame(
        sq.read_schema(declared(chance, name, size, lo, hi)),
        pa.table({key: [row[i] for row in rows] for i, key in enumerate(("ward", "ill", "m"))}),
    )
    error = Fraction(chance.choice((2, 5)) * (hi - lo), 100)
    text = f"SELECT {group + ', ' if group else ''}AVG(m) FROM {name}{f' GROUP BY {group}' if group else ''}"
    text = f"{text} ERROR {float(error):g} CONFIDENCE 0.999999"
    (note,) = session.explain(text).notes
    least = int(re.findall(r"holds (?:in groups of|if) ([\d,]+) rows or more", note)[0].replace(",", ""))
    if least > even:
        yield f"{text}: planned for {least} rows, an even share is {even}"
        return
    answer = session.ask(text)
    for row in answer.rows:
        keys = dict(zip(answer.columns, row, strict=True))
        group_rows = [m for ward, ill, m in rows if keys.get("ward", ward) == ward and keys.get("ill", ill) == ill]
        value, low, high = row[-3:]
        if not low <= sum(group_rows) / len(group_rows) <= high:
            yield f"{text}: {row} for {sum(group_rows) / len(group_rows)}"
        if len(group_rows) >= least and max(high - value, value - low) > float(error) * (1 + 1e-9):
            yield f"{text}: {row} is wider than {float(error)} with {len(group_rows)} rows"


@pytest.mark.parametrize("part", range(2))
def test_groups_of_an_even_share_keep_the_error_that_explain_promises_them(session: Session, part: int) -> None:
    chance = random.Random(part)
    for number in range(8):
        assert not list(faults(session, chance, number))


def test_a_plan_for_one_group_of_all_rows_would_be_seen(session: Session) -> None:
    chance = random.Random(7)
    with patch.object(steps, "_compute_group_sizes", lambda query, schema: iter([Fraction(schema.size_hint or 0)])):
        assert sum(bool(list(faults(session, chance, number))) for number in range(8)) >= 2


def test_where_an_even_share_is_too_dear_a_larger_group_is_planned_for_and_told(session: Session) -> None:
    text = declared(random.Random(1), "t", 8_000, 0, 500).replace(ACCOUNTS[1], ACCOUNTS[0]).replace('"400"', '"0.5"')
    session.add_frame(sq.read_schema(text), pa.table({"ward": ["A"], "ill": [True], "m": [4]}))
    (note,) = session.explain("SELECT ward, ill, AVG(m) FROM t GROUP BY ward, ill ERROR 20").notes
    assert int(re.findall(r"groups of ([\d,]+) rows", note)[0].replace(",", "")) > 1_000


def test_more_rows_than_a_table_can_have_are_refused_free(session: Session) -> None:
    text = declared(random.Random(1), "t", 800, 0, 500)
    session.add_frame(sq.read_schema(text), pa.table({"ward": ["A"], "ill": [True], "m": [4]}))
    with pytest.raises(RequestError, match="No group has 8,001 rows") as refused:
        session.ask("SELECT AVG(m) FROM t ERROR 5 FOR AT LEAST 8001 ROWS")
    assert refused.value.fix == "SELECT AVG(m) FROM t ERROR 5"
    assert session.explain(refused.value.fix).price
    assert session.ask("SELECT AVG(m) FROM t ERROR 50 FOR AT LEAST 8000 ROWS").rows
