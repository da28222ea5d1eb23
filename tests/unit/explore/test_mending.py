"""Refused questions, declarations and commands offer what can be pasted: made from right ones by generated slips."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.refusals import judge
from benchmarks.refusals.declarations import list_wrong_declarations
from benchmarks.refusals.questions import TABLES, list_wrong_questions
from siloquent.errors import SchemaError, SiloquentError
from siloquent.explore.mending.search import mend
from siloquent.fixes import AskWith, WriteLines
from siloquent.schema.build import parse_schema

SCHEMAS = [parse_schema(declared) for declared, _ in TABLES.values()]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sq.Session]:
    folder = tmp_path_factory.mktemp("mending") / "w"
    judge.build_workspace(folder)
    with sq.open(folder) as opened:
        yield opened


def test_every_fix_of_a_wrong_question_can_be_asked(session: sq.Session) -> None:
    verdicts = [
        verdict
        for number, (mutation, text) in enumerate(list_wrong_questions(random.Random(7), 600))
        if number % 3 == 0
        for verdict in judge.judge_question(session, mutation, text)
    ]
    assert len(verdicts) > 150
    assert [verdict for verdict in verdicts if verdict.fault] == []


def test_every_fix_of_a_wrong_declaration_is_read(session: sq.Session) -> None:
    verdicts = [
        verdict
        for number, wrong in enumerate(list_wrong_declarations(random.Random(7), 300))
        if number % 5 == 0
        for verdict in judge.judge_declaration(session.workspace.folder, wrong)
    ]
    assert len(verdicts) > 80
    assert [verdict for verdict in verdicts if verdict.fault] == []


def test_the_judge_sees_fixes_that_do_not_work(session: sq.Session) -> None:
    wrong = SiloquentError("x", fix="use fewer attributes")
    assert judge.try_python(session, wrong, session.explain) == "not Python"
    with pytest.raises(SiloquentError) as refused:
        session.explain("SELECT COUNT(*) FROM nowhere ERROR 5")
    refused.value.fix = "SELECT COUNT(*) FROM nowhere ERROR 5"  # type: ignore[assignment]
    assert judge.try_python(session, refused.value, session.explain).startswith("refused again")
    bare = SchemaError("x", fix=WriteLines("type = ", "type"))
    assert judge.try_lines("type", bare) == "not TOML"


COUNT = "SELECT COUNT(*) FROM visits "
SLIPS = {
    "SELECT wrad, COUNT(*) FROM visits GROUP BY ward ERROR 500": (
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 500"
    ),
    "SELECT COUNT(*) FORM visits ERROR 500": f"{COUNT}ERROR 500",
    f"{COUNT}WHERE ward = icu ERROR 500": f"{COUNT}WHERE ward = 'icu' ERROR 500",
    f"{COUNT}WHERE ward = “icu” ERROR 500": f"{COUNT}WHERE ward = 'icu' ERROR 500",
    f"{COUNT}WHERE ward = NULL ERROR 500": f"{COUNT}WHERE ward IS NULL ERROR 500",
    f"{COUNT}ERROR 1,000": f"{COUNT}ERROR 1000",
    f"{COUNT}ERROR 500 CONFIDENCE 95%": f"{COUNT}ERROR 500 CONFIDENCE 0.95",
    f"{COUNT}BUDGET 0,1 EPSILON": f"{COUNT}BUDGET 0.1 EPSILON",
    f"{COUNT}WHERE day > '31.01.2024' ERROR 500": f"{COUNT}WHERE day > DATE '2024-01-31' ERROR 500",
    f"{COUNT}WHERE 18 < age < 65 ERROR 500": f"{COUNT}WHERE 18 < age AND age < 65 ERROR 500",
    "SELECT MAX(age) FROM visits ERROR 500": "SELECT QUANTILE(age, 0.99) FROM visits ERROR 500",
    "SELECT cost, COUNT(*) FROM visits GROUP BY cost ERROR 500": (
        "SELECT cost // 100, COUNT(*) FROM visits GROUP BY cost // 100 ERROR 500"
    ),
    "SELECT COUNT(DISTINCT patient), COUNT(*) FROM visits ERROR 500, 500 AT MOST 0 GROUPS EACH": (
        "SELECT COUNT(DISTINCT patient), COUNT(*) FROM visits ERROR 500, 500 AT MOST 1 GROUPS EACH"
    ),
    "SELECT COUNT(DISTINCT cost * cost * cost), COUNT(*), SUM(age) AS s FROM visits ERROR 5, 500, 9000": (
        "SELECT COUNT(*), SUM(age) AS s FROM visits ERROR 500, 9000"
    ),
    "SELECT order, COUNT(*) FROM Loans GROUP BY order ERROR 50": (
        'SELECT "order", COUNT(*) FROM Loans GROUP BY "order" ERROR 50'
    ),
}


@pytest.mark.parametrize("asked", SLIPS)
def test_a_slip_is_corrected_in_the_askers_own_words(session: sq.Session, asked: str) -> None:
    meant = SLIPS[asked]
    with pytest.raises(SiloquentError) as refused:
        session.explain(asked)
    offered = refused.value.remedy.find(AskWith)
    assert offered is not None
    assert offered.question == meant
    assert refused.value.fix == meant
    session.explain(meant)


def test_a_slip_of_syntax_is_corrected_beside_a_value_that_is_refused() -> None:
    right = TABLES["visits"][0]
    with pytest.raises(SchemaError) as refused:
        sq.read_schema(right.replace('["', "[", 1).replace('epsilon = "1"', "epsilon = nan", 1))
    lines = refused.value.remedy.find(WriteLines)
    assert lines is not None
    assert '["' in lines.text


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        (
            "SELECT ward AVG(age) FROM visits GROUP BY ward ERROR 0.5",
            "SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR ",
        ),
        ("SELECT AVG(age FROM visits ERROR 0.001", "SELECT AVG(age) FROM visits ERROR "),
        ("SELECT COUNT(*) FROM visits WHERE age BETWEEN 10 20 ERROR 500", "WHERE age BETWEEN 10 AND 20 ERROR 500"),
        ("SELECT COUNT(*) FROM visits WHERE smoker = 'nein' ERROR 500", "WHERE smoker = FALSE ERROR 500"),
    ],
)
def test_a_fix_changes_the_one_wrong_thing(session: sq.Session, asked: str, kept: str) -> None:
    with pytest.raises(SiloquentError) as refused:
        session.explain(asked)
    assert kept in refused.value.fix
    assert "BUDGET" not in refused.value.fix
    session.explain(refused.value.fix)


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT AVG(xyzzy) FROM visits ERROR 5",
        "SELECT COUNT(*) FROM visits WHERE xyzzy = 'a' ERROR 500",
        "SELECT xyzzy, COUNT(*) FROM visits GROUP BY xyzzy ERROR 500",
    ],
)
def test_a_column_that_is_called_nothing_like_it_is_not_asked_around(session: sq.Session, asked: str) -> None:
    with pytest.raises(SiloquentError) as refused:
        session.explain(asked)
    assert refused.value.fix == "session.schema('visits')"


def test_a_value_that_is_nowhere_near_is_not_replaced_by_another(session: sq.Session) -> None:
    with pytest.raises(SiloquentError) as refused:
        session.explain("SELECT COUNT(*) FROM visits WHERE ward = 'surgery' ERROR 500")
    assert refused.value.fix == "session.schema('visits')"


def test_texts_of_nothing_but_clauses_take_no_time() -> None:
    words = ("FROM ", "SELECT ", "GROUP BY ", "a, ", "( ", "HAVING ", "a.b.", "' ", "AND ", "1 < x < 2 ", "COUNT(")
    before = time.process_time()
    for word in words:
        mend(word * (1_900 // len(word)), SCHEMAS)
    assert time.process_time() - before < 10


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ('type = "boolean"', 'type = "bool"', 'name = "smoker", type = "boolean"'),
        ("lo = 0, hi = 219", "min = 0, max = 219", "lo = 0, hi = 219"),
        ('epsilon = "1"', 'epsilon = "2,0"', 'epsilon = "2.0"'),
        ('epsilon = "1"', 'epsilon = "1_000"', 'epsilon = "1000"'),
        ('outside = "clamp", null', 'outside = "clip", null', 'outside = "clamp"'),
        ("lo = 2024-01-01", 'lo = "01.01.2024"', "lo = 2024-01-01"),
        ('adjacency = "add-remove"', 'adjacency = "add/remove"', 'adjacency = "add-remove"'),
        ('name = "visits"\n', "name = visits\n", 'name = "visits"'),
    ],
)  # fmt: skip
def test_a_slip_in_a_declaration_is_corrected_in_its_own_words(old: str, new: str, meant: str) -> None:
    right = TABLES["visits"][0]
    assert old in right
    with pytest.raises(SchemaError) as refused:
        sq.read_schema(right.replace(old, new, 1))
    lines = refused.value.remedy.find(WriteLines)
    assert lines is not None
    assert meant in lines.text
    sq.read_schema(lines.apply(right.replace(old, new, 1)))


def test_no_fix_makes_a_row_the_unit_of_a_person() -> None:
    right = TABLES["visits"][0].replace('  { name = "patient", type = "id" },\n', "")
    with pytest.raises(SiloquentError) as refused:
        sq.read_schema(right)
    assert 'kind = "row"' not in refused.value.fix


def test_a_declaration_in_a_file_says_where_to_write(tmp_path: Path) -> None:
    judge.build_workspace(tmp_path / "w")
    file = tmp_path / "w" / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('type = "boolean"', 'type = "bool"'))
    with sq.open(tmp_path / "w") as session, pytest.raises(SchemaError) as refused:
        session.schema("visits")
    assert refused.value.fix.startswith('in schemas/visits.toml, write: { name = "smoker"')
