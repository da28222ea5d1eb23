"""Every fix that holds a question or a command is tried: what a refusal offers is not refused again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import Types
from journeys.test_refusals import QUESTIONS
from siloquent.api import Session
from siloquent.errors import AccuracyUnreachable, BudgetExceeded, SiloquentError
from siloquent.explore import parse
from unit.explore.spec import hostile
from unit.explore.spec.test_refusals import REFUSED

QUESTION = re.compile(r"\b(SELECT .+ FROM |BIN .+ ON ).+")
KINDS = {
    "ward": 'type = "category", values = ["A", "B"], null = "cell"',
    "sex": 'type = "category", values = ["f", "m"], null = "drop"',
    "station": 'type = "boolean", null = "drop"',
    "age": 'type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop"',
    "cost": 'type = "real", lo = 0, hi = 1000, grid = 0.5, outside = "clamp", null = "drop", bins = { width = 100 }',
    "my age": 'type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop"',
    "patient": 'type = "id"',
    "note": 'type = "text", max_bytes = 100',
}
NAMINGS: dict[str, dict[str, str]] = {
    "as they are": {},
    "with blanks": {"ward": "my ward", "cost": "The Cost"},
    "words of the language": {"ward": "order", "t": "from", "cost": "limit", "age": "error", "stays": "select"},
    "nothing to group by": {"ward": "patient", "station": "note", "a": "note"},
    "capitals": {"ward": "WARD", "t": "T", "cost": "Cost"},
}


def declaration(table: str, columns: dict[str, str], budget: str = 'accountant = "pure"\nepsilon = "20"') -> str:
    declared = "\n".join(_declared(name, kind) for name, kind in columns.items())
    rest = f'[table]\nname = "{table}"\nadjacency = "add-remove"\nunit = {{ kind = "row" }}\n[budget]\n{budget}\n'
    return f"format = 1\n{declared}\n{rest}"


def _declared(name: str, kind: str) -> str:
    return f'[[attribute]]\nname = "{name}"\n' + re.sub(r", (?=\w+ =)", "\n", kind)


def rows(columns: dict[str, str]) -> pa.Table:
    values: dict[str, list[Any]] = {"category": ["A", None], "boolean": [True, False], "id": ["x", "y"]}
    values |= {"text": ["x", "y"], "integer": [1, 2], "real": [1.0, 2.0]}
    return pa.table({name: values[kind.split('"')[1]] for name, kind in columns.items()})


def opened(folder: Path, tables: dict[str, dict[str, str]], budget: str = "") -> Session:
    siloquent.create_workspace(folder)
    session = siloquent.open(folder)
    for table, columns in tables.items():
        text = declaration(table, columns, budget) if budget else declaration(table, columns)
        session.add_frame(siloquent.read_schema(text), rows(columns))
    return session


@pytest.fixture(scope="module", params=NAMINGS)
def named(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Session, dict[str, str]]]:
    naming = NAMINGS[request.param]
    columns = {
        naming.get(name, name): kind
        for name, kind in KINDS.items()
        if naming.get(name, name) not in KINDS or name not in naming
    }
    tables = {naming.get(table, table): columns for table in ("t", "stays", "visits")}
    session = opened(tmp_path_factory.mktemp("fixes") / "w", tables)
    yield session, naming
    session.close()


def texts(naming: dict[str, str]) -> Iterator[str]:
    lists = [found for name, found in vars(hostile).items() if name.isupper() and isinstance(found, list)]
    plain = [
        *REFUSED,
        *(one[0] for one in QUESTIONS.values()),
        *(text for one in lists for text in one if len(text) < 4_000),
    ]
    plain += [
        "SELECT COUNT(DISTINCT patient) FROM t ERROR 5",
        "SELECT DISTINCT age FROM t ERROR 5",
        "SELECT note FROM t ERROR 5",
    ]
    for text in plain:
        yield re.sub(r"\b(ward|t|cost|stays|age|station)\b", lambda found: naming.get(found[0], found[0]), text)
        yield re.sub(
            r"\b(ward|t|cost|stays|age|station)\b", lambda found: _quoted(naming.get(found[0], found[0])), text
        )


def _quoted(name: str) -> str:
    return f'"{name}"'


def refusal(session: Session, text: str) -> SiloquentError | None:
    try:
        session.explain(text)
    except SiloquentError as refused:
        return refused
    return None


def again(session: Session, offered: str, first: SiloquentError) -> str:
    refused = refusal(session, offered)
    return "" if refused is None else f"{first.detail} -> {offered} -> {refused.detail}"


@pytest.mark.slow
def test_questions_that_are_offered_can_be_asked(named: tuple[Session, dict[str, str]]) -> None:
    session, naming = named
    place = list(NAMINGS.values()).index(naming)
    tried, wrong = 0, []
    for number, (plain, quoted) in enumerate(zip(*[texts(naming)] * 2, strict=True)):
        text = (plain, quoted)[(number + place) % 2]  # each with some names plain and with others quoted
        first = refusal(session, text)
        offered = None if first is None else QUESTION.search(first.fix)
        if first is not None and offered is not None:
            tried += 1
            wrong += filter(None, [again(session, offered[0], first)])
    assert not wrong, "\n".join(wrong)
    assert tried > 40


def test_a_table_or_an_attribute_without_its_quotes_is_offered_with_them(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", {"Loans": {"loan grade": KINDS["ward"], "order": KINDS["age"]}})
    found = []
    for text in (
        "SELECT loan grade, COUNT(*) FROM Loans GROUP BY loan grade ERROR 5",
        "SELECT COUNT(*) FROM Loans WHERE order > 3 ERROR 5",
        "SELECT MEDIAN(order) FROM Loans WHERE loan grade = 'A' ERROR 5",
        "SELECT order // 10, COUNT(*) FROM Loans GROUP BY order // 10 ERROR 5",
    ):
        with pytest.raises(SiloquentError) as refused:
            session.explain(text)
        first = refused.value
        offered = QUESTION.search(first.fix)
        assert offered is not None, (text, first.fix)
        assert '"' in offered[0]
        found.append((offered[0], first))
        assert not list(session.ledger.list_accounts()), "finding a question opened an account"
        assert parse(offered[0]).table == "Loans"
    assert all(again(session, one, first) == "" for one, first in found)


def test_the_example_of_a_text_that_cannot_be_read_is_about_a_declared_table(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", {"loans": {"patient": KINDS["patient"], "grade": KINDS["ward"]}})
    for text in ("nonsense", "SELECT COUNT(*) FROM", "BIN"):
        first = refusal(session, text)
        assert first is not None
        found = QUESTION.search(first.fix)
        assert found is not None, first.fix
        assert again(session, found[0], first) == ""


def priced(session: Session, text: str) -> SiloquentError | None:
    try:
        session.ask(text)
    except (AccuracyUnreachable, BudgetExceeded) as refused:
        return refused
    return None


PRICED = [
    "SELECT COUNT(*) FROM t",
    "SELECT ward, COUNT(*) FROM t GROUP BY ward",
    "SELECT MEDIAN(age) FROM t",
    "SELECT SUM(cost) FROM t",
    "SELECT ward, MEDIAN(age), COUNT(*) FROM t GROUP BY ward",
    "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) > 30",
]


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(PRICED), st.sampled_from(["pure", "zcdp"]), st.sampled_from(["0.001", "0.03", "1"]),
    st.sampled_from([0, 0.5, 0.999]), st.sampled_from(["ERROR", "1", "2", "50", "1e-7"]),
)  # fmt: skip
def test_a_refusal_for_its_price_offers_what_can_be_paid(
    question: str, book: str, whole: str, spent: float, times: str
) -> None:
    with TemporaryDirectory() as place:
        budget = f'accountant = "{book}"\nepsilon = "{whole}"' + ('\ndelta = "1e-6"' if book == "zcdp" else "")
        session = opened(Path(place) / "w", {"t": KINDS}, budget)
        if spent:
            session.ask(f"SELECT COUNT(*) FROM t WHERE station BUDGET {Decimal(whole) * Decimal(str(spent)):f} EPSILON")
        bounds = "ERROR 0.001, 0.001" if "), COUNT" in question else "ERROR 0.001"
        tail = bounds if times == "ERROR" else f"BUDGET {Decimal(whole) * Decimal(times):f} EPSILON"
        refused = priced(session, f"{question} {tail} REUSE NONE")
        if refused is not None and "set_budget" not in refused.fix:  # more than that only the owner can do
            assert ("BUDGET" in refused.fix) == (times != "ERROR"), refused.fix
            offered = re.search(r"(ERROR [\d.]+(, [\d.]+)*|BUDGET \S+ (EPSILON|RHO))", refused.fix)
            assert offered is not None, refused.fix
            session.ask(f"{question} {offered[0]} REUSE NONE")
        session.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_commands_that_are_offered_are_not_refused_for_the_same_reason(name: str, types: Types) -> None:
    first = types("explain", QUESTIONS[name][0], "--json").document
    start = first["fix"].find("siloquent ")
    if start < 0:
        return
    words = shlex.split(first["fix"][start:])[1:]
    done = types(*words)
    assert first["detail"] not in done.err
    assert done.status != 2, (first["fix"], done.err)
