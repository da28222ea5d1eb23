"""What newcomers with their own tables typed, and what they are offered instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import siloquent as sq

CLINICS = ["ENT", "Eye clinic", "St Mary's"]
ROWS = "appt,nhs_no,clinic,score,attended,wait,day\n" + "".join(
    f"A{i},{i % 300},{CLINICS[i % 3]},{i % 5 + 1},{'YN'[i % 2]},{i % 90},2024-0{i % 9 + 1}-11\n" for i in range(3000)
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sq.Session]:
    folder = tmp_path_factory.mktemp("newcomers")
    (folder / "visits.csv").write_text(ROWS, encoding="utf-8")
    meanings = {
        "appt": "id", "clinic": CLINICS, "score": "codes 1..5", "attended": "Y, N",
        "wait": "0..365", "day": "01/01/2024..31/12/2024",
    }  # fmt: skip
    declaration = sq.declare(
        str(folder / "visits.csv"), meanings, accept=True, person="nhs_no", max_rows=20, rows=3000, epsilon="2"
    )
    sq.create_workspace(folder / "w")
    with sq.open(folder / "w") as opened:
        opened.add_table(declaration)
        assert opened.check("visits").is_clean
        yield opened


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("SELECT COUNT(*) FROM visits WHERE clinic = 'Eye' ERROR 900", "clinic = 'Eye clinic' ERROR 900"),
        ("SELECT COUNT(*) FROM visits WHERE clinic = 'St Mary's' ERROR 900", "clinic = 'St Mary''s' ERROR 900"),
        ("SELECT dayname(day), COUNT(*) FROM visits GROUP BY 1 ERROR 900", "SELECT dayofweek(day), COUNT(*)"),
        ("SELECT weekday(day), COUNT(*) FROM visits GROUP BY weekday(day) ERROR 900", "GROUP BY dayofweek(day)"),
        ("SELECT AVG(score) FROM visits ERROR 2", "AVG(CASE score WHEN '1' THEN 1 WHEN '2' THEN 2"),
        ("SELECT AVG(attended = 'Y') FROM visits ERROR 0.4", "AVG(CASE WHEN attended = 'Y' THEN 1"),
        ("SELECT COUNT(*) FROM Visit ERROR 900", "FROM visits ERROR 900"),
    ],
)
def test_the_fix_is_the_question_that_is_meant(session: sq.Session, asked: str, offered: str) -> None:
    with pytest.raises(sq.SiloquentError) as refused:
        session.explain(asked)
    assert offered in refused.value.fix
    assert session.explain(refused.value.fix).price > 0


@pytest.mark.parametrize("constant", ["'a'", "'old'", "'30 days'"])
@pytest.mark.parametrize("column", ["wait", "day"])
def test_no_fix_makes_up_a_constant(session: sq.Session, column: str, constant: str) -> None:
    with pytest.raises(sq.SiloquentError) as refused:
        session.explain(f"SELECT COUNT(*) FROM visits WHERE {column} > {constant} ERROR 900")
    kept, _, told = refused.value.fix.partition(" /* ")
    assert kept == "SELECT COUNT(*) FROM visits ERROR 900"
    assert f"{column} > {constant}" in told
    session.explain(refused.value.fix)


def test_a_fix_by_quotes_says_its_price_and_leaves_budget(session: sq.Session) -> None:
    with pytest.raises(sq.SiloquentError) as refused:
        session.explain("SELECT COUNT(*) FROM visits WHERE day? > '2024-03-01' ERROR 1")
    assert "ERROR 1 " not in refused.value.fix
    assert "of what is left */" in refused.value.fix or "left out" in refused.value.fix


def test_a_refusal_by_price_tells_what_all_that_is_left_would_buy(session: sq.Session) -> None:
    with pytest.raises(sq.SiloquentError) as refused:
        session.explain("SELECT COUNT(*) FROM visits ERROR 1")
    told = refused.value.detail.partition("At best, what is left pays for ERROR ")[2].rstrip(".")
    explained = session.explain(f"SELECT COUNT(*) FROM visits ERROR {told}")
    assert explained.left_after is not None
    assert explained.left_after < explained.left_before / 20
    assert "for 10 % of what is left" in refused.value.fix


def test_a_rough_average_of_some_rows_counts_no_finer_than_it_needs(session: sq.Session) -> None:
    rough = session.explain("SELECT AVG(wait) FROM visits WHERE clinic = 'ENT' ERROR 90")
    whole = session.explain("SELECT AVG(wait) FROM visits ERROR 90")
    assert rough.price < 10 * whole.price


def test_a_path_is_no_frame_and_an_empty_workspace_says_how_to_add_one(tmp_path: Path) -> None:
    sq.create_workspace(tmp_path / "w")
    (tmp_path / "t.csv").write_text("age\n1\n", encoding="utf-8")
    declaration = sq.declare(str(tmp_path / "t.csv"), {"age": "0..3"}, accept=True, person="none")
    with sq.open(tmp_path / "w") as opened:
        with pytest.raises(sq.SiloquentError, match="add_table"):
            opened.explain("SELECT COUNT(*) FROM t ERROR 5")
        with pytest.raises(sq.SiloquentError, match="add_table"):
            opened.add_frame(declaration, str(tmp_path / "t.csv"))
        opened.add_table(declaration)
        with pytest.raises(sq.SiloquentError, match="already declares"):
            opened.add_table(declaration)
    with sq.open(tmp_path / "w") as again:
        assert again.list_tables() == ["t"]
        assert "t: as declared" in str(again.check("t"))
