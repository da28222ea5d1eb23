"""Joins along links: the columns of the tables that a row refers to, what counts, and what is refused with a fix."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from siloquent.errors import RequestError, SiloquentError, UnknownName
from siloquent.explore import read_question
from siloquent.fixes import AskWith
from unit.linked_shop import CU, EXACT, LINES, ORDERS, ROWS, ask_exactly, write_shop

JOINS = [
    "FROM l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c GROUP BY seg",
    "FROM cu JOIN o ON cu.c = o.c JOIN l ON o.o = l.o GROUP BY seg",
    "FROM l INNER JOIN o USING (o) INNER JOIN cu USING (c) GROUP BY seg",
    "FROM l, o, cu WHERE l.o = o.o AND o.c = cu.c GROUP BY seg",
    "FROM cu AS kunde, l AS zeile, o WHERE zeile.o = o.o AND kunde.c = o.c AND seg IN ('A', 'B') GROUP BY kunde.seg",
]


@pytest.mark.parametrize("join", JOINS)
def test_the_worked_example(tmp_path: Path, join: str) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        found = session.ask(f"SELECT seg, COUNT(*), SUM(q * (100 - d)) {join} BUDGET 30000 EPSILON")
        names = {name: place for place, name in enumerate(found.columns)}
        assert [row[names["count"]] for row in found.rows] == [5, 3]
        place = next(place for name, place in names.items() if name.startswith("sum"))
        sums = [float(str(row[place])) for row in found.rows]
        assert sums == pytest.approx([1495, 300], abs=15)  # the noise has a scale below one


JOINED = "l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c"
OVER_JOINS = {
    f"SELECT s AS seg, COUNT(*) FROM (SELECT seg AS s, q FROM {JOINED} WHERE q > 0) t GROUP BY s": [("A", 5), ("B", 3)],
    f"WITH t AS (SELECT q FROM {JOINED}), u AS (SELECT q FROM t WHERE q < 6) SELECT COUNT(*) FROM u": [(7,)],
    f"WITH t AS (SELECT seg, COUNT(*) AS n FROM {JOINED} GROUP BY seg) SELECT seg, n FROM t WHERE n > 4": [("A", 5)],
    "SELECT COUNT(*) FROM (SELECT o.c, SUM(q) AS s FROM l, o WHERE l.o = o.o AND q > 1 GROUP BY o.c) t WHERE s > 8": [
        (1,)
    ],
    "SELECT n, COUNT(*) FROM (SELECT customer, COUNT(*) AS n FROM l JOIN o USING (o) GROUP BY customer) t "
    "WHERE n > 1 GROUP BY n HAVING COUNT(*) > 0.5 ORDER BY n": [(3, 1), (4, 1)],
    f"SELECT SUM(m) FROM (SELECT cu.c, MAX(q) AS m FROM {JOINED} WHERE seg = 'A' OR d > 7 GROUP BY cu.c) t": [(10,)],
}
"""Questions over subqueries of joins, and their answers."""


@pytest.mark.parametrize("question", OVER_JOINS)
def test_subqueries_join_linked_tables(tmp_path: Path, question: str) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        assert ask_exactly(session, question) == OVER_JOINS[question]
        session.ask(f"{question} BUDGET 1 EPSILON", key="k")
        assert session.ask(f"{question} BUDGET 1 EPSILON", key="k").replayed


def test_rows_without_a_parent_are_left_out_as_by_sql(tmp_path: Path) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        assert ask_exactly(session, "SELECT COUNT(*) FROM o") == [(5,)]
        assert ask_exactly(session, "SELECT COUNT(*) FROM o JOIN cu ON o.c = cu.c") == [(4,)]
        assert ask_exactly(session, "SELECT COUNT(*) FROM o, cu WHERE o.c = cu.c AND seg = 'A'") == [(3,)]
        assert ask_exactly(session, "SELECT COUNT(DISTINCT customer) FROM l JOIN o ON l.o = o.o WHERE q < 6") == [(2,)]


def test_a_parents_row_that_is_there_twice_doubles_its_childs_rows_as_in_sql(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    (folder / "o.csv").write_text(ROWS["o"] + "10,1\n")
    with sq.open(folder) as session:
        assert ask_exactly(session, "SELECT COUNT(*) FROM l JOIN o ON l.o = o.o") == [(10,)]
        assert ask_exactly(session, "SELECT COUNT(*) FROM l") == [(8,)]


def test_a_join_counts_the_same_rows_of_a_unit_as_the_table_alone(tmp_path: Path) -> None:
    limited = LINES.replace("max_rows = 9", "max_rows = 2")
    with sq.open(write_shop(tmp_path / "w", l=limited)) as session:
        joined = ask_exactly(session, "SELECT q, COUNT(*) FROM l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c GROUP BY q")
        assert joined == ask_exactly(session, "SELECT q, COUNT(*) FROM l GROUP BY q")
        assert sum(int(str(number)) for _, number in joined) == 5


def test_a_join_is_paid_from_the_account_of_the_unit_and_repeated_for_nothing(tmp_path: Path) -> None:
    question = "SELECT COUNT(*) FROM l JOIN o ON l.o = o.o WHERE q > 1 BUDGET 2 EPSILON"
    with sq.open(write_shop(tmp_path / "w")) as session:
        first = session.ask(question, key="monday")
        assert session.get_budget("cu").spent == 2
        assert session.ask(question, key="monday") == first
        assert session.ask(question).cost.amount == 0
        assert session.ask(question.replace("l JOIN o ON l.o = o.o", "l")).cost.amount == 2
        assert session.verify(session.save(first)).ok
        (tmp_path / "w" / "o.csv").write_text(ROWS["o"] + "16,1\n")
        assert session.ask(question).cost.amount == 2


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("SELECT COUNT(*) FROM l JOIN o ON l.q = o.c", "l.o = o.o"),
        ("SELECT COUNT(*) FROM l, o WHERE q > 1", "l.o = o.o"),
        ("SELECT COUNT(*) FROM l JOIN o ON l.o = o.o JOIN cu ON l.o = cu.c", "l.o = o.o and o.c = cu.c"),
    ],
)
def test_a_join_on_other_columns_is_refused_with_the_declared_one(tmp_path: Path, question: str, told: str) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        with pytest.raises(RequestError) as refused:
            session.ask(question + EXACT)
        assert told in refused.value.detail
        fix = refused.value.remedy.find(AskWith)
        assert fix is not None
        assert session.ask(fix.question).rows
        assert 4999 < session.get_budget("l").spent <= 5000


def test_tables_that_are_not_linked_to_each_other_are_not_joined(tmp_path: Path) -> None:
    other = ORDERS.replace('name = "o"\nsource', 'name = "v"\nsource')
    with sq.open(write_shop(tmp_path / "w", v=other)) as session:
        with pytest.raises(RequestError, match="not to 'cu' directly") as refused:
            session.ask("SELECT COUNT(*) FROM l JOIN cu ON l.o = cu.c" + EXACT)
        assert "FROM l JOIN o ON l.o = o.o JOIN cu ON o.c = cu.c" in str(refused.value.fix)
        session.explain(refused.value.fix)
        with pytest.raises(RequestError, match="several rows of") as several:
            session.ask("SELECT COUNT(*) FROM o JOIN v ON o.c = v.c" + EXACT)
        session.explain(several.value.fix)
        with pytest.raises(RequestError, match="joined with itself"):
            session.ask("SELECT COUNT(*) FROM l JOIN l ON l.o = l.o" + EXACT)
        with pytest.raises((RequestError, UnknownName)):
            session.ask("SELECT COUNT(*) FROM l JOIN nowhere ON l.o = nowhere.o" + EXACT)
        assert session.get_budget("l").spent == 0


PEOPLE = """format = 1
[table]
name = "people"
source = "csv:cu.csv"
adjacency = "add-remove"
unit = { kind = "user", column = "c", max_rows = 1 }
[budget]
accountant = "pure"
epsilon = "1"
[[attribute]]
name = "c"
type = "id"
[[attribute]]
name = "seg"
type = "category"
values = ["A", "B"]
null = "drop"
"""


@pytest.mark.parametrize("table", ["people", "rows"])
def test_a_table_with_an_account_of_its_own_is_never_read_for_another_ones(tmp_path: Path, table: str) -> None:
    text = PEOPLE.replace('"people"', f'"{table}"')
    if table == "rows":
        text = text.replace('{ kind = "user", column = "c", max_rows = 1 }', '{ kind = "row" }')
    with sq.open(write_shop(tmp_path / "w", **{table: text})) as session:
        joined = [f"o JOIN {table} ON o.c = {table}.c", f"o, {table} WHERE o.c = {table}.c"]
        for source in (*joined, f'"o+{table}"', f'"{table}+o"'):
            with pytest.raises(RequestError):
                session.ask(f"SELECT COUNT(*) FROM {source}" + EXACT)
        assert session.get_budget("o").spent == session.get_budget(table).spent == 0


@pytest.mark.parametrize("name", ["o+l", "l+l", "l+cu", "l+nowhere", "l+", "+l", "o+cu+cu"])
def test_a_relation_that_no_links_make_is_refused(tmp_path: Path, name: str) -> None:
    with sq.open(write_shop(tmp_path / "w")) as session:
        with pytest.raises((RequestError, UnknownName)):
            session.ask(f'SELECT COUNT(*) FROM "{name}"' + EXACT)
        assert session.get_budget("l").spent == 0


def test_a_refresh_of_the_parent_is_one_of_other_rows(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w")
    with sq.open(folder) as session:
        session.ask("SELECT COUNT(*) FROM l JOIN o ON l.o = o.o" + EXACT)
        newer = tmp_path / "newer.csv"
        newer.write_text(ROWS["o"].replace("14,\n", "16,1\n"))
        session.refresh("o", newer)
        again = session.ask("SELECT COUNT(*) FROM l JOIN o ON l.o = o.o" + EXACT)
        assert again.cost.amount > 4999
        assert again.about_rows is not None


def test_a_name_that_two_tables_have_is_refused_where_it_is_used(tmp_path: Path) -> None:
    status = '\n[[attribute]]\nname = "status"\ntype = "category"\nvalues = ["A"]\nnull = "drop"\n'
    folder = write_shop(tmp_path / "w", l=LINES + status, o=ORDERS + status)
    for name in ("l", "o"):
        (folder / f"{name}.csv").write_text(ROWS[name].replace("\n", ",A\n").replace(",A\n", ",status\n", 1))
    with sq.open(folder) as session:
        assert ask_exactly(session, "SELECT COUNT(*) FROM l JOIN o ON l.o = o.o") == [(8,)]
        with pytest.raises(RequestError, match="'status' is a column of l and of o"):
            session.ask("SELECT COUNT(*) FROM l JOIN o ON l.o = o.o WHERE o.status = 'A'" + EXACT)


def test_joined_columns_are_read_in_the_format_of_their_own_table(tmp_path: Path) -> None:
    weight = '\n[[attribute]]\nname = "w"\ntype = "real"\nlo = 0\nhi = 9\ngrid = 0.5\nnull = "drop"\n'
    weight += 'outside = "clamp"\n'
    folder = write_shop(tmp_path / "w", cu=CU + weight + '\n[reading]\ndecimal = ","\ndelimiter = ";"\n')
    (folder / "cu.csv").write_text("c;seg;w\n1;A;1,5\n2;A;2,0\n3;B;0,5\n4;B;9\n")
    with sq.open(folder) as session:
        [row] = session.ask("SELECT SUM(w) FROM o JOIN cu ON o.c = cu.c" + EXACT).rows
        assert float(str(row[0])) == pytest.approx(1.5 + 1.5 + 2 + 0.5, abs=0.26)


@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) FROM o JOIN {} USING (c)",
        "SELECT COUNT(*) FROM o JOIN {} ON o.c = {}.c",
        "SELECT COUNT(*) FROM o JOIN {} USING (o)",
        "SELECT COUNT(*) FROM o JOIN {} USING (seg)",
        "SELECT seg, COUNT(*) FROM o, {} WHERE o.c = {}.c GROUP BY seg",
        "SELECT COUNT(*) FROM (SELECT o.c FROM o JOIN {} USING (c) GROUP BY o.c) t",
    ],
)
def test_a_table_outside_an_analysts_scope_is_refused_like_one_that_is_not_there(tmp_path: Path, question: str) -> None:
    told = []
    with sq.open(write_shop(tmp_path / "w")) as session:
        for name in ("cu", "xy"):
            text = question.replace("{}", name) + " ERROR 5"
            with pytest.raises(SiloquentError) as refused:
                session.prepare(read_question(session, text, may_see=lambda seen: seen in ("o", "l")))
            told.append(f"{refused.value.code} {refused.value.detail} {refused.value.fix}".replace(name, "NAME"))
    assert told[0] == told[1]


PUBLIC = """format = 1
name = "segs"
key = "seg"
source = "csv:segs.csv"
attribute = [{ name = "region", type = "category", values = ["north", "south"], null = "drop" }]
"""
KEYED = 'format = 1\nconstraint = [{ kind = "foreign_key", columns = ["seg"], references = "segs(seg)" }]'


def test_a_public_table_belongs_to_the_column_whose_table_refers_to_it(tmp_path: Path) -> None:
    """A line has a segment of its own, which hides the customer's: the customer's public table does not fit it."""
    seg = '\n[[attribute]]\nname = "seg"\ntype = "category"\nvalues = ["A", "B"]\nnull = "drop"\n'
    folder = write_shop(tmp_path / "w", cu=CU.replace("format = 1", KEYED, 1), l=LINES + seg)
    (folder / "public").mkdir()
    (folder / "public" / "segs.toml").write_text(PUBLIC)
    (folder / "segs.csv").write_text("seg,region\nA,north\nB,south\n")
    with sq.open(folder) as session:
        assert [one.name for one in session.schema("o+cu").public] == ["segs"]
        assert not session.schema("l+cu+o").public
        by_region = (
            "SELECT region, COUNT(*) FROM {} JOIN cu ON o.c = cu.c JOIN segs ON segs.seg = {}.seg GROUP BY region"
        )
        assert ask_exactly(session, by_region.format("o", "cu")) == [("north", 3), ("south", 1)]
        spent = session.get_budget("l").spent
        for table in ("cu", "l"):
            with pytest.raises(SiloquentError):
                session.ask(by_region.format("l JOIN o ON l.o = o.o", table) + EXACT)
        assert session.get_budget("l").spent == spent


def test_persons_are_counted_by_the_column_of_any_joined_table(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "w", o=ORDERS.replace('"c"', '"who"'))
    (folder / "o.csv").write_text(ROWS["o"].replace("o,c", "o,who"))
    with sq.open(folder) as session:
        asked = "FROM l JOIN o ON l.o = o.o JOIN cu ON o.who = cu.c"
        for column in ("cu.c", "o.who", "customer"):
            assert ask_exactly(session, f"SELECT COUNT(DISTINCT {column}) AS n {asked}") == [(3,)]
        assert session.ask(f"SELECT COUNT(DISTINCT c) {asked}{EXACT}").columns[0] == "distinct_c"
