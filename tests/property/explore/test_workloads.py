"""What the planner makes of predicates is what a person would find by looking at every row."""

from __future__ import annotations

import operator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec.aggregates import Sum
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Column,
    Compare,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import GroupBy, Predicates, Query, Ranges
from siloquent.maths.sensitivity.linear import compute_sensitivity
from siloquent.schema import OUTSIDE, Attribute, Domain, TableBudget, TableSchema, Unit

D = Decimal
ATTRIBUTES = (
    Attribute("age", "integer", lo=D(0), hi=D(9), grid=D(1), outside="drop", edges=(D(0), D(3), D(9))),
    Attribute("size", "real", lo=D("-1"), hi=D("1"), grid=D("0.5"), outside="clamp", null="cell"),
    Attribute("ward", "category", values=("A", "B", "Cc"), other="cell", null="cell"),
    Attribute("sex", "category", values=("f", "m")),
    Attribute("ill", "boolean", null="value", null_value=False),
)
SCHEMA = TableSchema("t", Domain(ATTRIBUTES), TableBudget("pure", epsilon=Fraction(1)))
RAW = {
    "age": st.one_of(st.none(), st.integers(-2, 12)),
    "size": st.one_of(st.none(), st.sampled_from([-5.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0])),
    "ward": st.sampled_from(["A", "B", "Cc", "Z", "Q", None]),
    "sex": st.sampled_from(["f", "m", "x", None]),
    "ill": st.sampled_from([True, False, None]),
}
rows = st.lists(st.fixed_dictionaries(RAW), max_size=12)
OPS = ["=", "!=", "<", "<=", ">", ">="]
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
number = st.sampled_from(["age", "size"])
tests = st.one_of(
    st.builds(lambda c, o, v: Compare(Column(c), o, Value(v)), number, st.sampled_from(OPS), st.integers(-1, 9)),
    st.builds(
        lambda o, v: Compare(Column("ward"), o, Value(v)), st.sampled_from(OPS), st.sampled_from(["A", "B", "Cc"])
    ),
    st.builds(lambda o: Compare(Column("age"), o, Column("size")), st.sampled_from(OPS)),
    st.builds(
        lambda o, k: Compare(Arithmetic(Column("age"), "%", Value(k)), o, Value(1)),
        st.sampled_from(OPS),
        st.integers(0, 4),
    ),
    st.builds(lambda vs: InList(Column("sex"), tuple(vs)), st.sets(st.sampled_from(["f", "m"]), min_size=1)),
    st.builds(lambda p: Like(Column("ward"), p), st.sampled_from(["A%", "_", "%c", "%"])),
    st.builds(lambda c: IsNull(Column(c)), st.sampled_from(["size", "ward"])),
    st.builds(lambda v: Compare(Column("ill"), "=", Value(v)), st.booleans()),
)
predicates = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda p: And(tuple(p))),
        st.lists(inner, min_size=1, max_size=3).map(lambda p: Or(tuple(p))),
        inner.map(Not),
    ),
    max_leaves=5,
)

# An independent reading: one row at a time, None for UNKNOWN. OUT marks a value outside its declaration.
OUT, OTHER = object(), object()


def seen(row: dict[str, object], name: str) -> object:
    """The value as the declaration reads it: a value, None (NULL), OTHER (not listed) or OUT."""
    value = row[name]
    if name == "age":
        return value if value is not None and 0 <= value <= 9 else OUT  # type: ignore[operator]
    if name == "size":
        return None if value is None else min(max(float(value), -1.0), 1.0)  # type: ignore[arg-type]
    if name == "ward":
        return value if value in ("A", "B", "Cc", None) else OTHER
    if name == "sex":
        return value if value in ("f", "m") else OUT
    return bool(value)


def value(expression: object, row: dict[str, object]) -> object:
    if isinstance(expression, Column):
        return seen(row, expression.name)
    if isinstance(expression, Value):
        return expression.value
    assert isinstance(expression, Arithmetic)
    left, right = value(expression.left, row), value(expression.right, row)
    if left in (None, OUT) or right == 0:
        return None
    return left % right  # type: ignore[operator]


