"""A person who asks for averages, spreads, quantiles and several things at once: in SQL, BIN, Python and a terminal.

Answers are asked with a confidence of 1 - 10^-9, so that an interval that misses the truth is a fault, not bad luck.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import siloquent as sq
from journeys.clinic import Person, Types
from journeys.documents import faults
from journeys.test_python_door import ROW, SETTINGS, SURE, declared, frame, opened
from siloquent import explore
from siloquent.api import Session
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import BudgetExceeded, DataError, KeyReused, RequestError, UnknownName
from siloquent.explore import Answer
from siloquent.explore.plan import steps
from siloquent.releases import verify_release


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with opened(tmp_path / "clinic", declared()) as made:
        yield made


def column(answer: Answer, name: str) -> list[object]:
    return [row[answer.columns.index(name)] for row in answer.rows]


def holds(answer: Answer, name: str, exact: list[float]) -> None:
    """Every interval of a column holds its true value."""
    ends = ("low", "high") if "low" in answer.columns else (f"{name}_low", f"{name}_high")
    for value, low, high, true in zip(*(column(answer, one) for one in (name, *ends)), exact, strict=True):
        assert low <= true <= high, (name, value, true)  # type: ignore[operator]
        assert low <= value <= high  # type: ignore[operator]


def is_near(values: pd.Series[int], found: int, share: float, off: int) -> None:
    """A quantile's rank is no more than ``off`` rows off."""
    assert (values < found).sum() <= share * len(values) + off
    assert (values <= found).sum() >= share * len(values) - off


@pytest.mark.parametrize(("accountant", "unit", "adjacency"), SETTINGS)
def test_every_aggregate_is_answered_within_its_interval(
    tmp_path: Path, accountant: str, unit: str, adjacency: str
) -> None:
    rows = frame().to_pandas()
    groups = rows.groupby("ward").cost
    with opened(tmp_path / "w", declared(accountant, unit=unit, adjacency=adjacency)) as session:
        several = session.ask(
            f"SELECT ward, COUNT(*), SUM(cost), AVG(cost) AS mean FROM visits GROUP BY ward "
            f"ERROR 90, 90000, 200 FOR AT LEAST 200 ROWS {SURE}"
        )
        holds(several, "count", groups.count().tolist())
        holds(several, "sum_cost", groups.sum().tolist())
        holds(several, "mean", groups.mean().tolist())
        spread = session.ask(f"SELECT ward, VAR(cost), STDDEV(age) FROM visits GROUP BY ward BUDGET 40 EPSILON {SURE}")
        holds(spread, "var_cost", groups.var(ddof=0).tolist())
        holds(spread, "stddev_age", rows.groupby("ward").age.std(ddof=0).tolist())
        ranks = session.ask(
            f"SELECT ward, MEDIAN(age), QUANTILE(cost, 0.9) FROM visits GROUP BY ward ERROR 40, 2 PERCENT {SURE}"
        )
        for ward, age, cost in ranks.rows:
            inside = rows[rows.ward == ward]
            is_near(inside.age, age, 0.5, 40)
            is_near(inside.cost, cost, 0.9, 60)


QUARTILES = "SELECT ward, QUANTILE(age, 0.25), MEDIAN(age), QUANTILE(age, 0.75) FROM visits GROUP BY ward"


@pytest.mark.slow
@pytest.mark.parametrize(("accountant", "unit", "adjacency"), SETTINGS)
def test_quartiles_cost_one_measurement_that_later_questions_draw_from(
    tmp_path: Path, accountant: str, unit: str, adjacency: str
) -> None:
    rows = frame().to_pandas()
    with opened(tmp_path / "w", declared(accountant, unit=unit, adjacency=adjacency)) as session:
        text = f"{QUARTILES} ERROR 60, 60, 60 {SURE}"
        explained = session.explain(text)
        assert len(explained.parts) == 1
        answer = session.ask(text, key="k")
        assert answer.cost.amount == explained.price > 0
        for ward, *found in answer.rows:
            for value, share in zip(found, (0.25, 0.5, 0.75), strict=True):
                is_near(rows[rows.ward == ward].age, value, share, 60)
        assert session.ask(text, key="k").rows == session.ask(text).rows == answer.rows
        verdict = session.verify(session.save(answer))
        assert (verdict.problems, verdict.compared) == ((), True)
        count = session.ask(
            f"SELECT ward, COUNT(*) FROM visits WHERE age < 50 GROUP BY ward ERROR 130 {SURE} REUSE ANY"
        )
        assert (count.accuracy.label, count.cost.amount) == ("independent", 0)
        holds(count, "count", rows[rows.age < 50].groupby("ward").size().tolist())


