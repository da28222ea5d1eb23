"""What cannot be done is said before anything is spent; strange tables are synthesised like others."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session, read_schema
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.errors import AccuracyUnreachable, ConstraintProblem, SiloquentError, UnknownName
from siloquent.maths.graphical.fit import Target
from siloquent.synth import Budget, SynthSpec
from siloquent.synth.estimate.model_domain import MAX_UNCOUNTED, ModelDomain
from siloquent.synth.plan.tree import TreePlan
from siloquent.synth.spec.spec import MAX_ROWS

NUMBER = '{{ name = {name}, type = "integer", lo = {lo}, hi = {hi}, outside = "clamp", null = "{null}" }}'


def number(name: str, lo: int = 0, hi: int = 9, null: str = "drop") -> str:
    quoted = f"'{name}'" if "'" not in name else f'"{name}"'
    return NUMBER.format(name=quoted, lo=lo, hi=hi, null=null)


def opened(
    folder: Path, attributes: list[str], table: pa.Table, *rules: str, hint: int | None = 500, epsilon: str = "10"
) -> Session:
    """A workspace with one table ``t``."""
    constraints = f"constraint = [\n{','.join(rules)}\n]\n" if rules else ""
    size = "" if hint is None else f"size_hint = {hint}\n"
    schema = read_schema(
        f"format = 1\nattribute = [\n{','.join(attributes)}\n]\n{constraints}[table]\nname = 't'\n"
        f"adjacency = 'add-remove'\nunit = {{ kind = 'row' }}\n{size}"
        f"[budget]\naccountant = 'zcdp'\nepsilon = '{epsilon}'\ndelta = '1e-6'\n"
    )
    sq.create_workspace(folder)
    session = sq.open(folder)
    session.add_frame(schema, table)
    return session


def asked(**given: Any) -> SynthSpec:
    return SynthSpec(**{"table": "t", "budget": Budget(epsilon="2"), "quality": "fast", **given})


def numbers(rows: int, *names: str) -> pa.Table:
    random = np.random.default_rng(0)
    return pa.table({name: random.integers(0, 10, rows) for name in names})


def unspent(session: Session) -> bool:
    return session.get_account("t").spent.amount == 0


def rule(text: str, hard: bool = True) -> str:
    return f"{{ kind = 'denial', not = '{text}', hard = {str(hard).lower()} }}"


REFLEXIVE = rule("t1.a = t2.a and t1.b <= t2.b")
"""No two rows of one a, since the one with the smaller b would break it: at most ten rows."""


def test_a_rule_that_equal_rows_break_asks_for_the_number_of_rows(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(500, "a", "b"), REFLEXIVE)
    with pytest.raises(ConstraintProblem, match="set the number of rows"):
        session.synth.synthesize(asked())
    assert unspent(session)


@pytest.mark.parametrize(("rows", "kept"), [(10, True), (11, False), (5_000, False)])
def test_a_rule_that_equal_rows_break_is_tried_on_as_many_rows_before_it_is_paid(
    tmp_path: Path, rows: int, kept: bool
) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(500, "a", "b"), REFLEXIVE)
    if kept:
        made = session.synth.synthesize(asked(rows=rows))
        assert sorted(made.rows.column("a").to_pylist()) == list(range(10))
        return
    with pytest.raises(ConstraintProblem, match="Equal rows break"):
        session.synth.synthesize(asked(rows=rows))
    assert unspent(session)


def test_a_key_that_fits_to_the_last_row_is_kept_whatever_the_model_draws(tmp_path: Path) -> None:
    same = pa.table({"a": np.zeros(500, dtype=np.int64), "b": np.zeros(500, dtype=np.int64)})
    session = opened(tmp_path / "w", [number("a"), number("b")], same, "{ kind = 'key', columns = ['a', 'b'] }")
    made = session.synth.synthesize(asked(rows=100))
    assert len({tuple(row.values()) for row in made.rows.to_pylist()}) == 100


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ((rule("t1.a >= 0"),), "No declared values of a pass"),
        ((rule("t1.a < 5"), rule("t1.a >= 5")), r"1 \(.*\); 2 \("),
        ((rule("t1.a >= 0"), rule("t1.a = t2.a and t1.b != t2.b")), "2 is kept"),
    ],
)
def test_rules_that_leave_no_row_are_refused_by_name(tmp_path: Path, rules: tuple[str, ...], says: str) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(500, "a", "b"), *rules)
    with pytest.raises(ConstraintProblem, match=says):
        session.synth.synthesize(asked())
    assert unspent(session)


def test_a_rule_about_an_undeclared_column_is_refused_with_the_table(tmp_path: Path) -> None:
    with pytest.raises(SiloquentError, match="wieght"):
        opened(tmp_path / "w", [number("a")], numbers(5, "a"), rule("t1.wieght > 3"))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tables_of_no_or_one_row_are_synthesised_like_others(tmp_path: Path, rows: int) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(rows, "a", "b"), hint=None)
    made = session.synth.synthesize(asked())
    assert made.rows.num_rows >= 1
    assert made.rows.schema.types == [pa.int64(), pa.int64()]
    assert session.synth.synthesize(asked(rows=7)).rows.num_rows == 7


def test_odd_names_of_columns_come_out_as_they_are(tmp_path: Path) -> None:
    names = ["select", "a b", "it's", "select * from t; --"]
    session = opened(tmp_path / "w", [number(name) for name in names], numbers(300, *names))
    made = session.synth.synthesize(asked(rows=50))
    assert made.rows.column_names == names
    some = made.model.draw(20, where='"a b" < 5 and select >= 2')
    assert max(some.column("a b").to_pylist()) < 5
    folder = session.synth.save(made)
    assert session.verify(folder).ok


def test_a_double_quote_in_a_name_is_refused_where_it_is_declared(tmp_path: Path) -> None:
    with pytest.raises(SiloquentError, match="without double quotes"):
        opened(tmp_path / "w", [number('a "b"')], numbers(5, 'a "b"'))


def test_columns_that_are_missing_in_every_row_stay_missing(tmp_path: Path) -> None:
    table = pa.table({"a": pa.nulls(800, pa.int64()), "b": numbers(800, "b").column("b")})
    session = opened(tmp_path / "w", [number("a", null="cell"), number("b")], table, hint=800)
    made = session.synth.synthesize(asked(budget=Budget(epsilon="8"), rows=400))
    assert made.rows.column("a").null_count > 380


def test_a_table_whose_every_row_is_outside_gives_rows_of_the_declared_domain(tmp_path: Path) -> None:
    table = pa.table({"a": pa.nulls(100, pa.int64()), "b": numbers(100, "b").column("b")})
    session = opened(tmp_path / "w", [number("a"), number("b")], table, hint=None)
    made = session.synth.synthesize(asked(rows=30))
    assert made.rows.num_rows == 30
    assert any("noise exceeds" in note for note in made.report.known)


def test_two_hundred_columns_are_too_many_for_one_model_and_some_are_not(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(200)]
    session = opened(tmp_path / "w", [number(name, hi=1) for name in names], numbers(50, *names), hint=20_000)
    with pytest.raises(SiloquentError, match="200 columns exceed the limit of 100") as refused:
        session.synth.explain(asked())
    assert refused.value.fix == 'columns=("c0", "c1")'
    assert refused.value.remedy.render(CommandLanguage()) == "--columns c0,c1"
    assert unspent(session)
    assert len(session.synth.explain(asked(columns=tuple(names[:60]))).names) == 60


def test_a_budget_that_buys_little_is_warned_about_with_the_expected_error(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", [number("a", hi=99), number("b", hi=99)], numbers(900, "a", "b"), hint=900)
    plan = session.synth.explain(asked(budget=Budget(epsilon="0.2")))
    assert plan.expected_distance is not None
    assert plan.expected_distance > 0.25
    assert any("the noise is large" in note for note in plan.notes)
    with pytest.raises(AccuracyUnreachable, match="nothing could be learned"):
        session.synth.explain(asked(budget=Budget(epsilon="0.01")))
    assert unspent(session)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", [number("age"), number("b")], numbers(10, "age", "b"))
    with pytest.raises(UnknownName, match="Did you mean 'age'"):
        session.synth.synthesize(asked(columns=("aeg",)))
    assert unspent(session)


def test_a_dependency_with_too_large_a_table_is_refused(tmp_path: Path) -> None:
    wide = [number("a", hi=9_999), number("b", hi=9_999), number("c", hi=9_999)]
    dependency = "{ kind = 'fd', lhs = ['a', 'b'], rhs = 'c' }"
    session = opened(tmp_path / "w", wide, numbers(10, "a", "b", "c"), dependency)
    with pytest.raises(ConstraintProblem, match="needs a table of 100,000,000 entries"):
        session.synth.synthesize(asked())
    assert unspent(session)


def test_without_a_size_hint_the_plan_says_how_many_rows_its_noise_takes(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(300, "a", "b"), hint=None)
    plan = session.synth.explain(asked(budget=Budget(epsilon="0.0001")))
    assert isinstance(plan, TreePlan)
    (note,) = plan.notes
    assert f"with fewer than {plan.least_rows:,} rows it would be only noise" in note
    with_hint = opened(tmp_path / "v", [number("a"), number("b")], numbers(300, "a", "b"), hint=plan.least_rows)
    assert with_hint.synth.explain(asked(budget=Budget(epsilon="0.0001"))).expected_distance is not None
    too_few = opened(tmp_path / "u", [number("a"), number("b")], numbers(300, "a", "b"), hint=plan.least_rows - 1)
    with pytest.raises(AccuracyUnreachable, match="nothing could be learned"):
        too_few.synth.explain(asked(budget=Budget(epsilon="0.0001")))


def test_what_is_expected_at_a_size_is_what_a_hint_of_that_size_says(tmp_path: Path) -> None:
    unhinted = opened(tmp_path / "w", [number("a"), number("b")], numbers(9, "a", "b"), hint=None)
    (note,) = unhinted.synth.explain(asked()).notes
    size = int(note.split(" rows, by ")[0].split()[-1].replace(",", ""))
    hinted = opened(tmp_path / "v", [number("a"), number("b")], numbers(9, "a", "b"), hint=size).synth.explain(asked())
    assert f"{hinted.expected_distance:.1%} at {size:,} rows" in note


def test_where_noise_hides_how_many_rows_there_are_few_are_drawn(tmp_path: Path) -> None:
    session = opened(tmp_path / "w", [number("a"), number("b")], numbers(300, "a", "b"), hint=None)
    made = session.synth.synthesize(asked(budget=Budget(epsilon="0.0001")))
    assert 1 <= made.rows.num_rows <= MAX_UNCOUNTED
    assert any("noise hides how many rows" in note for note in made.report.known)
    folder = session.synth.save(made)
    assert session.verify(folder).ok
    clear = session.synth.synthesize(asked())
    assert 100 < clear.rows.num_rows < 500  # some 50 off happens
    assert not any("noise hides how many rows" in note for note in clear.report.known)


@pytest.mark.parametrize(
    ("total", "rows"),
    [(299, 299), (1_001, 1_000), (10**12, 1_000), (1, 1)],
)
def test_an_uncounted_table_never_gives_more_rows_than_its_noisy_total(total: int, rows: int) -> None:
    noise = Target((0,), np.zeros(2), np.full(2, float(10**24)))
    frame = ModelDomain(None, (), total, (), (), (noise,), {}, {})  # type: ignore[arg-type]
    assert not frame.is_counted
    assert frame.rows == rows


def test_a_counted_table_gives_as_many_rows_as_one_draw_may_have() -> None:
    noise = Target((0,), np.zeros(2), np.ones(2))
    assert ModelDomain(None, (), 10**12, (), (), (noise,), {}, {}).rows == MAX_ROWS  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["\"it's\" = 'open", "nothing = 3", "it's"])
def test_a_condition_that_cannot_be_read_is_mended_by_one_that_can(tmp_path: Path, where: str) -> None:
    session = opened(tmp_path / "w", [number("it's")], numbers(300, "it's"))
    model = session.synth.synthesize(asked()).model
    with pytest.raises(SiloquentError) as refused:
        model.draw(5, where=where)
    option, condition = shlex.split(refused.value.remedy.render(CommandLanguage()))
    assert option == "--where"
    assert model.draw(5, where=condition).num_rows == 5
