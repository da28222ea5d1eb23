"""Tables that share a unit, from the declaration to the answer: what counts, and the one account of all of them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import siloquent as sq
from siloquent.cli.app import app
from siloquent.data import check
from siloquent.errors import BudgetExceeded, LedgerError, SchemaError
from unit.linked_shop import LINES, ORDERS, ROWS, UNIT, ask_exactly, write_shop


def count(session: sq.Session, question: str) -> object:
    """The only number of an answer with hardly any noise."""
    [row] = ask_exactly(session, question)
    return row[0]


def test_the_worked_example(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 8
        assert count(session, "SELECT COUNT(*) FROM o") == 5
        assert count(session, "SELECT COUNT(*) FROM cu") == 4
        assert count(session, "SELECT SUM(q) FROM l") == 19
        assert count(session, "SELECT COUNT(*) FROM l WHERE d >= 10") == 2
        assert count(session, "SELECT COUNT(DISTINCT customer) FROM l") == 3
        assert count(session, "SELECT COUNT(DISTINCT c) FROM o") == 4
        groups = dict(ask_exactly(session, "SELECT q, COUNT(*) FROM l GROUP BY q"))
        assert {key: number for key, number in groups.items() if number} == {1: 4, 2: 1, 3: 1, 4: 1, 6: 1}


def test_subqueries_by_person_see_all_rows_of_an_owner(tmp_path: Path) -> None:
    limited = LINES.replace("max_rows = 9", "max_rows = 3")
    with sq.open(write_shop(tmp_path / "w", l=limited)) as session:
        lines = "SELECT n, COUNT(*) FROM (SELECT customer, COUNT(*) AS n FROM l GROUP BY customer) GROUP BY n"
        assert dict(ask_exactly(session, lines)) == {1: 1, 2: 0, 3: 2}  # 4 lines count as 3
        assert count(session, "SELECT SUM(m) FROM (SELECT customer, MAX(q) AS m FROM l GROUP BY customer)") == 11
        few = "SELECT COUNT(*) FROM (SELECT customer, SUM(d) AS s FROM l WHERE d > 0 GROUP BY customer)"
        assert count(session, few) == 2
        orders = "SELECT COUNT(*) FROM (SELECT c, COUNT(*) AS n FROM o GROUP BY c) WHERE n > 1"
        assert count(session, orders) == 1
        assert count(session, orders.replace("n > 1", "n = 1")) == 3
        assert session.ledger.verify().ok


def test_at_most_so_many_rows_of_a_unit_count_whatever_its_orders(tmp_path: Path) -> None:
    limited = LINES.replace("max_rows = 9", "max_rows = 3")
    with sq.open(write_shop(tmp_path / "w", l=limited)) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 7


def test_a_key_that_two_owners_claim_gives_its_rows_to_both(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    (folder / "o.csv").write_text(ROWS["o"] + "10,2\n")
    with sq.open(folder) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 10
        report = check(session.table("l"))
    [several] = [one for one in report.findings if one.kind == "several_owners"]
    assert several.count == 1
    assert "protected together with the rows of each, not separately" in several.sentence
    [lost] = [one for one in report.findings if one.kind == "no_user"]
    assert lost.count == 2


def test_an_owner_who_has_a_key_twice_owns_its_rows_once(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    (folder / "o.csv").write_text(ROWS["o"] + "10,1\n11,1\n")
    with sq.open(folder) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 8


def test_all_tables_are_paid_from_one_account(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    (folder / "units" / "customer.toml").write_text(UNIT.replace("100000", "1"))
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON")
        session.ask("SELECT COUNT(*) FROM o BUDGET 0.4 EPSILON")
        assert session.get_budget("cu").spent == session.get_budget("l").spent > 0.79
        with pytest.raises(BudgetExceeded, match=r"unit\.customer@1"):
            session.ask("SELECT COUNT(*) FROM cu BUDGET 0.4 EPSILON")
        assert session.ledger.verify().ok


def test_answers_about_one_table_are_not_those_about_another(tmp_path: Path) -> None:
    same = LINES.replace('name = "l"', 'name = "l2"')
    folder = write_shop(tmp_path / "w", l2=same)
    with sq.open(folder) as session:
        first = session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON")
        other = session.ask("SELECT COUNT(*) FROM l2 BUDGET 0.4 EPSILON")
        again = session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON")
        assert (first.cost.amount > 0, other.cost.amount > 0, again.cost.amount) == (True, True, 0)
        assert not other.notes or "other rows" not in " ".join(other.notes)
        assert again.rows == first.rows


@pytest.mark.parametrize("table", ["o", "l"])
def test_new_rows_of_any_table_on_the_way_are_other_rows(tmp_path: Path, table: str) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON")
        (folder / f"{table}.csv").write_text(ROWS[table] + ("16,1\n" if table == "o" else "16,1,1\n"))
        assert session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON").cost.amount > 0


def test_another_declaration_of_the_parent_is_a_new_version_of_its_children(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON")
        (folder / "schemas" / "o.toml").write_text(
            ORDERS.replace('source = "csv:o.csv"', 'source = "csv:o.csv"\nversion = 2')
        )
        [change] = session.list_changes("l")
        assert (change.subject, change.effect) == ("the way to its unit", "new version")
        assert session.ask("SELECT COUNT(*) FROM l BUDGET 0.4 EPSILON").cost.amount > 0


def test_a_repeated_key_costs_nothing_and_its_release_verifies(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        first = session.ask("SELECT COUNT(*) FROM l BUDGET 1 EPSILON", key="monday")
        again = session.ask("SELECT COUNT(*) FROM l BUDGET 1 EPSILON", key="monday")
        assert again == first
        assert "one customer" in first.guarantee.unit
        folder = session.save(first)
        assert session.verify(folder).ok


def test_a_new_epoch_is_one_of_the_unit(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l BUDGET 1 EPSILON")
        session.open_epoch("unit.customer", statement="the budgets add up")
        (folder / "units" / "customer.toml").write_text(UNIT + "epoch = 2\n")
        assert session.get_budget("o").account == "unit.customer@2"
        assert session.get_budget("o").spent == 0


def test_other_limits_of_the_unit_are_told_with_its_file(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l BUDGET 1 EPSILON")
        (folder / "units" / "customer.toml").write_text(UNIT.replace("100000", "200000"))
        with pytest.raises(LedgerError, match=r"units/customer\.toml"):
            session.ask("SELECT COUNT(*) FROM o BUDGET 1 EPSILON")
        session.set_budget("unit.customer")
        assert session.get_budget("o").limit == 200_000


SOURCES = ["csv", "parquet", "duckdb"]


@pytest.mark.parametrize("child", SOURCES)
@pytest.mark.parametrize("parent", SOURCES)
def test_links_lead_from_any_file_to_any_other(tmp_path: Path, child: str, parent: str) -> None:
    tables = {"o": ORDERS, "l": LINES}
    made = tmp_path / "made"
    made.mkdir()
    for name, kind in (("o", parent), ("l", child)):
        (made / f"{name}.csv").write_text(ROWS[name])
        if kind == "parquet":
            duckdb.sql(f"COPY (FROM '{made}/{name}.csv') TO '{made}/{name}.parquet'")
        if kind == "duckdb":
            with duckdb.connect(f"{made}/{name}.duckdb") as connection:
                connection.execute(f"CREATE TABLE t AS FROM '{made}/{name}.csv'")
        where = {"csv": f"csv:{name}.csv", "parquet": f"parquet:{name}.parquet", "duckdb": f"duckdb:{name}.duckdb#t"}
        tables[name] = tables[name].replace(f"csv:{name}.csv", where[kind])
    folder = write_shop(tmp_path / "w", **tables)
    for file in made.iterdir():
        file.rename(folder / file.name)
    with sq.open(folder) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 8
        assert count(session, "SELECT COUNT(DISTINCT customer) FROM l") == 3


def test_keys_declared_as_missing_lead_nowhere(tmp_path: Path) -> None:
    reading = '\n[reading]\nmissing = ["13", "99"]\n'
    lines = LINES.replace("\n[[attribute]]", reading + "\n[[attribute]]", 1)
    with sq.open(write_shop(tmp_path / "w", l=lines)) as session:
        assert count(session, "SELECT COUNT(*) FROM l") == 5


@pytest.mark.parametrize("table", ["o", "l"])
def test_spark_on_the_way_is_refused_before_anything_is_spent(tmp_path: Path, table: str) -> None:
    changed = {"o": ORDERS, "l": LINES}
    changed[table] = changed[table].replace(f"csv:{table}.csv", f"spark:{table}")
    with sq.open(write_shop(tmp_path / "w", **changed)) as session:
        with pytest.raises(SchemaError, match="is in Spark") as refused:
            session.ask("SELECT COUNT(*) FROM l BUDGET 1 EPSILON")
        assert f"parquet:data/{table}.parquet" in str(refused.value.fix)
        assert session.get_budget("l").spent == 0


def test_a_backup_keeps_the_units(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    found = CliRunner().invoke(app, ["--workspace", str(folder), "backup", str(tmp_path / "kept")])
    assert found.exit_code == 0, found.output
    [kept] = (tmp_path / "kept").rglob("customer.toml")
    assert kept.read_text() == UNIT