def test_an_average_without_the_clause_counts_first_and_pays_no_more_than_explained(session: Session) -> None:
    text = f"SELECT AVG(cost) FROM visits WHERE age >= 0 ERROR 60 {SURE}"
    explained = session.explain(text)
    answer = session.ask(text, key="k")
    holds(answer, "avg_cost", [float(frame().to_pandas().cost.mean())])
    assert (answer.rows[0][2] - answer.rows[0][1]) / 2 <= 60.001
    assert answer.cost.amount <= explained.price
    assert len(answer.earlier) == 1
    assert answer.earlier[0].seq < answer.receipt.seq
    assert session.get_remaining("visits").amount == 1000 * 10**9 - round(answer.cost.amount * 10**9)
    again = session.ask(text, key="k")
    assert again == answer
    assert again.replayed
    assert session.get_remaining("visits").amount == 1000 * 10**9 - round(answer.cost.amount * 10**9)


def test_an_average_of_the_whole_table_relies_on_its_declared_size(session: Session) -> None:
    text = f"SELECT AVG(cost) FROM visits ERROR 60 {SURE}"
    explained = session.explain(text)
    assert len(explained.steps) == 1
    (note,) = (one for one in explained.notes if "ERROR 60" in one)
    assert "holds if 2,700 rows or more have a number (about 3,000 rows are declared)" in note
    stated = session.explain(f"SELECT AVG(cost) FROM visits ERROR 60 {SURE} FOR AT LEAST 2700 ROWS")
    counted = session.explain(f"SELECT AVG(cost) FROM visits WHERE age >= 0 ERROR 60 {SURE}")
    assert explained.price == stated.price < counted.price
    answer = session.ask(text)
    holds(answer, "avg_cost", [float(frame().to_pandas().cost.mean())])
    assert (answer.rows[0][2] - answer.rows[0][1]) / 2 <= 60.001
    assert answer.cost.amount == explained.price


