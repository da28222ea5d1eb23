"""Joins of linked tables with several public ones: the numbers of DuckDB, whatever is joined, chosen and grouped."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.suites.judge import ACCURACY, judge
from benchmarks.suites.questions import Question
from benchmarks.suites.tables import build_workspace, connect
from siloquent.errors import SiloquentError
from siloquent.explore.public_tables import bind_public
from siloquent.explore.spec import parse, render

FROM = {
    "parcels l, articles a": ("a.article = l.article", "al"),
    "parcels l, articles a, sellers s": ("a.article = l.article AND s.seller = l.seller", "asl"),
    "sellers s, parcels l, nations n, purchases o, buyers b": (
        "s.seller = l.seller AND s.home = n.nation AND l.purchase = o.purchase AND o.buyer = b.buyer",
        "slno",
    ),
    "parcels l, purchases o, buyers b, sellers s, nations n1, nations n2": (
        "l.purchase = o.purchase AND o.buyer = b.buyer AND l.seller = s.seller AND s.home = n1.nation "
        "AND n2.nation = b.nation",
        "slo12",
    ),
    "parcels l, purchases o, buyers b, nations n, sellers s": (
        "l.purchase = o.purchase AND o.buyer = b.buyer AND l.seller = s.seller AND b.nation = s.home "
        "AND n.nation = s.home",
        "slon",
    ),
    "purchases o, buyers b, nations AS n": ("o.buyer = b.buyer AND b.nation = n.nation", "on"),
}
"""Tables, what they are joined on, and whose columns may be asked for."""
KEYS = {
    "a": ["a.brand", "a.material"], "s": ["s.home", "s.rating"], "l": ["l.mode", "l.flag"], "o": ["o.status"],
    "n": ["n.region", "n.title"], "1": ["n1.region"], "2": ["n2.region", "n2.title"],
}  # fmt: skip
TESTS = {
    "a": ["a.size < 20", "a.finish LIKE 'promo%'"], "s": ["s.rating >= 3", "s.home IN ('AR', 'CA')"],
    "l": ["l.quantity > 10", "l.mode <> 'AIR'"], "o": ["o.status = 'sent' OR o.priority = '2-high'"],
    "n": ["n.region <> 'asia'"], "1": ["n1.region = 'america'", "n1.title LIKE '%a%'"],
    "2": ["n2.region <> 'europe' OR n2.title = 'France'"],
}  # fmt: skip
VALUES = {
    "l": ["SUM(l.quantity)", "SUM(l.price * (1 - l.discount))", "COUNT(*)"], "o": ["SUM(o.total)", "COUNT(*)"],
    "a": ["SUM(l.quantity / a.size)", "SUM(CASE WHEN a.material = 'tin' THEN l.quantity ELSE 0 END)"],
    "1": ["SUM(CASE WHEN n1.title = 'Brazil' THEN l.price ELSE 0 END)"],
}  # fmt: skip


def draw_question(chance: random.Random, number: int) -> str:
    tables = list(FROM)[number % len(FROM)]
    on, letters = FROM[tables]
    keys = [chance.choice(KEYS[one]) for one in chance.sample(letters, chance.randint(1, 2))]
    tests = [chance.choice(TESTS[one]) for one in chance.sample(letters, chance.randint(0, 2))]
    values = [one for letter in letters for one in VALUES.get(letter, []) if "l." not in one or "l" in letters]
    where = " AND ".join([on, *(f"({one})" for one in tests)])
    if len(tests) == 2 and chance.random() < 0.5:  # as in an OR of whole conditions, each with its join
        where = " OR ".join(f"({on} AND ({one}))" for one in tests)
    named = ", ".join(f"{key} AS k{place}" for place, key in enumerate(keys))
    grouped = ", ".join(f"k{place}" for place, _ in enumerate(keys))
    return f"SELECT {named}, {chance.choice(values)} AS x FROM {tables} WHERE {where} GROUP BY {grouped}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop") / "w"
    build_workspace(made)
    return made


@pytest.fixture
def session(folder: Path) -> Iterator[sq.Session]:
    with sq.open(folder, defaults=ACCURACY) as opened:
        yield opened


@pytest.mark.slow
def test_numbers_are_those_of_sql(folder: Path, session: sq.Session) -> None:
    chance = random.Random(7)
    with connect(folder) as exact:
        for number in range(30):
            text = draw_question(chance, number)
            verdict = judge(session, exact, Question("several", text, ("join-public",)))
            assert verdict.outcome == "answered", (text, verdict.why)


SOME = [
    "SELECT n.region, COUNT(*) AS x FROM parcels l, purchases o, buyers b, nations n, sellers s WHERE n.nation = "
    "s.home AND s.seller = l.seller AND l.purchase = o.purchase AND o.buyer = b.buyer GROUP BY n.region",
    "SELECT n.region, COUNT(*) AS x FROM parcels l JOIN purchases o USING (purchase) JOIN buyers b USING (buyer) "
    "JOIN sellers s ON s.seller = l.seller JOIN nations n ON n.nation = s.home WHERE b.newsletter OR s.rating = 1 "
    "GROUP BY n.region",
    "SELECT n1.region AS a, n2.region AS b, COUNT(*) AS x FROM parcels l, purchases o, buyers b, sellers s, "
    "nations n1, nations n2 "
    "WHERE l.purchase = o.purchase AND o.buyer = b.buyer AND l.seller = s.seller AND s.home = n1.nation "
    "AND b.nation = n2.nation AND (n1.region = 'asia' OR n2.title = 'Brazil') GROUP BY n1.region, n2.region",
    "SELECT d.class, SUM(r.doses) AS x FROM prescriptions r JOIN drugs d USING (drug) JOIN visits v USING (visit) "
    "GROUP BY d.class",
    "SELECT w.building, COUNT(*) AS x FROM prescriptions r JOIN visits v ON r.visit = v.visit "
    "JOIN patients p ON v.patient = p.patient JOIN wards w ON w.ward = v.ward GROUP BY w.building",
]


@pytest.mark.parametrize("text", SOME)
def test_a_key_costs_nothing_again_and_its_release_verifies(session: sq.Session, text: str) -> None:
    first = session.ask(text, key=f"k{SOME.index(text)}")
    assert session.ask(text, key=f"k{SOME.index(text)}") == first
    assert session.verify(session.save(first)).ok


@pytest.mark.parametrize("text", SOME)
def test_what_is_rendered_is_the_same_question(session: sq.Session, text: str) -> None:
    asked = session.prepare(text).course.query
    assert asked.publics or asked.join
    assert bind_public(session, parse(render(asked)), may_see=lambda _: True) == asked


@pytest.mark.parametrize("text", SOME)
def test_a_question_that_was_parsed_elsewhere_is_the_same(session: sq.Session, text: str) -> None:
    """Where no tables are known, names are kept with their tables; the session finds what they are."""
    known = session.prepare(text).course.query
    for asked in (sq.parse(f"{text} ERROR 9"), sq.parse(render(sq.parse(f"{text} ERROR 9")))):
        bound = session.prepare(asked).course.query
        assert replace(bound, promise=known.promise, default_share=known.default_share) == known


REFUSED = [
    "SELECT COUNT(*) FROM parcels l, sellers s, nations n WHERE s.seller = l.seller AND n.region = 'asia'",
    "SELECT COUNT(*) FROM parcels l, sellers s, visits v WHERE s.seller = l.seller AND v.visit = l.purchase",
    "SELECT COUNT(*) FROM parcels l, sellers s, nowhere n WHERE s.seller = l.seller AND n.x = l.purchase",
    "SELECT SUM(a.size) FROM parcels l, sellers s, articles a WHERE s.seller = l.seller AND a.article = l.article",
    "SELECT COUNT(*) FROM parcels l, sellers s, articles a WHERE s.seller = l.seller AND a.article = l.price",
]


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused_free(session: sq.Session, text: str) -> None:
    before = len(list(session.ledger.iter_entries(after=0)))
    with pytest.raises(SiloquentError) as refused:
        session.ask(text)
    assert refused.value.code in ("request_invalid", "unknown_name"), refused.value
    assert refused.value.fix
    assert len(list(session.ledger.iter_entries(after=0))) == before
