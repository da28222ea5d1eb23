"""Quotients of attributes, roots and logarithms of rows: what Fraction and math say, rounded, for all cells."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.plan.computed import compiler
from siloquent.explore.plan.computed.attributes import build_test_attribute, build_value_attribute
from siloquent.explore.plan.computed.narrowing import narrow_cells
from siloquent.explore.spec.language.parse import parse_expression, parse_predicate
from siloquent.schema import Attribute, Domain
from siloquent.schema.computed import KNOWN, Cell

GRIDS = ["1", "0.5", "0.01", "0.3", "7"]


def build_attribute(name: str, grid: str, first: int, steps: int, null: Literal["cell", "drop"] = "cell") -> Attribute:
    step = Decimal(grid)
    return Attribute(name, "real", lo=first * step, hi=(first + steps) * step, grid=step, null=null)


def round_half_away(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


@given(
    st.sampled_from(GRIDS), st.integers(-60, 60), st.integers(0, 30),
    st.sampled_from(GRIDS), st.sampled_from([1, 2, 9, 1000, -40, -1001]), st.integers(0, 30),
)  # fmt: skip
def test_a_quotient_is_the_exact_one_rounded(
    grid: str, first: int, steps: int, other_grid: str, other_first: int, other_steps: int
) -> None:
    a, b = build_attribute("a", grid, first, steps), build_attribute("b", other_grid, other_first, other_steps)
    made = build_value_attribute(parse_expression("a / b"), Domain((a, b)), {})
    assert made.computed is not None
    rows, others = map(np.ravel, np.meshgrid(np.arange(-1, a.size), np.arange(-1, b.size)))
    found = made.computed.node.evaluate({"a": rows, "b": others})
    step = Fraction(made.grid or 1)
    for place, (one, two) in enumerate(zip(rows.tolist(), others.tolist(), strict=True)):
        if 0 <= one < a.steps and 0 <= two < b.steps:
            exact = (first + one) * Fraction(grid) / ((other_first + two) * Fraction(other_grid))
            assert found.states[place] == KNOWN
            assert found.data[place] == round_half_away(exact / step)
            assert Fraction(made.lo) <= found.data[place] * step <= Fraction(made.hi)  # type: ignore[arg-type]
        else:
            assert found.states[place] != KNOWN
    assert step <= Fraction(1, 10**6)


@pytest.mark.parametrize("null", ["cell", "drop"])
@pytest.mark.parametrize("other", ["cell", "drop"])
def test_a_quotient_of_null_is_null_and_of_a_value_that_is_left_out_is_left_out(
    null: Literal["cell", "drop"], other: Literal["cell", "drop"]
) -> None:
    domain = Domain((build_attribute("a", "1", 0, 3, null), build_attribute("b", "1", 1, 3, other)))
    made = build_value_attribute(parse_expression("a / b"), domain, {})
    assert made.computed is not None
    assert made.null == ("cell" if "cell" in (null, other) else "drop")
    cells = made.computed.compute_cells({"a": np.array([0, 4, 0, -1]), "b": np.array([0, 0, 4, 0])})
    missing = [made.steps if one == "cell" else -1 for one in (null, other)]
    assert cells.tolist() == [0, *missing, -1]


@given(
    st.sampled_from(GRIDS), st.integers(-(10**12), 10**12), st.integers(0, 10**11),
    st.sampled_from(GRIDS), st.integers(1, 10**12), st.integers(0, 10**11), st.booleans(), st.integers(0, 10**11),
)  # fmt: skip
@example("7", 4 * 10**11, 10, "0.3", 10**8, 10, False, 0)
def test_quotients_of_large_numbers_are_exact_or_refused(
    grid: str, first: int, steps: int, other_grid: str, other_first: int, other_steps: int, below: bool, nth: int
) -> None:
    """A product beyond 64 bits would be another number."""
    first = max(min(first, 2**39 - steps), -(2**39))
    other_first = min(other_first, 2**39 - other_steps)
    other_first = -other_first - other_steps if below else other_first
    a, b = build_attribute("a", grid, first, steps), build_attribute("b", other_grid, other_first, other_steps)
    try:
        made = build_value_attribute(parse_expression("a / b"), Domain((a, b)), {})
    except RequestError as refused:
        assert "too many values" in refused.detail or "too large" in refused.detail  # noqa: PT017
        return
    assert made.computed is not None
    ones, others = ([0, one.steps - 1, nth % one.steps] for one in (a, b))
    rows = np.array([(one, other) for one in ones for other in others])
    found = made.computed.node.evaluate({"a": rows[:, 0], "b": rows[:, 1]})
    step = Fraction(made.grid or 1)
    for place, (one, other) in enumerate(rows.tolist()):
        exact = (first + one) * Fraction(grid) / ((other_first + other) * Fraction(other_grid))
        assert found.data[place] == round_half_away(exact / step)
        assert Fraction(made.lo) <= found.data[place] * step <= Fraction(made.hi)  # type: ignore[arg-type]


@pytest.mark.parametrize("divisor", ["-2", "2", "-0.5"])
def test_a_quotient_by_a_constant_has_bounds_in_order(divisor: str) -> None:
    made = build_value_attribute(parse_expression(f"a / {divisor}"), Domain((build_attribute("a", "1", -1, 9),)), {})
    assert made.computed is not None
    values = [number / Decimal(divisor) for number in range(-1, 9)]
    assert (made.lo, made.hi) == (min(values), max(values))
    cells = made.computed.compute_cells({"a": np.arange(10)}).tolist()
    assert [made.lo + cell * Decimal(str(made.grid or 1)) for cell in cells] == values


@pytest.mark.parametrize("text", ["a / b", "a / b / 2", "7 / b"])
def test_a_row_whose_divisor_is_zero_has_no_quotient(text: str) -> None:
    """The conditions leave it out, and it must not count with another value where they do not."""
    domain = Domain((build_attribute("a", "1", 0, 9), build_attribute("b", "1", 0, 9)))
    made = build_value_attribute(parse_expression(text), domain, {"b": (1, 9)})
    assert made.computed is not None
    cells = made.computed.compute_cells({"a": np.array([5, 5, 0]), "b": np.array([1, 0, 0])}).tolist()
    assert cells[0] not in (-1, made.steps)
    assert {*cells[1:]} <= {-1, made.steps}


TESTS = [
    f"{name} {op} {number}" for name in "ab" for op in ("<", "<=", "=", "<>", ">", ">=") for number in (-3, -1, 0, 2, 4)
]
CONDITIONS = st.recursive(
    st.sampled_from([*TESTS, "a IS NULL", "b IN (-2, 1)", "a NOT IN (0, 1)"]),
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda one: f"({one[0]}) {one[1]} ({one[2]})"),
    ),
    max_leaves=5,
)


@given(CONDITIONS)
def test_rows_that_pass_a_condition_have_the_cells_that_it_leaves(text: str) -> None:
    domain = Domain((build_attribute("a", "1", -3, 7), build_attribute("b", "1", -3, 7)))
    condition = parse_predicate(text)
    made = build_test_attribute(condition, domain)
    assert made.computed is not None
    rows = dict(zip("ab", map(np.ravel, np.meshgrid(np.arange(9), np.arange(9))), strict=True))
    passing = made.computed.node.evaluate(rows).truth == 2
    left = narrow_cells(condition, domain)
    for name, (low, high) in left.items():
        cells = rows[name][passing]
        declared = cells[cells < domain[name].steps]
        assert ((low <= declared) & (declared <= high)).all()
    if text in TESTS and passing.any():
        declared = rows[text[0]][passing]
        assert left == {text[0]: (declared.min(), declared.max())}


@pytest.mark.parametrize("text", ["a / b", "a / (b - 3)", "1 / b", "a / (0 - b)"])
def test_a_divisor_that_may_be_zero_is_refused(text: str) -> None:
    domain = Domain((build_attribute("a", "1", 0, 9), build_attribute("b", "1", 0, 9)))
    with pytest.raises(RequestError, match="may be 0") as refused:
        build_value_attribute(parse_expression(text), domain, {})
    assert refused.value.fix


OPERATORS = {"=": operator.eq, "<": operator.lt, ">=": operator.ge, "!=": operator.ne}
COMPARED = {
    "a / b {} c / d": lambda a, b, c, d: (Fraction(a, b), Fraction(c, d)),
    "c {} a / b": lambda a, b, c, d: (c, Fraction(a, b)),
    "a / b / d {} 1 / c": lambda a, b, c, d: (Fraction(a, b * d), Fraction(1, c)),
    "(a + 1) / b {} c / d / d": lambda a, b, c, d: (Fraction(a + 1, b), Fraction(c, d * d)),
    "a / b {} 1 / 3": lambda a, b, c, d: (Fraction(a, b), Fraction(1, 3)),
}
COMPARED_DOMAIN = Domain(tuple(build_attribute(name, "1", -3, 7) for name in "abcd"))


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("text", COMPARED)
def test_a_quotient_is_compared_exactly(text: str, op: str) -> None:
    """Thirds are equal to thirds, on either side and on both; a divisor of 0 makes it UNKNOWN."""
    made = build_test_attribute(parse_predicate(text.format(op)), COMPARED_DOMAIN)
    assert made.computed is not None
    cells = list(map(np.ravel, np.meshgrid(*[np.arange(7)] * 4)))
    found = made.computed.node.evaluate(dict(zip("abcd", cells, strict=True)))
    for place, row in enumerate(zip(*(one.tolist() for one in cells), strict=True)):
        try:
            left, right = COMPARED[text](*(cell - 3 for cell in row))
        except ZeroDivisionError:
            assert found.states[place] != KNOWN
        else:
            assert (found.states[place], found.data[place]) == (KNOWN, OPERATORS[op](left, right))


def test_quotients_within_quotients_are_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one used to be two conditions that had all the rest of it: 2^40 of 40."""
    planned, plan = [], compiler.plan_comparison
    monkeypatch.setattr(compiler, "plan_comparison", lambda *given: planned.append(given) or plan(*given))
    build_test_attribute(parse_predicate("a" + " / sign(b)" * 12 + " > 1"), COMPARED_DOMAIN)
    assert len([one for one in planned if one[1] == ">"]) == 1
    assert len(planned) <= 4 * 12


