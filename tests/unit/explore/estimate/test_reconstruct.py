"""Rows of an answer: a function of the stored measurement alone, with intervals that hold what was promised."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.errors import LedgerError
from siloquent.explore.estimate import EstimatedRows, reconstruct
from siloquent.explore.plan.planner import Plan
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from unit.explore.plan.tables import planned

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward {} ERROR {}"


def measured(plan: Plan, values: list[int], **more: Any) -> StoredMeasurement:
    form = more.pop("form", plan.chosen.form)
    return StoredMeasurement(
        plan.chosen.name, form, plan.event, tuple(values), str(plan.alpha), plan.chosen.strategy, **more
    )


def estimate(plan: Plan, values: list[int], **more: Any) -> EstimatedRows:
    return reconstruct(plan.query, plan.compiled, measured(plan, values, **more), alpha=plan.alpha)


def test_values_come_with_their_interval_in_declared_order() -> None:
    found = estimate(planned(WARDS.format("", 100)), [5, -3, 0, 0, 0, 0, 0, 0, 7, 9])
    assert found.columns == ("ward", "count", "low", "high")
    assert found.rows[:2] == (("A", 5, -95, 105), ("B", -3, -103, 97))
    assert [row[0] for row in found.rows] == [*"ABCDEFGH", "(other)", None]


def test_an_interval_with_fractions_is_rounded_outwards() -> None:
    (row, *_) = estimate(planned(WARDS.format("", "0.1")), [3] * 10).rows
    assert Fraction(row[2]) <= 3 - Fraction(1, 10)
    assert Fraction(row[3]) >= 3 + Fraction(1, 10)


def test_filter_and_sort_are_free_where_values_were_asked_for() -> None:
    values = [50, 20, 90, 10, 0, 0, 0, 0, 0, 0]
    passing = estimate(planned(WARDS.format("HAVING COUNT(*) >= 20", 10)), values)
    assert [row[:2] for row in passing.rows] == [("A", 50), ("B", 20), ("C", 90)]
    top = estimate(planned(WARDS.format("ORDER BY COUNT(*) DESC LIMIT 2", 10)), values)
    assert [row[:2] for row in top.rows] == [("C", 90), ("A", 50)]
    least = estimate(planned(WARDS.format("ORDER BY COUNT(*) LIMIT 1", 10)), values)
    assert [row[:2] for row in least.rows] == [("E", 0)]


def test_an_iceberg_reports_what_its_noisy_values_pass() -> None:
    plan = planned("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 20 ERROR 10")
    assert estimate(plan, [50, 20, 21, 0, 0, 0, 0, 0, 0, 0]).rows == (("A",), ("C",))


def test_chosen_ids_are_shown_in_their_order() -> None:
    plan = planned("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 10")
    assert estimate(plan, [2, 0, 9], form="chosen").rows == (("C",), ("A",), (None,))


def test_a_strategys_values_give_the_workload_back_on_its_stated_grid() -> None:
    plan = planned("BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 200")
    x = np.arange(1, 11)
    exact = np.concatenate([matrix @ x for matrix in plan.chosen.strategy])
    found = estimate(plan, exact.tolist())
    assert [row[1] for row in found.rows] == np.cumsum(x).tolist()
    for _, value, low, high in estimate(plan, (exact + np.arange(len(exact)) * 999).tolist()).rows:
        assert Fraction(value) / plan.grid == round(Fraction(value) / plan.grid)
        assert (Fraction(low), Fraction(high)) == (Fraction(value) - 200, Fraction(value) + 200)


def test_sums_are_shown_in_their_own_unit() -> None:
    plan = planned("SELECT sex, SUM(cost) AS total FROM visits GROUP BY sex ERROR 2000000")
    assert plan.compiled.summed is not None
    found = estimate(plan, [10, -1])
    assert found.columns == ("sex", "total", "low", "high")
    assert found.rows == (("f", 640, 640 - 2_000_000, 640 + 2_000_000), ("m", -64, -64 - 2_000_000, -64 + 2_000_000))


@pytest.mark.parametrize("values", [[1, 2], [1] * 11])
def test_a_measurement_of_another_question_is_refused(values: list[int]) -> None:
    with pytest.raises(LedgerError):
        estimate(planned(WARDS.format("", 100)), values)


def test_ids_and_strategies_of_another_question_are_refused() -> None:
    plan = planned("SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 10")
    with pytest.raises(LedgerError):
        estimate(plan, [0, 1, 10], form="chosen")
    ranges = planned("BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 200")
    other = planned("BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 50, 10) ERROR 200")
    stored = measured(other, [0] * len(other.chosen.strategy[0]))
    with pytest.raises(LedgerError):
        reconstruct(ranges.query, ranges.compiled, stored, alpha=ranges.alpha)
    short = measured(ranges, [0])
    with pytest.raises(LedgerError):
        reconstruct(ranges.query, ranges.compiled, short, alpha=ranges.alpha)


def test_the_payload_gives_the_same_rows_back() -> None:
    plan = planned("BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 200")
    first = measured(plan, list(range(len(plan.chosen.strategy[0]))))
    again = StoredMeasurement.from_payload(first.to_payload())
    assert again.to_payload() == first.to_payload()
    rows = [reconstruct(plan.query, plan.compiled, one, alpha=plan.alpha).rows for one in (first, again)]
    assert rows[0] == rows[1]
    assert replace(again, strategy=()).values == first.values
