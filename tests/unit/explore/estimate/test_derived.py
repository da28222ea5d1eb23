"""Values computed from aggregates, and their intervals."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.explore.estimate.derived import NULL, Evaluator, Range, operate, round_half_away
from siloquent.explore.spec import parse, render
from siloquent.explore.spec.aggregates import Count, Sum
from siloquent.explore.spec.derived import Function, Measured, Number, Operation
from unit.explore.plan.tables import table


def ranged(value: int, low: int, high: int) -> Range:
    return Range(Fraction(value), Fraction(low), Fraction(high))


def test_a_quotient_has_the_corners_of_its_intervals() -> None:
    assert operate("/", ranged(100, 90, 110), ranged(10, 8, 12)) == Range(
        Fraction(10), Fraction(15, 2), Fraction(55, 4)
    )


def test_a_quotient_has_no_interval_if_the_divisor_may_be_zero() -> None:
    assert operate("/", ranged(100, 90, 110), ranged(2, -1, 5)) == Range(Fraction(50))
    assert operate("/", ranged(100, 90, 110), ranged(0, -1, 5)) == NULL
    assert operate("/", ranged(100, 90, 110), ranged(2, 0, 5)) == Range(Fraction(50))


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_an_interval_holds_every_combination_of_true_values(op: str) -> None:
    chance = random.Random(op)
    for _ in range(300):
        sides = [sorted(chance.sample(range(-20, 21), 3)) for _ in range(2)]
        left, right = (ranged(middle, low, high) for low, middle, high in sides)
        found = operate(op, left, right)
        for one in range(sides[0][0], sides[0][2] + 1, 3):
            for other in range(sides[1][0], sides[1][2] + 1, 3):
                true = operate(op, ranged(one, one, one), ranged(other, other, other)).value
                if found.ends is not None and true is not None:
                    assert found.ends[0] <= true <= found.ends[1]


def test_a_sum_by_its_count_stays_within_declared_bounds() -> None:
    # cost lies between -50 and 200,000, and rows without a number add 0.
    evaluator = Evaluator((Sum("cost"), Count()), table())
    mean = Operation(Measured(0), "/", Measured(1))
    assert evaluator.evaluate(mean, [ranged(0, -900, 900), ranged(10, 5, 15)]) == ranged(0, -50, 180)
    assert evaluator.evaluate(mean, [ranged(0, -900, 900), ranged(1, -4, 6)]) == ranged(0, -50, 200_000)
    assert evaluator.evaluate(mean, [ranged(0, -900, 900), ranged(0, -5, 5)]) == NULL
    percent = Operation(Operation(Number(Decimal(100)), "*", Measured(0)), "/", Measured(1))
    assert evaluator.evaluate(percent, [ranged(0, -900, 900), ranged(10, 5, 15)]) == ranged(0, -5_000, 18_000)


def test_functions_keep_intervals_and_nulls() -> None:
    evaluator = Evaluator((Count(), Count()), table())

    def applied(name: str, *rows: Range, decimals: int = 0) -> Range:
        places = tuple(Measured(place) for place in range(len(rows)))
        return evaluator.evaluate(Function(name, places, decimals), rows)  # type: ignore[arg-type]

    assert applied("abs", ranged(-3, -5, 2)) == ranged(3, 0, 5)
    assert applied("round", ranged(14, -16, 25), decimals=-1) == ranged(10, -20, 30)
    assert applied("floor", Range(Fraction(7, 2), Fraction(-1, 2), Fraction(4))) == ranged(3, -1, 4)
    assert applied("nullif", ranged(3, 1, 5), ranged(3, 3, 3)) == NULL
    assert applied("coalesce", NULL, ranged(3, 3, 3)) == ranged(3, 3, 3)


@pytest.mark.parametrize("name", ["sqrt", "ln", "log10", "exp", "sign", "power", "greatest", "least"])
def test_an_interval_of_a_function_holds_what_it_is_of_every_true_value(name: str) -> None:
    evaluator, chance = Evaluator((Count(), Count()), table()), random.Random(name)
    for _ in range(300):
        sides = [sorted(chance.sample(range(-20, 21), 3)) for _ in range(2)]
        row = [ranged(middle, low, high) for low, middle, high in sides]
        second = Number(Decimal(chance.randrange(5))) if name == "power" else Measured(1)
        arguments = (Measured(0), second) if name in ("power", "greatest", "least") else (Measured(0),)
        asked = Function(name, arguments)  # type: ignore[arg-type]
        found = evaluator.evaluate(asked, row)
        for one in range(sides[0][0], sides[0][2] + 1):
            for other in range(sides[1][0], sides[1][2] + 1, 7):
                true = evaluator.evaluate(asked, [ranged(one, one, one), ranged(other, other, other)])
                if found.ends is not None and true.value is not None:
                    assert found.ends[0] <= true.value <= found.ends[1]


def test_functions_are_those_of_the_library_and_null_where_they_have_no_value() -> None:
    evaluator = Evaluator((Count(),), table())
    for name, function in (("sqrt", math.sqrt), ("ln", math.log), ("log10", math.log10), ("exp", math.exp)):
        for number in (1, 2, 30, 600):
            found = evaluator.evaluate(Function(name, (Measured(0),)), [ranged(number, number, number)])  # type: ignore[arg-type]
            assert float(found.value or 0) == pytest.approx(function(number), rel=1e-14)
            assert found.ends is not None
            assert found.ends[0] <= found.value <= found.ends[1]  # type: ignore[operator]
        outside = -1 if name != "exp" else 10**6
        assert evaluator.evaluate(Function(name, (Measured(0),)), [ranged(outside, outside, outside)]) == NULL  # type: ignore[arg-type]
    assert evaluator.evaluate(Function("ln", (Measured(0),)), [ranged(5, 0, 9)]).ends is None
    assert evaluator.evaluate(Function("sqrt", (Measured(0),)), [ranged(4, -5, 9)]).low == 0


def test_greatest_without_a_null_has_no_interval_if_that_may_be_the_true_one() -> None:
    evaluator = Evaluator((Count(), Count()), table())
    asked = Function("greatest", (Measured(0), Measured(1)))
    assert evaluator.evaluate(asked, [ranged(5, 1, 9), NULL]) == Range(Fraction(5))
    assert evaluator.evaluate(asked, [NULL, NULL]) == NULL


def test_halves_are_rounded_away_from_zero() -> None:
    assert [round_half_away(Fraction(n, 2), 0) for n in (-3, -1, 1, 3, 5)] == [-2, -1, 1, 2, 3]


def _write(chance: random.Random, depth: int) -> str:
    if not depth or chance.random() < 0.2:
        return chance.choice(["COUNT(*)", "SUM(cost)", "COUNT(age)", "AVG(cost)", "2", "-0.5"])
    left, right = _write(chance, depth - 1), _write(chance, depth - 1)
    form = chance.choice(["{} + {}", "{} - ({})", "({}) * {}", "{} / ({})", "NULLIF({}, {})", "COALESCE({}, {})"])
    return chance.choice([form, f"ROUND({form}, 2)", f"-({form})", f"ABS({form})::int"]).format(left, right)


@pytest.mark.parametrize("seed", range(200))
def test_an_expression_survives_being_written_down(seed: int) -> None:
    chance = random.Random(seed)
    value = f"{_write(chance, 4)} + COUNT(*)"
    asked = parse(
        f"SELECT ward w, {value}, SUM(cost) s, AVG(cost), COUNT(age), COUNT(*) n FROM v GROUP BY 1 "
        f"HAVING n * ({_write(chance, 2)}) <= {_write(chance, 2)} AND s < 3 ORDER BY 2 DESC BUDGET 1 EPSILON"
    )
    assert parse(render(asked)) == asked
    assert render(parse(render(asked))) == render(asked)
