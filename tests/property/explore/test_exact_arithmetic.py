"""Conditions and keys over generated expressions, grids and bounds are what Fraction says, value by value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.keys import list_group_keys
from siloquent.explore.plan.cells.numbers import is_fraction
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec import parse_predicate
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    InList,
    Not,
    Or,
    Predicate,
    Value,
)
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import GroupBy, Predicates, Query
from siloquent.explore.spec.rewriting.normal_form import find_attribute, normalize_predicate
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema

D = Decimal
LARGEST = 2**53
Number = Fraction | None
OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def column(name: str, grid: str, first: int, steps: int) -> Attribute:
    step, whole = D(grid), D(grid) == int(D(grid))
    kind: Any = "integer" if whole else "real"
    return Attribute(name, kind, lo=first * step, hi=(first + steps) * step, grid=step, null="cell")


def columns(name: str) -> st.SearchStrategy[Attribute]:
    grids = st.sampled_from(["1", "3", "0.5", "0.1", "0.01", "0.25", "0.003", "0.07", "1e-9"])
    return st.builds(column, st.just(name), grids, st.integers(-40, 30), st.integers(0, 40))


constants = st.one_of(
    st.integers(-12, 12),
    st.decimals(D("-3"), D("3"), places=2),
    st.sampled_from(
        [D("0.1"), D("0.2"), D("0.30000000000000000001"), D("1e-9"), D("1234567.125"), 2**60 + 1, D("1e30")]
    ),
).map(Value)


def expressions(name: str) -> st.SearchStrategy[Expression]:
    return st.recursive(
        st.one_of(st.just(Column(name)), st.just(Column(name)), constants),
        lambda inner: st.one_of(
            st.builds(Arithmetic, inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner),
            st.builds(Call, st.sampled_from(["abs", "round"]), inner),
        ),
        max_leaves=4,
    )


def comparisons() -> st.SearchStrategy[Predicate]:
    side = st.one_of(expressions("x"), expressions("y"))
    ops = st.sampled_from(list(OPS))
    wholes = st.lists(constants.map(lambda one: one.value), min_size=1, max_size=3).map(tuple)
    return st.one_of(st.builds(Compare, side, ops, side), st.builds(InList, side, wholes))


predicates = st.recursive(
    comparisons(),
    lambda inner: st.one_of(st.tuples(inner, inner).map(And), st.tuples(inner, inner).map(Or), st.builds(Not, inner)),
    max_leaves=3,
)


def points(attribute: Attribute) -> list[Number]:
    lo, grid = Fraction(attribute.lo), Fraction(attribute.grid)  # type: ignore[arg-type]
    return [*(lo + place * grid for place in range(attribute.steps)), None]


def one(expression: Expression, x: Number) -> Number:
    """The value of an expression, as the language page says, for one value of its attribute."""
    if isinstance(expression, Column):
        return x
    if isinstance(expression, Value):
        return Fraction(expression.value)  # type: ignore[arg-type]
    if isinstance(expression, Call):
        inner = one(expression.argument, x)
        if inner is None or expression.function == "abs":
            return None if inner is None else abs(inner)
        return Fraction(math.floor(abs(inner) + Fraction(1, 2)) * (1 if inner > 0 else -1))
    assert isinstance(expression, Arithmetic)
    left, right = one(expression.left, x), one(expression.right, x)
    if left is None or right is None or (expression.op in ("//", "%") and right == 0):
        return None
    if expression.op in ("//", "%"):
        times = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return Fraction(times) if expression.op == "//" else left - times * right
    return {"+": operator.add, "-": operator.sub, "*": operator.mul}[expression.op](left, right)  # type: ignore[no-any-return]


def holds(predicate: Predicate, row: dict[str, Number]) -> bool | None:
    if isinstance(predicate, Not):
        inner = holds(predicate.part, row)
        return None if inner is None else not inner
    if isinstance(predicate, (And, Or)):
        found = {holds(part, row) for part in predicate.parts}
        deciding = isinstance(predicate, Or)
        return deciding if deciding in found else None if None in found else not deciding
    if isinstance(predicate, InList):
        left = value(predicate.expression, row)
        return None if left is None else left in [Fraction(one) for one in predicate.values]  # type: ignore[arg-type]
    assert isinstance(predicate, Compare)
    left, right = value(predicate.left, row), value(predicate.right, row)
    return None if left is None or right is None else OPS[predicate.op](left, right)


def value(expression: Expression, row: dict[str, Number]) -> Number:
    name = find_attribute(expression)
    return one(expression, row[name] if name else None)


def sides(predicate: Predicate) -> list[Expression]:
    if isinstance(predicate, Not):
        return sides(predicate.part)
    if isinstance(predicate, (And, Or)):
        return [side for part in predicate.parts for side in sides(part)]
    if isinstance(predicate, InList):
        return [predicate.expression]
    assert isinstance(predicate, Compare)
    return [predicate.left, predicate.right]


def sizes(expression: Expression, xs: list[Number]) -> tuple[int, int]:
    """The largest numerator of any computed step: over the least denominator, and at most before that is found."""
    if isinstance(expression, Call):
        return sizes(expression.argument, xs)
    if not isinstance(expression, Arithmetic):
        return 0, 0
    parts = [expression.left, expression.right]
    found = [[v for x in xs if (v := one(part, x)) is not None] or [Fraction(0)] for part in (expression, *parts)]
    below = [math.lcm(*(v.denominator for v in values)) for values in found]
    most = [max(map(abs, values)) for values in found]
    least = most[0] if find_attribute(expression) is None else most[0] * below[0]
    shared = below[1] * below[2]
    bare = max(size * shared for size in (most[0], most[1], most[2], most[1] * most[2] if expression.op == "*" else 0))
    inner = [sizes(part, xs) for part in parts]
    return max(math.floor(least), *(one[0] for one in inner)), max(math.floor(bare), *(one[1] for one in inner))


def compared(predicate: Predicate, xs: dict[str, list[Number]]) -> int:
    """The largest numerator of two sides that are compared, over one denominator of all sides."""
    named = [(side, find_attribute(side)) for side in sides(predicate)]
    values = [v for side, name in named if name for x in xs[name] if (v := one(side, x)) is not None]
    return math.floor(max(map(abs, values), default=Fraction(0)) * math.lcm(*(v.denominator for v in values)))


def table(*attributes: Attribute) -> TableSchema:
    return TableSchema("t", Domain(attributes), TableBudget("pure", epsilon=Fraction(1)))


def masks(predicate: Predicate, schema: TableSchema) -> dict[tuple[int, ...], bool]:
    """The declared cells that the compiled question counts, by place of x and y."""
    compiled = compile_workload(Query("t", Predicates((predicate,)), Accuracy(D(1), Fraction(1, 10))), schema)
    (part,) = compiled.parts
    counted = np.append(part.matrix[0], 0)[part.column].reshape(part.block.shape)  # column -1: no column
    shape = [schema.domain[name].size for name in ("x", "y")]
    places = [
        part.block.classes[part.block.attributes.index(name)] if name in part.block.attributes else None
        for name in ("x", "y")
    ]
    found = {}
    for cell in np.ndindex(*shape):
        inside = tuple(int(classes[place]) for classes, place in zip(places, cell, strict=True) if classes is not None)
        found[cell] = bool(counted[inside])
    return found


@settings(max_examples=120, deadline=None)
@given(predicates, columns("x"), columns("y"))
@example(parse_predicate("x BETWEEN 0.06 - 0.01 AND 0.06 + 0.01"), column("x", "0.01", 0, 10), column("y", "1", 0, 0))
@example(parse_predicate("abs(x - 0.3) <= 0.1 OR x * 3 = y"), column("x", "0.1", 0, 9), column("y", "0.3", 0, 9))
def test_conditions_count_the_cells_that_fractions_name(predicate: Predicate, x: Attribute, y: Attribute) -> None:
    try:
        predicate = normalize_predicate(predicate)
    except RequestError:  # no attribute on either side
        assume(False)
    xs = {"x": points(x), "y": points(y)}
    found = [sizes(side, xs[find_attribute(side) or "x"]) for side in sides(predicate)]
    refused, seen = "", {}
    try:
        seen = masks(predicate, table(x, y))
    except RequestError as error:
        refused = str(error)
    if refused:
        assert "2^53" in refused
        assert max(*(bare for _, bare in found), compared(predicate, xs)) > LARGEST
        return
    assert max(least for least, _ in found) <= LARGEST
    for (i, j), counted in seen.items():
        assert counted is (holds(predicate, {"x": xs["x"][i], "y": xs["y"][j]}) is True)


@settings(max_examples=80, deadline=None)
@given(expressions("x"), columns("x"))
def test_keys_are_labelled_and_parted_as_fractions_are(key: Expression, x: Attribute) -> None:
    assume(find_attribute(key) == "x" and key != Column("x"))
    xs = points(x)
    least, bare = sizes(key, xs)
    refused = ""
    try:
        (made,) = list_group_keys(GroupBy((key,)), Domain((x,)))
    except RequestError as error:
        refused = str(error)
    if refused:
        assert "2^53" in refused
        assert bare > LARGEST
        return
    assert least <= LARGEST
    values = [one(key, v) for v in xs]
    expected = sorted({v for v in values if v is not None})
    assert made.labels == (*(float(v) for v in expected), None)
    groups = made.groups.get_values(np.arange(x.size + 1))
    assert all(groups[i] == expected.index(v) for i, v in enumerate(values) if v is not None)
    if has_fraction(key, x):
        assert all(isinstance(label, float) for label in made.labels[:-1])


def has_fraction(expression: Expression, x: Attribute) -> bool:
    if isinstance(expression, Arithmetic):
        return has_fraction(expression.left, x) or has_fraction(expression.right, x)
    if isinstance(expression, Call):
        return has_fraction(expression.argument, x)
    return x.kind == "real" if isinstance(expression, Column) else is_fraction(expression.value)  # type: ignore[union-attr]


def test_whole_keys_stay_whole() -> None:
    x = column("x", "1", -3, 6)
    for text, labels in (
        ("x // 2", [-1, 0, 1]),
        ("abs(x)", [0, 1, 2, 3]),
        ("x * 0.5", [i / 2 for i in range(-3, 4)]),
    ):
        key = parse_predicate(f"{text} = 0").left  # type: ignore[union-attr]
        (made,) = list_group_keys(GroupBy((key,)), Domain((x,)))
        assert [(type(a), a) for a in made.labels[:-1]] == [(type(a), a) for a in labels]


@pytest.mark.parametrize("text", ["x * 9007199254740993 = 1", "x + 0.00000000000000000001 > 1", "x * x * x > 1"])
def test_a_numerator_beyond_two_to_53_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match=r"exceeds 2\^53") as refused:
        masks(parse_predicate(text), table(column("x", "0.0000001", 10_000_001, 20), column("y", "1", 0, 1)))
    assert refused.value.code == "request_invalid"