@pytest.mark.parametrize(
    "text",
    [
        "a" + " / e" * 12,
        "a / (" + "1 / (" * 5 + "e + a + 9" + ")" * 6,
        "nullif(" * 12 + "a" + "".join(f", {place})" for place in range(12)),
    ],
)
def test_nested_quotients_compute_each_part_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level used to compute those within it twice: 2^40 times for 40 levels, after the charge."""
    domain = Domain((*COMPARED_DOMAIN, build_attribute("e", "1", 1, 3)))
    made = build_value_attribute(parse_expression(text), domain, {})
    computed, evaluate, done = made.computed, Cell.evaluate, []
    assert computed is not None
    monkeypatch.setattr(Cell, "evaluate", lambda cell, rows: done.append(cell) or evaluate(cell, rows))
    rows = {name: np.arange(3) for name in "abcde"}
    assert len(computed.compute_cells(rows)) == 3
    assert len(done) <= 8 * 12


@pytest.mark.parametrize(
    "write",
    [
        lambda inner: f"({inner} IS DISTINCT FROM ill)",
        lambda inner: f"({inner} = ill)",
        lambda inner: f"({inner} BETWEEN ill AND ill)",
        lambda inner: f"(CASE {inner} {'WHEN TRUE THEN ill ' * 9} ELSE ill END)",
    ],
)
def test_conditions_within_conditions_are_refused_before_they_double_too_often(write: Callable[[str], str]) -> None:
    """Each level has the one within it twice or more, so that a line of text could stand for 2^60 parts."""
    text = "ill"
    for _ in range(20):
        text = write(text)
    with pytest.raises(SyntaxProblem, match="at most"):
        parse_predicate(f"{text} = TRUE")
    assert parse_predicate(f"{write(write('ill'))} = TRUE")


def test_conditions_leave_zero_out() -> None:
    domain = Domain((build_attribute("a", "1", 0, 9), build_attribute("b", "1", 0, 9)))
    made = build_value_attribute(parse_expression("a / b"), domain, {"b": (2, 9)})
    assert (made.lo, made.hi) == (0, Decimal("4.5"))


@given(
    st.sampled_from(["sqrt", "ln", "log10", "exp"]), st.sampled_from(GRIDS), st.integers(-20, 20), st.integers(0, 30)
)
def test_functions_are_those_of_math_rounded(function: str, grid: str, first: int, steps: int) -> None:
    a = build_attribute("a", grid, first, steps)
    compute = {"sqrt": math.sqrt, "ln": math.log, "log10": math.log10, "exp": math.exp}[function]
    limit = Fraction(12)
    if function == "exp" and max(abs(first), abs(first + steps)) * Fraction(grid) > limit:
        return
    try:
        made = build_value_attribute(parse_expression(f"{function}(a)"), Domain((a,)), {})
    except RequestError:  # none of the values has a root or a logarithm
        assert function != "exp"
        assert (first + steps) * Fraction(grid) <= 0
        return
    assert made.computed is not None
    cells = np.arange(a.size)
    found = made.computed.node.evaluate({"a": cells})
    for cell in range(a.steps):
        value = float((first + cell) * Fraction(grid))
        if (value < 0 and function == "sqrt") or (value <= 0 and function in ("ln", "log10")):
            assert found.states[cell] != KNOWN
        else:
            assert found.states[cell] == KNOWN
            assert float(found.data[cell] * Fraction(made.grid or 1)) == pytest.approx(compute(value), abs=6e-7)
