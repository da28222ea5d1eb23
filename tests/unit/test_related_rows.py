"""Conditions on a person's rows of another table, from the question to the answer, its key and its release."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent as sq
from siloquent.data.units import related_rows
from siloquent.errors import RequestError, SchemaError, SiloquentError
from siloquent.explore.examples import read_question
from unit.linked_shop import CU, LINES, ORDERS, ROWS, ask_exactly, write_shop

NEVER = "SELECT COUNT(*) FROM cu WHERE NOT EXISTS (SELECT * FROM o WHERE o.c = cu.c)"
SOME = "SELECT COUNT(*) FROM cu WHERE EXISTS (SELECT 1 FROM l WHERE l.customer = cu.c AND l.d >= 10)"
LINED = "SELECT COUNT(*) FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.o = o.o AND l.q > 1)"


def count(session: sq.Session, question: str) -> object:
    [row] = ask_exactly(session, question)
    return row[0]


def test_the_worked_example(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        assert count(session, NEVER) == 1
        assert count(session, SOME) == 2
        assert count(session, SOME.replace("EXISTS", "NOT EXISTS")) == 2
        assert count(session, LINED) == 3
        assert count(session, "SELECT COUNT(*) FROM cu WHERE c IN (SELECT c FROM o)") == 3
        assert count(session, "SELECT COUNT(*) FROM l WHERE customer IN (SELECT c FROM cu WHERE seg = 'A')") == 5
        assert session.ledger.verify().ok


def test_a_line_of_two_owners_tells_one_nothing_of_the_other(tmp_path: Path) -> None:
    """Order 10 is claimed by 1 and 4 but only 1 has another one: that is looked up for the rows of 1 alone."""
    folder = write_shop(tmp_path / "w")
    (folder / "o.csv").write_text(ROWS["o"] + "10,4\n")
    with sq.open(folder) as session:
        both = "SELECT COUNT(*) FROM l WHERE EXISTS (SELECT 1 FROM l AS m WHERE m.customer = l.customer AND m.d = 5)"
        assert count(session, both) == 4


def test_a_row_of_two_owners_is_looked_up_among_the_rows_of_each(tmp_path: Path) -> None:
    """Both claim order 10, and only the claim of 4 is large: its two lines count for 4, and not for 1."""
    size = '\n[[attribute]]\nname = "size"\ntype = "integer"\nlo = 0\nhi = 9\noutside = "clamp"\nnull = "drop"\n'
    folder = write_shop(tmp_path / "w", o=ORDERS + size)
    (folder / "o.csv").write_text("o,c,size\n10,1,2\n11,1,3\n10,4,9\n")
    with sq.open(folder) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 6
        assert count(session, "SELECT COUNT(*) FROM l WHERE EXISTS (SELECT 1 FROM o WHERE o.o = l.o AND size > 5)") == 2
        assert count(session, "SELECT COUNT(*) FROM l WHERE EXISTS (SELECT 1 FROM o WHERE o.o = l.o AND size < 5)") == 4


@pytest.mark.parametrize("equality", ["o.c = cu.id", "cu.id = o.c", "id = c", "c = id"])
def test_customers_without_an_order_are_found_whichever_column_is_written_first(tmp_path: Path, equality: str) -> None:
    named = CU.replace('name = "c"', 'name = "id"').replace('column = "c"', 'column = "id"')
    folder = write_shop(tmp_path / "w", cu=named)
    (folder / "cu.csv").write_text(ROWS["cu"].replace("c,seg", "id,seg"))
    with sq.open(folder) as session:
        assert count(session, f"SELECT COUNT(*) FROM cu LEFT JOIN o ON {equality} WHERE o.o IS NULL") == 1
        assert count(session, f"SELECT COUNT(o.o) FROM cu LEFT JOIN o ON {equality}") == 4


def test_persons_are_told_apart_by_their_texts_where_one_column_holds_numbers(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w", cu=CU.replace("csv:cu.csv", "parquet:cu.parquet"))
    pq.write_table(pa.table({"c": [1, 2], "seg": ["A", "B"]}), folder / "cu.parquet")
    (folder / "o.csv").write_text("o,c\n10,01\n11,2\n")
    with sq.open(folder) as session:
        assert count(session, NEVER.replace("NOT ", "")) == 1
        assert count(session, NEVER) == 1


@pytest.mark.parametrize("question", [NEVER, SOME, LINED])
def test_a_key_costs_nothing_again_and_its_release_verifies(tmp_path: Path, question: str) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        first = session.ask(f"{question} BUDGET 1 EPSILON", key="monday")
        assert session.ask(f"{question} BUDGET 1 EPSILON", key="monday") == first
        assert "one customer" in first.guarantee.unit
        assert session.verify(session.save(first)).ok
        spent = session.get_budget("cu").spent
    with sq.open(tmp_path / "w") as session:
        assert session.ask(f"{question} BUDGET 1 EPSILON", key="monday").rows == first.rows
        assert session.get_budget("o").spent == spent


@pytest.mark.parametrize("table", ["o", "l"])
def test_new_rows_of_a_table_that_is_looked_up_are_other_rows(tmp_path: Path, table: str) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask(f"{LINED} BUDGET 1 EPSILON")
        assert session.explain(f"{LINED} BUDGET 1 EPSILON").price == 0
        (folder / f"{table}.csv").write_text(ROWS[table] + ("16,1\n" if table == "o" else "16,1,1\n"))
        assert session.ask(f"{LINED} BUDGET 1 EPSILON").cost.amount > 0


BY_PERSON = (
    "SELECT COUNT(*) FROM (SELECT customer, COUNT(*) AS n FROM l WHERE EXISTS (SELECT 1 FROM l AS m WHERE "
    "m.customer = l.customer AND m.d >= 10) GROUP BY customer) t WHERE n > 1"
)


@pytest.mark.parametrize(
    ("question", "changed"),
    [
        (SOME, ("10", "5")),
        (SOME, ("EXISTS", "NOT EXISTS")),
        (SOME, ("l.d", "l.q")),
        (LINED, ("l.q > 1", "l.q > 2")),
        (LINED.replace("COUNT(*)", "COUNT(DISTINCT c)"), ("l.q > 1", "l.q > 2")),
        (BY_PERSON, ("10", "5")),
        (BY_PERSON, ("m.d", "m.q")),
        (BY_PERSON.replace("FROM l WHERE", "FROM l JOIN o ON l.o = o.o WHERE"), ("10", "5")),
    ],
)
def test_answers_by_other_conditions_are_not_drawn_from(
    tmp_path: Path, question: str, changed: tuple[str, str]
) -> None:
    """An answer that was drawn from would lower the price; that of the same question makes it free."""
    first, other = (f"{one} ERROR 3 REUSE ANY" for one in (question, question.replace(*changed)))
    with sq.open(write_shop(tmp_path / "w")) as session:
        price = session.explain(other).price
        session.ask(first)
        assert session.explain(first).price == 0
        assert session.explain(other).price == price > 0
        assert "draws from" not in str(session.ask(other))


OF_GROUPS = "SELECT COUNT(*) FROM (SELECT customer, COUNT(*) AS n FROM l GROUP BY customer) t WHERE "
WITH_AN_A = "customer IN (SELECT c FROM cu WHERE seg = 'A')"


def test_conditions_on_persons_and_on_their_values_are_joined_by_and(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        assert count(session, f"{OF_GROUPS} {WITH_AN_A}") == 2
        assert count(session, f"{OF_GROUPS} n > 3 AND {WITH_AN_A}") == 1
        assert count(session, f"{OF_GROUPS} n <= 3 AND NOT {WITH_AN_A}") == 1
        for condition in (f"n > 3 OR {WITH_AN_A}", f"NOT (n > 3 AND {WITH_AN_A})"):
            with pytest.raises(RequestError, match="joined by AND only") as refused:
                session.explain(f"{OF_GROUPS} {condition} ERROR 5")
            assert "EXISTS 1" not in str(refused.value)


def test_columns_of_a_table_that_is_looked_up_are_found_before_the_charge(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w", o=ORDERS.replace("csv:o.csv", "parquet:o.parquet"))
    pq.write_table(pa.table({"o": ["10", "11"]}), folder / "o.parquet")
    with sq.open(folder) as session:
        with pytest.raises(SiloquentError) as refused:
            session.ask(f"{NEVER} BUDGET 1 EPSILON", key="monday")
        assert refused.value.code == "unknown_name"
        assert "'o'" in str(refused.value)
        assert refused.value.fix == "attributes and columns of o must have the same names"  # no other question
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))


@pytest.mark.parametrize("question", [NEVER, BY_PERSON])
def test_keys_that_cannot_be_looked_up_are_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    """Planted where the product builds the query of the keys."""

    def fail(*given: object) -> None:
        raise RequestError("no keys", fix="none")

    monkeypatch.setattr(related_rows, "select_keys", fail)
    with sq.open(write_shop(tmp_path / "w")) as session:
        with pytest.raises(RequestError, match="no keys"):
            session.ask(f"{question} BUDGET 1 EPSILON")
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))


def test_a_table_outside_the_tables_of_an_analyst_is_one_that_does_not_exist(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        told = []
        for question in (NEVER, NEVER.replace(" o ", " none ").replace("o.c", "none.c")):
            with pytest.raises(SiloquentError) as refused:
                read_question(session, f"{question} ERROR 9", may_see=lambda name: name != "o")
            told.append(str(refused.value).replace("none", "o"))
        assert told[0] == told[1]


@pytest.mark.parametrize("table", ["cu", "o"])
def test_spark_is_refused_before_anything_is_spent(tmp_path: Path, table: str) -> None:
    changed = {"cu": CU, "o": ORDERS}
    changed[table] = changed[table].replace(f"csv:{table}.csv", f"spark:{table}")
    with sq.open(write_shop(tmp_path / "w", **changed)) as session:
        with pytest.raises(SchemaError, match="is in Spark") as refused:
            session.ask(f"{NEVER} BUDGET 1 EPSILON")
        assert f"parquet:data/{table}.parquet" in str(refused.value.fix)
        assert session.get_budget("cu").spent == 0


@pytest.mark.postgres
@pytest.mark.parametrize("places", [("cu", "o", "l"), ("o",), ("cu",)])
def test_postgresql_gives_the_same(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...]
) -> None:
    import psycopg

    changed = {"cu": CU, "o": ORDERS, "l": LINES}
    with psycopg.connect(postgres_dsn.replace("+psycopg", ""), autocommit=True) as connection:
        for name in places:
            head, *rows = ROWS[name].splitlines()
            columns = ", ".join(f"{one} TEXT" for one in head.split(","))
            connection.execute(f"CREATE TABLE {name} ({columns})".encode())
            for row in rows:
                values = ", ".join(f"'{one}'" if one else "NULL" for one in row.split(","))
                connection.execute(f"INSERT INTO {name} VALUES ({values})".encode())
            changed[name] = changed[name].replace(f"csv:{name}.csv", f"postgres:shop#{name}")
    monkeypatch.setenv("SHOP_DSN", postgres_dsn)
    folder = write_shop(tmp_path / "w", **changed)
    with (folder / "siloquent.toml").open("a") as file:
        file.write('\n[postgres.shop]\ndsn_env = "SHOP_DSN"\n')
    with sq.open(folder) as session:
        assert [count(session, one) for one in (NEVER, SOME, LINED)] == [1, 2, 3]