@pytest.mark.parametrize("fails", [False, True])
def test_an_average_that_counted_first_in_an_earlier_version_is_finished_so(
    session: Session, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    text = f"SELECT AVG(cost) FROM visits ERROR 60 {SURE}"
    table = session.table("visits")
    with monkeypatch.context() as patched:
        patched.setattr(steps, "find_sure_rows", lambda *_: None)
        patched.setattr(steps, "_plan_counting_first", partial(steps._plan_counting_first, counts=(steps.FINE_COUNT,)))
        if fails:
            patched.setattr(type(table), "sum_by_cell", lambda *_, **__: (_ for _ in ()).throw(DataError(charged=True)))
            with pytest.raises(DataError):
                session.ask(text, key="k")
        else:
            first = session.ask(text, key="k")
    left = session.get_remaining("visits")
    answer = session.ask(text, key="k")
    assert len(answer.earlier) == 1
    holds(answer, "avg_cost", [float(frame().to_pandas().cost.mean())])
    if not fails:
        assert (answer.rows, answer.replayed) == (first.rows, True)
        assert session.get_remaining("visits") == left


def test_groups_that_are_too_small_are_named_and_their_interval_holds(session: Session) -> None:
    answer = session.ask(f"SELECT ward, AVG(cost) FROM visits GROUP BY ward ERROR 20 FOR AT LEAST 800 ROWS {SURE}")
    holds(answer, "avg_cost", frame().to_pandas().groupby("ward").cost.mean().tolist())
    (note,) = answer.notes
    assert note.startswith("accuracy not met by avg_cost of C:")


def test_having_on_another_aggregate_keeps_all_groups_and_marks_them(session: Session) -> None:
    text = f"SELECT ward, AVG(cost) FROM visits GROUP BY ward HAVING COUNT(*) > 1200 ERROR 60, 250 {SURE}"
    explained = session.explain(text)
    answer = session.ask(text)
    assert column(answer, "ward") == ["A", "B", "C"]
    assert column(answer, "status") == ["reported", "not_reported", "not_reported"]
    assert answer.rows[1][1:4] == (None, None, None)
    assert answer.rows[0][2] <= frame().to_pandas().query("ward == 'A'").cost.mean() <= answer.rows[0][3]
    assert answer.cost.amount <= explained.price
    nobody = session.ask(text.replace("1200", "2900"))
    assert set(column(nobody, "status")) == {"not_reported"}
    assert len(nobody.earlier) == 0


@pytest.mark.parametrize("key", ["k", None])
def test_a_second_step_that_does_not_fit_keeps_the_first_and_says_so(tmp_path: Path, key: str | None) -> None:
    text = f"SELECT AVG(cost) FROM visits WHERE age >= 0 ERROR 60 {SURE} REUSE NONE"
    with opened(tmp_path / "w", declared(shares='analysts = { ana = "0.002" }'), analyst="ana") as session:
        (count,), _ = session.explain(text).steps
        while (spare := session.explain(text).left_before - count.price * 101 / 100) > count.price / 50:
            session.ask(f"SELECT COUNT(*) FROM visits BUDGET {float(spare):.6f} EPSILON REUSE NONE")
        answer = session.ask(text, key=key)
        assert answer.columns == ("rows_with_cost", "low", "high")
        assert answer.rows[0][1] <= 3000 <= answer.rows[0][2]
        (note,) = answer.notes
        assert note.startswith("the second step was refused, and what the first one gave is kept")
        assert 0 < answer.cost.amount < session.explain(text).price
        if key is not None:
            assert session.ask(text, key=key).rows == answer.rows


def test_max_cost_bounds_both_steps_together(session: Session) -> None:
    text = f"SELECT AVG(cost) FROM visits WHERE age >= 0 ERROR 60 {SURE}"
    worst = session.explain(text).price
    with pytest.raises(RequestError, match="more than the"):
        session.ask(text, max_cost=str(float(worst) * 0.9))
    assert session.get_remaining("visits").amount == 1000 * 10**9
    assert session.ask(text, max_cost=str(float(worst) * 1.001)).cost.amount <= worst


def test_what_does_not_fit_at_all_costs_nothing_and_names_errors_that_do(tmp_path: Path) -> None:
    text = "SELECT ward, COUNT(*), MEDIAN(age) FROM visits GROUP BY ward ERROR 20, 20"
    with opened(tmp_path / "w", declared(budget='epsilon = "3"')) as session:
        session.ask("SELECT COUNT(*) FROM visits BUDGET 2.5 EPSILON")
        left = session.get_remaining("visits")
        with pytest.raises(BudgetExceeded) as refused:
            session.ask(text)
        assert session.get_remaining("visits") == left
        assert session.ask(refused.value.fix).rows


def test_all_doors_make_one_question(session: Session) -> None:
    text = "SELECT ward, AVG(cost), COUNT(*) AS n FROM visits GROUP BY ward ERROR 100, 50 FOR AT LEAST 200 ROWS"
    built = (explore.average_of("visits", "cost").by("ward").also("COUNT(*)", rows=50, named="n")).within(
        units=100, at_least=200
    )
    assert built.query() == sq.parse(text)
    chosen = explore.median_of("visits", "age").by("ward").having(over=1200, of="COUNT(*)", rows=250).within(rows=30)
    wanted = "SELECT ward, MEDIAN(age) FROM visits GROUP BY ward HAVING COUNT(*) > 1200 ERROR 30, 250"
    assert chosen.query() == sq.parse(wanted)
    first = session.ask(built, key="one")
    assert session.ask(text, key="one") == first
    with pytest.raises(KeyReused):
        session.ask(wanted, key="one")


def test_averages_of_written_out_parts(session: Session) -> None:
    answer = session.ask(f"BIN visits ON AVG(cost) WHERE W = {{age < 50, ward = 'A'}} BUDGET 20 EPSILON {SURE}")
    rows = frame().to_pandas()
    holds(answer, "avg_cost", [rows[rows.age < 50].cost.mean(), rows[rows.ward == "A"].cost.mean()])


def test_choosing_among_shown_aggregates_is_free(session: Session) -> None:
    text = "SELECT ward, AVG(cost), COUNT(*) FROM visits GROUP BY ward {} ERROR 100, 50 FOR AT LEAST 200 ROWS"
    plain = session.explain(text.format("")).price
    by_count = text.format("ORDER BY COUNT(*) DESC LIMIT 2")
    assert session.explain(by_count).price == plain
    assert column(session.ask(by_count), "ward") == ["A", "B"]
    assert column(session.ask(text.format("HAVING COUNT(*) > 1300")), "ward") == ["A"]


def test_a_failing_source_keeps_the_charge_and_the_key_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"SELECT AVG(cost) FROM visits WHERE age >= 0 ERROR 60 {SURE}"
    table = session.table("visits")
    with monkeypatch.context() as patched:
        patched.setattr(type(table), "sum_by_cell", lambda *_, **__: (_ for _ in ()).throw(DataError(charged=True)))
        with pytest.raises(DataError):
            session.ask(text, key="k")
    charged = session.get_remaining("visits")
    answer = session.ask(text, key="k")
    assert len(answer.earlier) == 1
    assert charged.amount - session.get_remaining("visits").amount < round(answer.cost.amount * 10**9)


@pytest.mark.parametrize("rows", [0, 3000])
def test_refusals_do_not_depend_on_rows(tmp_path: Path, rows: int) -> None:
    said = []
    with sq.open(sq.create_workspace(tmp_path / "w").folder) as session:
        session.add_frame(sq.read_schema(declared(unit=ROW)), frame(3000).slice(0, rows))
        for text in (
            "SELECT AVG(ward) FROM visits ERROR 1 FOR AT LEAST 10 ROWS",
            "SELECT MEDIAN(ward) FROM visits ERROR 1",
            "SELECT AVG(cots) FROM visits ERROR 1",
            "SELECT AVG(cost) FROM visits ERROR 0.000001",
            "SELECT COUNT(*) FROM visits JOIN wards USING (ward) ERROR 1",
        ):
            with pytest.raises((RequestError, UnknownName)) as refused:
                session.ask(text)
            said.append(str(refused.value))
        assert session.get_remaining("visits").amount == 1000 * 10**9
    assert said == [
        "AVG takes a number; 'ward' is of type category. Fix: SELECT COUNT(*) FROM visits ERROR 1. "
        "[request_invalid; spent: nothing]",
        *said[1:],
    ]
    assert all("spent: nothing" in one for one in said)


def test_an_empty_table_gives_the_whole_domain(tmp_path: Path) -> None:
    with sq.open(sq.create_workspace(tmp_path / "w").folder) as session:
        session.add_frame(sq.read_schema(declared()), frame(3000).slice(0, 0))
        answer = session.ask(f"SELECT ward, AVG(cost) FROM visits GROUP BY ward ERROR 50 FOR AT LEAST 500 ROWS {SURE}")
        assert all(-100 <= low <= high <= 1000 for _, _, low, high in answer.rows)
        assert all(value is None or low <= value <= high for _, value, low, high in answer.rows)
        assert answer.notes


@pytest.mark.parametrize("key", ["k", None])
def test_a_release_of_two_steps_is_compared_with_both(session: Session, key: str | None) -> None:
    text = f"SELECT ward, AVG(cost) FROM visits GROUP BY ward ERROR 60 {SURE}"
    answer = session.ask(text, key=key)
    assert answer.earlier
    verdict = session.verify(session.save(answer))
    assert (verdict.problems, verdict.compared) == ((), True)


def test_a_release_holds_all_columns(session: Session) -> None:
    answer = session.ask("SELECT ward, AVG(cost), MEDIAN(age) FROM visits GROUP BY ward BUDGET 9 EPSILON")
    assert verify_release(session.save(answer)).problems == ()
    assert session.verify(session.save(answer)).compared
    assert answer.table.column_names == list(answer.columns)
    assert "avg_cost" in answer._repr_html_()


ASKED = [
    "SELECT ward, AVG(age), COUNT(*) FROM visits GROUP BY ward ERROR 40, 150 FOR AT LEAST 250 ROWS",
    "SELECT ward, MEDIAN(age) FROM visits GROUP BY ward ERROR 60",
    "SELECT ward, AVG(age) FROM visits GROUP BY ward HAVING COUNT(*) > 700 ERROR 20, 150",
    "SELECT AVG(age) FROM visits ERROR 9",
]


@pytest.mark.parametrize("text", ASKED)
def test_the_command_line_explains_asks_and_repeats(owner: Person, types: Types, text: str) -> None:
    explained = types("explain", text)
    assert explained.status == 0
    assert "charge" in explained.out
    document = types("explain", text, "--json").document
    assert list(faults(document, json_schema("composite-explanation"))) == []
    asked = types("ask", text, "--key", "k", "--yes", "--json").document
    assert list(faults(asked, json_schema("answer"))) == []
    spent = owner.spent()
    shown = types("ask", text, "--key", "k", "--yes")
    assert "nothing: this key was used before" in shown.out + shown.err
    assert owner.spent() == spent


def test_the_command_line_turns_a_refusal_into_a_command_that_works(types: Types) -> None:
    text = "SELECT ward, AVG(age), COUNT(*) FROM visits GROUP BY ward ERROR 0.01, 1 FOR AT LEAST 250 ROWS"
    refused = types("ask", text, "--yes", "--json").document
    words = shlex.split(refused["fix"])
    assert words[:2] == ["siloquent", "explain"]
    assert types(*words[1:]).status == 0
    assert types("ask", words[-1], "--yes").status == 0