def holds(predicate: Predicate, row: dict[str, object]) -> bool | None:
    if isinstance(predicate, Not):
        inner = holds(predicate.part, row)
        return None if inner is None else not inner
    if isinstance(predicate, (And, Or)):
        found = [holds(part, row) for part in predicate.parts]
        decisive = isinstance(predicate, Or)
        if decisive in found:
            return decisive
        return None if None in found else not decisive
    if isinstance(predicate, IsNull):
        found_value = value(predicate.expression, row)
        return None if found_value is OUT else found_value is None
    if isinstance(predicate, InList):
        found_value = value(predicate.expression, row)
        return None if found_value in (None, OUT) else found_value in predicate.values
    if isinstance(predicate, Like):
        text = value(predicate.expression, row)
        matches = {
            "A%": lambda t: t.startswith("A"),
            "_": lambda t: len(t) == 1,
            "%c": lambda t: t.endswith("c"),
            "%": lambda t: True,
        }
        return matches[predicate.pattern](text) if isinstance(text, str) else None
    left, right = value(predicate.left, row), value(predicate.right, row)
    if left in (None, OUT) or right in (None, OUT):
        return None
    if left is OTHER:
        return {"=": False, "!=": True}.get(predicate.op)
    return COMPARE[predicate.op](left, right)


def counted(compiled: CompiledWorkload, table: list[dict[str, object]], summed: str = "") -> list[int]:
    """W x, with x counted cell by cell through the schema's own index functions."""
    total = np.zeros(compiled.answers, dtype=np.int64)
    for part in compiled.parts:
        cells = np.zeros(part.block.size, dtype=np.int64)
        for row in table:
            places = [
                classes[SCHEMA.domain[name].index(row[name])]
                for name, classes in zip(part.block.attributes, part.block.classes, strict=True)
            ]
            weight = 1
            if summed:
                at = SCHEMA.domain[summed].index(row[summed])
                weight = 0 if at == OUTSIDE or at >= SCHEMA.domain[summed].steps else at + compiled.offset
            cells[np.ravel_multi_index(places, part.block.shape) if places else 0] += weight
        total += part.matrix @ part.fold(cells)
    return total.tolist()


def ask(workload: object, **more: object) -> Query:
    return Query("t", workload, Accuracy(Decimal(5)), **more)  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(st.lists(predicates, min_size=1, max_size=4), st.one_of(st.none(), predicates), rows)
def test_answers_are_what_a_look_at_every_row_gives(
    parts: list[Predicate], where: Predicate | None, table: list[dict[str, object]]
) -> None:
    compiled = compile_workload(ask(Predicates(tuple(parts)), where=where), SCHEMA)
    expected = [
        sum(holds(part, row) is True and (where is None or holds(where, row) is True) for row in table)
        for part in parts
    ]
    assert counted(compiled, table) == expected


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.none(), predicates), rows)
def test_groups_are_the_declared_values_with_their_rows(
    where: Predicate | None, table: list[dict[str, object]]
) -> None:
    compiled = compile_workload(ask(GroupBy((Column("ward"), Column("age"))), where=where), SCHEMA)
    labels = [(w, a) for w in ("A", "B", "Cc", "(other)", None) for a in ("[0, 3)", "[3, 9]")]
    assert list(compiled.labels) == labels
    names = {OTHER: "(other)"}
    kept = [row for row in table if (where is None or holds(where, row) is True) and seen(row, "age") is not OUT]
    found = [(names.get(seen(r, "ward"), seen(r, "ward")), "[0, 3)" if seen(r, "age") < 3 else "[3, 9]") for r in kept]  # type: ignore[operator, call-overload]
    assert counted(compiled, table) == [found.count(label) for label in labels]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["histogram", "prefix"]),
    st.integers(-2, 5),
    st.integers(1, 12),
    st.sampled_from(["0.5", "1", "2.5"]),
    rows,
)
def test_ranges_hold_what_lies_in_them(
    shape: str, lo: int, span: int, width: str, table: list[dict[str, object]]
) -> None:
    ranges = Ranges(shape, "age", D(lo), D(lo + span), D(width))  # type: ignore[arg-type]
    compiled = compile_workload(ask(ranges), SCHEMA)
    edges = [min(D(lo) + i * D(width), D(lo + span)) for i in range(compiled.answers + 1)]
    ages = [seen(row, "age") for row in table if seen(row, "age") is not OUT]
    expected = [
        sum((edges[i] if shape == "histogram" else D(lo)) <= a < edges[i + 1] for a in ages)
        for i in range(compiled.answers)
    ]  # type: ignore[operator]
    assert counted(compiled, table) == expected


