"""Attributes of any number of values: cut points found by halving say what a look at each value says."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import siloquent
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore.plan.cells import classes, cuts
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.reuse.refinement import Grid
from siloquent.explore.spec import parse, parse_expression, parse_predicate
from siloquent.explore.spec.footprint import Area
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import GroupBy, Predicates, Query
from siloquent.fixes import AskWith
from siloquent.schema import Attribute, ClassRuns, Domain, TableSchema, attribute

D = Decimal
NUMBERS = (
    Attribute("x", "integer", lo=D(-30), hi=D(60), grid=D(3), null="cell"),
    Attribute("x", "integer", lo=D(0), hi=D(70), grid=D(1), outside="clamp"),
    Attribute("x", "real", lo=D("-2"), hi=D("3"), grid=D("0.05"), null="cell"),
    Attribute("x", "real", lo=D("-0.7"), hi=D("-0.07"), grid=D("0.07")),
)
MOMENTS = (
    Attribute("x", "date", lo=datetime(2023, 12, 20), hi=datetime(2024, 3, 9), grid=D(86_400), null="cell"),
    Attribute("x", "datetime", lo=datetime(2024, 2, 27, 20), hi=datetime(2024, 3, 3, 8), grid=D(3_600)),
)
NUMERIC = [
    "x", "x + 1.5", "x - 7", "3 - x", "x * 2", "x * -0.5", "0 * x", "x // 4", "x // -3", "x // 0", "x % 5", "x % -2.5",
    "x % 0", "abs(x)", "abs(x - 1)", "round(x)", "round(x * 0.5)", "abs(3 - x // 2)", "(x % 10) // 3", "x + x // 2",
    "abs(x) * 2", "abs(x) % 4", "round(abs(x) - 0.5)", "7",
]  # fmt: skip
TEMPORAL = ["year(x)", "month(x)", "day(x)", "dayofweek(x)", "hour(x)", "day(x) % 7", "abs(month(x) - 2)"]


def _read(columns: tuple[Attribute, ...]) -> TableSchema:
    text = """
    format = 1
    attribute = [{ name = "y", type = "boolean", null = "drop" }]
    [table]
    name = "t"
    adjacency = "add-remove"
    unit = { kind = "row" }
    [budget]
    accountant = "zcdp"
    rho = "1000"
    delta = "1e-6"
    """
    return replace(siloquent.read_schema(text), domain=Domain(columns, "t"))


def _blocks(query: Query, column: Attribute) -> tuple[Any, ...]:
    compiled = compile_workload(query, _read((column,)))
    (part,) = compiled.parts
    cells = np.arange(column.size + 1)
    found = part.block.classes[0][cells] if part.block.classes else np.zeros(len(cells), dtype=np.int64)
    return part.column[found].tolist(), compiled.labels, compiled.sensitivity


def _both(query: Query, column: Attribute) -> tuple[Any, Any]:
    plain: Any
    try:
        plain = _blocks(query, column)
    except RequestError as refused:
        plain = str(refused)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute, "MAX_POINTS", 7)
        patch.setattr(classes, "MAX_POINTS", 5)
        try:
            return plain, _blocks(query, column)
        except RequestError as refused:
            return plain, str(refused)


def _constants(column: Attribute) -> st.SearchStrategy[str]:
    if column in MOMENTS:
        return st.integers(-1, 60).map(str)
    return st.one_of(st.integers(-45, 75).map(str), st.decimals(D(-3), D(4), places=2).map(lambda one: f"{one:f}"))


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Attribute, str]:
    column = draw(st.sampled_from([*NUMBERS, *MOMENTS]))
    if column in MOMENTS and draw(st.booleans()):
        day = draw(st.dates(datetime(2023, 12, 1).date(), datetime(2024, 4, 1).date()))
        return (
            column,
            f"x {draw(st.sampled_from(['<', '>=', '=', '!=']))} {draw(st.sampled_from(['', 'DATE ']))}'{day}'",
        )
    side = draw(st.sampled_from(TEMPORAL if column in MOMENTS else NUMERIC[:-1]))
    constant = _constants(column)
    form = draw(st.integers(0, 3))
    if form == 0:
        return column, f"{side} IN ({', '.join(draw(st.lists(constant, min_size=1, max_size=4)))})"
    if form == 1:
        return column, f"{side} BETWEEN {draw(constant)} AND {draw(constant)}"
    other = draw(st.sampled_from(NUMERIC)) if form == 2 and column in NUMBERS else draw(constant)
    return column, f"{side} {draw(st.sampled_from(['<', '<=', '>', '>=', '=', '!=']))} {other}"


@settings(max_examples=250, deadline=None)
@given(conditions(), st.booleans())
def test_conditions_count_the_same_values(made: tuple[Attribute, str], negated: bool) -> None:
    column, text = made
    query = Query("t", Predicates((parse_predicate(f"NOT ({text})" if negated else text),)), Accuracy(D(5)))
    plain, halved = _both(query, column)
    if isinstance(halved, str):
        assert halved == plain or re.search("cannot be distinguished|change at more than", halved), (
            text,
            halved,
            plain,
        )
    else:
        assert halved == plain, text


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_keys_make_the_same_groups(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from([*NUMBERS, *MOMENTS]))
    text = data.draw(st.sampled_from(TEMPORAL if column in MOMENTS else NUMERIC[1:-1]))
    plain, halved = _both(Query("t", GroupBy((parse_expression(text),)), Accuracy(D(5))), column)
    if isinstance(halved, str):
        assert halved == plain or "cannot be distinguished" in halved, (text, halved)
    else:
        assert halved == plain, text


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NUMBERS), st.sampled_from(["HISTOGRAM", "PREFIX"]), st.integers(-50, 40), st.integers(1, 60))
def test_ranges_are_the_same(column: Attribute, shape: str, low: int, width: int) -> None:
    text = f"BIN t ON COUNT(*) WHERE W = {shape}(x, {low}, {low + 2 * width + 1}, {D(width) / 4}) ERROR 5"
    plain, halved = _both(parse(text), column)
    assert halved == plain


@given(st.lists(st.integers(0, 4), min_size=8, max_size=30), st.lists(st.integers(0, 4), min_size=8, max_size=30))
def test_areas_by_runs_are_refined_as_those_by_cells_are(one: list[int], two: list[int]) -> None:
    size = min(len(one), len(two))
    assume(size)

    def area(values: list[int], *, by_runs: bool) -> Area:
        dense = np.unique(np.array(values[:size]), return_inverse=True)[1]
        starts = np.append(0, np.flatnonzero(np.diff(dense)) + 1)
        kept = ClassRuns(starts, dense[starts], size) if by_runs else dense
        shape = (int(dense.max()) + 1,)
        return Area.from_plain(Area(("x",), ("d",), shape, (kept,), np.arange(shape[0])).to_plain())

    found = []
    for by_runs in (False, True):
        first, second = area(one, by_runs=by_runs), area(two, by_runs=by_runs)
        wider = Grid(first).add_area(second)
        assert wider is not None
        found.append((wider.cells, wider.find_columns(first).tolist(), wider.find_columns(second).tolist()))
    assert found[0] == found[1]


WIDE = """
format = 1
[[attribute]]
name = "amount"
type = "real"
lo = 0
hi = 1000000
grid = 0.01
outside = "clamp"
null = "drop"
bins = { width = 250000 }
[[attribute]]
name = "at"
type = "datetime"
lo = 2015-01-01
hi = 2024-12-31
grid = "second"
outside = "clamp"
null = "cell"
[[attribute]]
name = "grade"
type = "category"
values = ["A", "B"]
null = "drop"
[table]
name = "loans"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 4000
[budget]
accountant = "zcdp"
rho = "100000"
delta = "1e-6"
"""
ROWS = 4_000


@pytest.fixture(scope="module")
def loans(tmp_path_factory: pytest.TempPathFactory) -> Session:
    draw = np.random.default_rng(0)
    cents = draw.integers(0, 10**8, ROWS)
    table = pa.table(
        {
            "amount": cents / 100,
            "at": np.datetime64("2015-01-01T00:00:00", "us") + draw.integers(0, 3_600 * 24 * 3_600, ROWS) * 10**6,
            "grade": draw.choice(["A", "B"], ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("wide") / "w"
    siloquent.create_workspace(folder)
    session = siloquent.open(folder)
    session.add_frame(siloquent.read_schema(WIDE), table)
    session.cents = cents  # type: ignore[attr-defined]
    return session


@pytest.mark.parametrize(
    "condition",
    ["amount > 500000", "amount BETWEEN 100.5 AND 250000.55", "amount * 2 <= 700000.01", "NOT amount < 0.07",
     "abs(amount - 500000) <= 20000", "amount % 1000 > 500", "amount IN (0, 0.01, 1000000)"],
)  # fmt: skip
def test_cents_are_counted_exactly(condition: str, loans: Session) -> None:
    answer = loans.ask(f"SELECT COUNT(*) FROM loans WHERE {condition} ERROR 2")
    amount = loans.cents.astype(object)  # type: ignore[attr-defined]
    python = condition.replace("amount BETWEEN 100.5 AND 250000.55", "10050 <= c <= 25000055")
    python = python.replace("amount * 2 <= 700000.01", "c * 2 <= 70000001").replace("NOT amount < 0.07", "not c < 7")
    python = python.replace("abs(amount - 500000) <= 20000", "abs(c - 50000000) <= 2000000")
    python = python.replace("amount % 1000 > 500", "c % 100000 > 50000").replace("amount > 500000", "c > 50000000")
    python = python.replace("amount IN (0, 0.01, 1000000)", "c in (0, 1, 100000000)")
    exact = sum(bool(eval(python, {"c": int(c)})) for c in amount)  # noqa: S307
    assert abs(answer.rows[0][0] - exact) <= 2


def test_bins_sums_and_reuse_of_cents(loans: Session) -> None:
    cents = loans.cents  # type: ignore[attr-defined]
    exact = np.histogram(cents, [0, 25_000_000, 50_000_000, 75_000_000, 100_000_001])[0]
    for question in (
        "SELECT amount, COUNT(*) FROM loans GROUP BY amount ERROR 50",
        "SELECT amount // 250000, COUNT(*) FROM loans WHERE amount < 1000000 GROUP BY amount // 250000 ERROR 50",
        "BIN loans ON COUNT(*) WHERE W = HISTOGRAM(amount, 0, 1000000, 250000) ERROR 50",
    ):
        rows = loans.ask(question).rows[:4]
        assert all(abs(row[1] - true) <= 50 for row, true in zip(rows, exact, strict=True)), question
    half = "SELECT COUNT(*) FROM loans WHERE amount < 500000 ERROR {}"
    drawn = loans.ask(half.format(200) + " REUSE ANY")
    assert drawn.cost.amount == 0
    assert abs(drawn.rows[0][0] - exact[:2].sum()) <= 200
    total = loans.ask("SELECT SUM(amount) FROM loans WHERE amount >= 500000 ERROR 100000").rows[0][0]
    assert abs(total - cents[cents >= 50_000_000].sum() / 100) <= 100_000


def test_quantiles_come_in_steps_that_the_answer_and_its_plan_name(loans: Session) -> None:
    cents = np.sort(loans.cents)  # type: ignore[attr-defined]
    question = "SELECT MEDIAN(amount) FROM loans ERROR 20"
    answer = loans.ask(question)
    note = "in steps of 5: each is the first value of its step"
    assert [note in one for one in (*answer.notes, *loans.explain(question).notes)] == [True, True]
    low = answer.rows[0][0] * 100
    below, upto = np.searchsorted(cents, [low, low + 499], side="right")
    assert below - 20 <= ROWS / 2 <= upto + 20
    grouped = loans.ask("SELECT grade, MEDIAN(amount), COUNT(*) FROM loans GROUP BY grade ERROR 40, 40")
    assert "in steps of 10:" in " ".join(grouped.notes)
    assert "in steps of 15 minutes:" in " ".join(loans.ask("SELECT MEDIAN(at) FROM loans ERROR 40").notes)


def test_a_coarse_quantile_that_forgot_its_step_would_be_seen(loans: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attribute, "label", lambda self, index: index / 100)
    answer = loans.ask("SELECT MEDIAN(amount) FROM loans ERROR 21")
    assert abs(answer.rows[0][0] - 500_000) < 20_000  # the cell times the step, in cents


def test_what_changes_too_often_is_refused_free_and_its_fix_works(loans: Session) -> None:
    for question in (
        "SELECT COUNT(*) FROM loans WHERE amount % 0.1 > 0.05 ERROR 5",
        "SELECT COUNT(*) FROM loans WHERE amount * amount > 3 ERROR 5",
    ):
        with pytest.raises(RequestError, match="100,000,001 values") as refused:
            loans.ask(question)
        assert refused.value.spent == "nothing"
        offered = refused.value.remedy.find(AskWith)
        assert offered is not None
        assert loans.explain(offered.question).price


def test_memory_follows_the_cut_points(loans: Session) -> None:
    schema = loans.schema("loans")
    ranges = ", ".join(f"amount BETWEEN {i * 400} AND {i * 400 + 450.25}" for i in range(1_400))
    query = parse(f"BIN loans ON COUNT(*) WHERE W = {{{ranges}}} ERROR 5")
    tracemalloc.start()
    compiled = compile_workload(query, schema)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert compiled.answers == 1_400
    assert peak < 2 * 10**8


@pytest.mark.parametrize(
    "asked", ["COUNT(DISTINCT amount)", "ward, COUNT(DISTINCT amount)", "n, COUNT(DISTINCT n)", "n, MEDIAN(n)"]
)
def test_values_of_all_groups_together_are_refused_before_memory_is_taken(tmp_path: Any, asked: str) -> None:
    siloquent.create_workspace(tmp_path / "w")
    meant = {"amount": "0..1000000000000", "n": "0..199999 by 100", "ward": ["A", "B", "C"]}
    rows = pa.table({"amount": [1], "n": [1], "ward": ["A"]})
    key = asked.partition(",")[0]
    with siloquent.open(tmp_path / "w") as session:
        session.add_frame(siloquent.declare(rows, meant, name="loans", person="none", epsilon=9), rows)
        tracemalloc.start()
        with pytest.raises(RequestError, match="the limit is"):
            session.explain(f"SELECT {asked} FROM loans{'' if key == asked else f' GROUP BY {key}'} ERROR 5")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 10**8


def test_lookups_of_an_expression_are_shared_and_bounded(tmp_path: Any) -> None:
    siloquent.create_workspace(tmp_path / "w")
    rows = pa.table({"n": [1], "b": [True]})
    meant = {"n": "0..900000", "b": "yes/no"}
    with siloquent.open(tmp_path / "w") as session:
        session.add_frame(siloquent.declare(rows, meant, name="loans", person="none", epsilon=9), rows)

        def look(tests: list[str]) -> int:
            branches = " ".join(f"WHEN {test} AND b THEN {i}" for i, test in enumerate(tests))
            tracemalloc.start()
            try:
                session.explain(f"SELECT SUM(CASE {branches} ELSE 0 END) FROM loans ERROR 500")
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            return peak

        assert look(["n % 2 = 1"] * 60) < 2 * 10**8
        with pytest.raises(RequestError, match="looks up") as refused:
            look([f"n % {k} = 1" for k in range(2, 62)])
        assert refused.value.spent == "nothing"


def test_a_cut_that_is_found_one_cell_late_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = cuts._find_changes

    def late(*given: Any) -> Any:
        starts = right(*given)
        return np.append(0, starts[1:] + 1)

    monkeypatch.setattr(cuts, "_find_changes", late)
    query = Query("t", Predicates((parse_predicate("x * 2 >= 20"),)), Accuracy(D(5)))
    plain, halved = _both(query, NUMBERS[1])
    assert plain != halved
