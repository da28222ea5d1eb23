"""Rows from a model: counts right to one, conditions, types, and the journal of a run."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import DataError, RequestError
from siloquent.synth import Budget
from siloquent.synth.estimate.generate import draw_systematically
from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.spec.measurements import NoisyCounts
from siloquent.synth.spec.release import SyntheticRelease
from unit.synth.people import opened, rows, spec


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRelease:
    with opened(tmp_path_factory.mktemp("synth") / "w") as session:
        # 40 of 2,000 wards are NULL, and noise of a deviation of 2 leaves them some.
        return session.synth.synthesize(spec(rows=1_500, targets=("smoker",), budget=Budget(epsilon="40")))


@given(codes=st.lists(st.integers(0, 3), min_size=1, max_size=200), seed=st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_systematic_counts_are_right_to_about_one_in_every_context(codes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    table = random.random((4, 5)) * (random.random((4, 5)) < 0.7)
    table[:, 2] += 0.1
    given_codes = np.array(codes, dtype=np.int64)
    found = draw_systematically(given_codes, table.copy(), random)
    for context in set(codes):
        law = table[context] / table[context].sum()
        inside = given_codes == context
        counts = np.bincount(found[inside], minlength=5)
        assert (np.abs(counts - law * inside.sum()) < 3).all()  # less than one for each of three halvings
        assert counts[law == 0].sum() == 0


@given(codes=st.lists(st.integers(0, 30), min_size=1, max_size=200), seed=st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_counts_of_two_values_are_right_to_one_in_contexts_that_follow_each_other(codes: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    table = random.random((31, 2))
    given_codes = np.array(codes, dtype=np.int64)
    found = draw_systematically(given_codes, table.copy(), random)
    chance = table[given_codes, 0] / table[given_codes].sum(axis=1)
    off = np.cumsum(np.bincount(given_codes, weights=(found == 0) - chance, minlength=31))
    assert (np.abs(off) < 1 + 1e-9).all()


@pytest.mark.slow
def test_rows_have_the_sources_types_order_and_domain(made: SyntheticRelease) -> None:
    assert made.rows.column_names == ["id", "age", "ward", "floor", "weight", "day", "smoker"]
    wanted = [pa.int64(), pa.int64(), pa.string(), pa.int64(), pa.float64(), pa.date32(), pa.bool_()]
    assert made.rows.schema.types == wanted
    plain = made.rows.to_pydict()
    assert plain["id"] == list(range(1, 1_501))
    assert {None, "A", "B", "C", "D"} <= set(plain["ward"]) <= {None, "A", "B", "C", "D", "(other)"}
    assert all(0 <= value <= 200 and (2 * value).is_integer() for value in plain["weight"])
    assert all(isinstance(day, datetime.date) and day.year == 2024 for day in plain["day"])


@pytest.mark.slow
def test_no_hard_rule_is_broken(made: SyntheticRelease) -> None:
    plain = made.rows.to_pydict()
    assert len(set(zip(plain["ward"], plain["floor"], strict=True))) == len(set(plain["ward"]))
    assert not any(smoker and age < 12 for smoker, age in zip(plain["smoker"], plain["age"], strict=True))
    by_age = sorted(zip(plain["age"], plain["weight"], strict=True))
    heaviest, age = -1.0, -1
    for now, weight in by_age:
        assert now == age or weight >= heaviest
        heaviest, age = max(heaviest, weight), now
    assert made.report.broken == 0


def test_the_model_knows_the_table(made: SyntheticRelease) -> None:
    plain = made.rows.to_pydict()
    means = [np.mean([a for a, w in zip(plain["age"], plain["ward"], strict=True) if w == ward]) for ward in "ABCD"]
    assert means == sorted(means)
    assert means[3] - means[0] > 25  # 54 in truth
    assert made.model.compute_marginal(["smoker"]).sum() == pytest.approx(made.model.rows)
    assert len(made.model.describe_groups("ward")) == made.model.compute_marginal(["ward"]).size


def test_draws_are_free_and_repeat_by_seed(made: SyntheticRelease) -> None:
    assert made.model.draw(50, seed=3).equals(made.model.draw(50, seed=3))
    assert not made.model.draw(50, seed=3).equals(made.model.draw(50, seed=4))
    assert made.model.draw(1_500).equals(made.rows)


def test_conditions_hold_for_every_row(made: SyntheticRelease) -> None:
    found = made.model.draw(200, where="ward = 'A' and age < 30 and smoker = false", seed=1).to_pydict()
    assert len(found["age"]) == 200
    assert set(found["ward"]) == {"A"}
    assert max(found["age"]) < 30
    assert set(found["smoker"]) == {False}
    written = made.model.draw(20, where="floor = 2").to_pydict()
    assert set(written["floor"]) == {2}


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("wrad = 'A'", "Did you mean 'ward'"),
        ("ward ==", "syntax error"),
        ("age > 200", "No row"),
        ("age < 12 and smoker = true", "no row|Fewer"),
        ("t1.age < t2.age", "one row"),
        ("id = 3", "id"),
    ],
)
def test_conditions_that_no_row_meets_are_refused(made: SyntheticRelease, where: str, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        made.model.draw(10, where=where)


def test_a_draw_has_some_rows(made: SyntheticRelease) -> None:
    with pytest.raises(RequestError, match="between 1 and"):
        made.model.draw(0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_tables_of_hardly_any_rows_are_synthesised_like_others(tmp_path: Path, count: int) -> None:
    with opened(tmp_path / "w", rows(count)) as session:
        found = session.synth.synthesize(spec(rows=30))
    assert found.rows.num_rows == 30
    assert found.model.rows >= 1


def test_a_column_that_is_missing_everywhere_is_synthesised(tmp_path: Path) -> None:
    table = rows(300)
    empty = pa.array([None] * 300, pa.string())
    table = table.set_column(table.column_names.index("ward"), "ward", empty)
    with opened(tmp_path / "w", table) as session:
        found = session.synth.synthesize(spec(rows=200, constraints="none"))
    assert found.rows.column("ward").null_count > 150


def step(value: int) -> Sequence[NoisyCounts]:
    return [NoisyCounts("joint", ("a",), np.array([value]), Fraction(1))]


def test_a_journal_gives_a_finished_step_again(tmp_path: Path) -> None:
    told: list[int] = []
    first = StepJournal(tmp_path / "run", told.append)
    assert first.run_step(lambda: step(1))[0].counts.tolist() == [1]
    again = StepJournal(tmp_path / "run")
    assert again.run_step(lambda: step(2))[0].counts.tolist() == [1]
    assert again.run_step(lambda: step(3))[0].counts.tolist() == [3]
    assert told == [1]
    assert {oct(file.stat().st_mode & 0o777) for file in (tmp_path / "run").iterdir()} == {"0o600"}
    again.close()
    assert not (tmp_path / "run").exists()


def test_of_two_racers_the_first_file_wins(tmp_path: Path) -> None:
    def late() -> Sequence[NoisyCounts]:
        StepJournal(tmp_path).run_step(lambda: step(1))  # another process is quicker
        return step(2)

    assert StepJournal(tmp_path).run_step(late)[0].counts.tolist() == [1]


def test_a_broken_step_is_an_error_and_not_another_draw(tmp_path: Path) -> None:
    StepJournal(tmp_path).run_step(lambda: step(1))
    (tmp_path / "step-001.npz").write_bytes(b"cut")
    with pytest.raises(DataError):
        StepJournal(tmp_path).run_step(lambda: step(2))