@settings(max_examples=60, deadline=None)
@given(predicates, rows)
def test_sums_add_declared_values(where: Predicate, table: list[dict[str, object]]) -> None:
    compiled = compile_workload(ask(Predicates((where,)), aggregate=Sum("size")), SCHEMA)
    total = sum(seen(row, "size") for row in table if holds(where, row) is True and seen(row, "size") is not None)  # type: ignore[misc]
    assert counted(compiled, table, "size") == [total * 2]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(predicates, min_size=1, max_size=4),
    rows,
    st.fixed_dictionaries(RAW),
    st.fixed_dictionaries(RAW),
    st.booleans(),
    st.booleans(),
)
def test_one_row_moves_answers_by_the_stated_sensitivity_at_most(
    parts: list[Predicate],
    table: list[dict[str, object]],
    one: dict[str, object],
    other: dict[str, object],
    replaced: bool,
    summed: bool,
) -> None:
    schema = replace(SCHEMA, adjacency="replace-one" if replaced else "add-remove")
    aggregate = {"aggregate": Sum("size")} if summed else {}
    compiled = compile_workload(ask(Predicates(tuple(parts)), **aggregate), schema)
    name = "size" if summed else ""
    before = counted(compiled, [*table, one], name)
    after = counted(compiled, [*table, other] if replaced else table, name)
    change = np.abs(np.array(before) - np.array(after))
    found = compiled.sensitivity
    assert change.sum() <= found.l1
    assert (change**2).sum() <= found.l2_squared
    assert change.max() <= found.linf


@pytest.mark.parametrize("rows_each", [1, 3])
def test_a_replaced_row_moves_sums_of_groups_and_of_nested_ranges_by_two_extremes(rows_each: int) -> None:
    schema = replace(
        SCHEMA,
        adjacency="replace-one",
        unit=Unit("user", "pid", rows_each),
        domain=Domain((*ATTRIBUTES, Attribute("pid", "id"))),
    )
    groups = compile_workload(ask(GroupBy((Column("ward"),)), aggregate=Sum("age")), schema).sensitivity
    assert (groups.l1, groups.l2_squared, groups.linf) == (18 * rows_each, 162 * rows_each**2, 9 * rows_each)
    # The worst pair lies in one group where values have two signs: from -2 to 2 half steps.
    signed = compile_workload(ask(GroupBy((Column("ward"),)), aggregate=Sum("size")), schema).sensitivity
    assert (signed.l1, signed.l2_squared, signed.linf) == (4 * rows_each, 16 * rows_each**2, 4 * rows_each)
    nested = compile_workload(
        ask(
            Predicates(tuple(Compare(Column("size"), "<=", Value(D(v))) for v in ("-0.5", "0", "1"))),
            aggregate=Sum("age"),
        ),
        schema,
    ).sensitivity
    # In all three ranges with 9 against none of them, or against 0: no pair is farther apart.
    assert (nested.l1, nested.l2_squared, nested.linf) == (27 * rows_each, 243 * rows_each**2, 9 * rows_each)


def test_separate_attributes_are_separate_blocks_and_their_sensitivities_add_up() -> None:
    parts = tuple(
        Compare(Column(name), "=", Value(v)) for name, v in (("age", 1), ("size", 1), ("sex", "f"), ("ill", True))
    )
    compiled = compile_workload(ask(Predicates(parts)), SCHEMA)
    assert (len(compiled.parts), compiled.sensitivity.l1, compiled.sensitivity.linf) == (4, 4, 1)


def test_users_multiply_sensitivities() -> None:
    schema = replace(SCHEMA, domain=Domain((Attribute("who", "id"), *ATTRIBUTES)), unit=Unit("user", "who", 3))
    compiled = compile_workload(ask(GroupBy((Column("sex"),))), schema)
    assert compiled.sensitivity == compute_sensitivity([np.eye(2, dtype=np.int64)], replace_one=False, rows=3)
    assert (compiled.sensitivity.l1, compiled.sensitivity.l2_squared) == (3, 9)


@pytest.mark.parametrize(
    "predicate",
    [
        Compare(Column("ward"), "=", Value("Zz")),
        Compare(Column("wrd"), "=", Value("A")),
        Compare(Column("age"), "=", Value("A")),
        IsNull(Column("age")),
        Like(Column("age"), "1%"),
        Compare(Column("ward"), "<", Column("age")),
        Compare(Column("ill"), "<", Value(True)),
        Compare(Arithmetic(Column("age"), "*", Value(8 * 10**15)), ">", Value(3)),
    ],
)
def test_what_does_not_fit_the_declaration_is_refused(predicate: Predicate) -> None:
    with pytest.raises((RequestError, UnknownName)):
        compile_workload(ask(Predicates((predicate,))), SCHEMA)
