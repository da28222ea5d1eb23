"""The zero-violation theorem: whatever is declared and drawn, no hard constraint is broken in what comes out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from siloquent.errors import ConstraintProblem
from siloquent.schema import TableSchema, parse_comparisons
from siloquent.schema.build import parse_schema
from siloquent.schema.constraints import Constraint, DenialConstraint, FunctionalDependency, Key
from siloquent.synth.estimate.enforce.constraints import (
    build_dependency_table,
    count_violations,
    enforce_constraints,
    find_broken_hard,
)
from siloquent.synth.estimate.enforce.trial import check_consistency
from siloquent.synth.plan.constraints import Circumstances, compile_constraints
from siloquent.synth.spec.compiled import CompiledConstraints

FILE = """
format = 1
attribute = [
  { name = "a", type = "integer", lo = 0, hi = 4, outside = "clamp", null = "drop" },
  { name = "b", type = "integer", lo = 2, hi = 12, grid = 2, outside = "clamp", null = "cell" },
  { name = "c", type = "category", values = ["x", "y", "z"], other = "cell", null = "cell" },
  { name = "d", type = "boolean", null = "drop" },
  { name = "e", type = "integer", lo = 0, hi = 40, outside = "clamp", null = "drop" },
  { name = "f", type = "real", lo = 0, hi = 3, grid = 0.5, outside = "clamp", null = "drop" },
]
[table]
name = "t"
source = "csv:t.csv"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 300
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""
SCHEMA: TableSchema = parse_schema(FILE)
NAMES = ("a", "b", "c", "d", "e", "f")
NUMBERS = ("a", "b", "e", "f")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


@st.composite
def denials(draw: st.DrawFn) -> DenialConstraint:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    parts = [f"t1.{name} {draw(st.sampled_from(OPERATORS))} t2.{name}" for name in names]
    if draw(st.booleans()):
        parts.append(f"t1.{draw(st.sampled_from(NUMBERS))} > {draw(st.integers(-1, 9))}")
    if draw(st.booleans()):
        first, second = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
        parts.append(f"t1.{first} < t2.{second}")
    text = " and ".join(parts)
    return DenialConstraint(parse_comparisons(text), text=text)


@st.composite
def unary(draw: st.DrawFn) -> DenialConstraint:
    first, second = draw(st.permutations(NUMBERS))[:2]
    other = draw(st.sampled_from((f"t1.{second}", f"{draw(st.integers(0, 6))}")))
    text = f"t1.{first} {draw(st.sampled_from(('<', '>=', '=')))} {other} and t1.{second} > {draw(st.integers(0, 3))}"
    return DenialConstraint(parse_comparisons(text), text=text)


@st.composite
def orders(draw: st.DrawFn) -> DenialConstraint:
    context, first, second = draw(st.permutations(NAMES))[:3]
    directions = draw(st.sampled_from(("><", "<>", "<<", ">>")))
    parts = [f"t1.{name} {op} t2.{name}" for name, op in zip((first, second), directions, strict=True)]
    parts += [f"t1.{context} = t2.{context}"] * draw(st.integers(0, 1))
    text = " and ".join(parts)
    return DenialConstraint(parse_comparisons(text), text=text)


@st.composite
def dependencies(draw: st.DrawFn) -> FunctionalDependency:
    *lhs, rhs = draw(st.permutations(NAMES))[: draw(st.integers(2, 3))]
    when = parse_comparisons(draw(st.sampled_from(("a > 1", "e < 20"))), default_row=1)
    return FunctionalDependency(tuple(lhs), rhs, when if draw(st.booleans()) else ())


keys = st.just(Key(("a", "b", "e", "f")))
constraints = st.lists(
    st.one_of(dependencies(), dependencies(), orders(), unary(), denials(), keys), min_size=1, max_size=5
)


def drawn(compiled: CompiledConstraints, rows: int, random: np.random.Generator) -> np.ndarray:
    """Rows of a lopsided model: every attribute prefers a few of its cells."""
    return np.stack([(random.random(rows) ** 2 * size).astype(np.int64) for size in compiled.sizes], axis=1)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(declared=constraints, rows=st.integers(0, 60), seed=st.integers(0, 9), measured=st.booleans())
def test_no_hard_constraint_is_broken(declared: list[Constraint], rows: int, seed: int, measured: bool) -> None:
    circumstances = Circumstances(one_way_deviation=[0.1, 50.0][seed % 2], table_deviation=[0.1, 50.0][seed % 3 > 0])
    try:
        compiled = compile_constraints(SCHEMA, constraints=declared, circumstances=circumstances)
        check_consistency(compiled)
    except ConstraintProblem:
        event("refused")
        assume(False)
    random = np.random.default_rng(seed)
    tables = {
        need.constraint: build_dependency_table(
            need, random.integers(-9, 90, need.shape) if measured else None, deviation=5.0, random=random
        )
        for need in compiled.needs
    }
    before = drawn(compiled, rows, random)
    after = enforce_constraints(before, compiled, tables, random)
    for step in compiled.passes:
        event(step.kind)
    assert after.shape == before.shape
    assert not find_broken_hard(after, compiled)
    assert all(found.pairs == 0 for found in count_violations(after, compiled).values())
    assert ((after >= 0) & (after < np.array(compiled.sizes))).all()


@settings(max_examples=25, deadline=None)
@given(declared=st.lists(denials(), min_size=1, max_size=4))
def test_irreflexive_constraints_are_never_refused(declared: list[Constraint]) -> None:
    compiled = compile_constraints(SCHEMA, constraints=declared)
    forms = [one.form for one in compiled.hard]
    assume(all(form is None or form.is_irreflexive for form in forms))
    check_consistency(compiled)


def test_contradicting_rules_are_named() -> None:
    texts = ("t1.a < 3", "t1.a >= 3")
    declared = [DenialConstraint(parse_comparisons(text), text=text) for text in texts]
    with pytest.raises(ConstraintProblem, match=r"1 \(not \(t1.a < 3\)\); 2 \(not \(t1.a >= 3\)\)"):
        check_consistency(compile_constraints(SCHEMA, constraints=declared))
