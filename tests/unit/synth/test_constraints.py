"""How constraints are classified and kept: the rules of four known tables, and the edges between the classes."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.errors import ConstraintProblem
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema
from siloquent.schema.constraints import Constraint, DenialConstraint, FunctionalDependency, Key, parse_comparisons
from siloquent.synth.estimate.enforce.trial import check_consistency
from siloquent.synth.plan.constraints import Circumstances, compile_constraints
from siloquent.synth.spec.compiled import CompiledConstraints

END = """
[table]
name = "t"
source = "csv:t.csv"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 30000
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
"""


def schema(**sizes: int) -> TableSchema:
    """A table of whole numbers 0..size-1."""
    lines = [
        f'{{ name = "{name}", type = "integer", lo = 0, hi = {size - 1}, outside = "clamp", null = "drop" }},'
        for name, size in sizes.items()
    ]
    return parse_schema("format = 1\nattribute = [\n" + "\n".join(lines) + "\n]\n" + END)


def never(text: str, *, hard: bool = True) -> DenialConstraint:
    return DenialConstraint(parse_comparisons(text, default_row=1), hard, text=text)


def compiled(table: TableSchema, *constraints: Constraint, **circumstances: object) -> CompiledConstraints:
    found = compile_constraints(table, constraints=constraints, circumstances=Circumstances(**circumstances))  # type: ignore[arg-type]
    check_consistency(found)
    return found


def kinds(found: CompiledConstraints) -> list[str]:
    return [one.kind for one in found.constraints]


SMALL = schema(a=4, b=5, c=6, d=7)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a > 2 and b < 3", "unary"),
        ("t2.a > 2", "unary"),
        ("t1.a < t1.b", "unary"),
        ("t1.a = t2.a and t1.b != t2.b", "dependency"),
        ("t1.a = t2.a and t1.b != t2.b and t1.c > 1 and t2.c > 1", "dependency"),
        ("t1.a = t2.a and t1.b != t2.b and t1.c > 1", "general"),
        ("t1.a = t2.a and t1.b != t2.b and t1.b > 1 and t2.b > 1", "general"),
        ("t1.a = t2.a and t1.b = t2.b", "key"),
        ("t1.a > t2.a and t1.b < t2.b", "order"),
        ("t1.c = t2.c and t1.a < t2.a and t1.b < t2.b", "order"),
        ("t1.a > t2.a and t1.b < t2.b and t1.c < t1.b and t2.c < t2.b", "general"),
        ("t1.a > t2.a and t1.b <= t2.b", "general"),
        ("t1.a <= t2.a and t1.a != t2.a and t1.b > t2.b", "order"),
        ("t1.a <= t2.a and t1.a >= t2.a and t1.b != t2.b", "dependency"),
        ("t1.a < t2.a and t1.a > t2.a", "never"),
        ("t1.a < t2.b", "general"),
        ("a > 9", "never"),
    ],
)
def test_a_constraint_belongs_to_one_class(text: str, kind: str) -> None:
    found = compile_constraints(SMALL, constraints=[never(text)])
    assert kinds(found) == [kind]


def test_tax_is_kept_by_tables_and_one_coupling_and_no_block() -> None:
    table = schema(
        zip=18_781, city=10_375, area=273, state=52, child=2, married=2, childexemp=26, single=28, salary=20, rate=951
    )
    found = compiled(
        table,
        FunctionalDependency(("zip",), "city"),
        FunctionalDependency(("area",), "state"),
        FunctionalDependency(("zip",), "state"),
        FunctionalDependency(("state", "child"), "childexemp"),
        FunctionalDependency(("state", "married"), "single"),
        never("t1.state = t2.state and t1.salary > t2.salary and t1.rate < t2.rate"),
    )
    assert found.modelled == ("state", "child", "married", "salary", "rate")
    assert {step.kind for step in found.passes} == {"dependency", "reverse", "coupling"}
    ways = {(need.lhs, need.rhs): (need.way, need.measured) for need in found.needs}
    assert ways[("zip",), "city"] == ("forward", False)
    assert ways[("area",), "state"] == ("reverse", True)
    assert ways[("zip",), "state"] == ("reverse", False)
    order = [step.constraints for step in found.passes]
    assert order.index((1,)) > order.index((3,)), "a city is looked up once its zip is drawn"


def test_several_dependencies_of_one_fine_attribute_are_drawn_in_one_pass() -> None:
    table = schema(cust=1_344, nation=25, segment=5, name=25, region=5)
    names = ("nation", "segment", "name")
    found = compiled(
        table, *(FunctionalDependency(("cust",), y) for y in names), FunctionalDependency(("name",), "region")
    )
    reverse = next(step for step in found.passes if step.kind == "reverse")
    assert reverse.constraints == (1, 2, 3)
    assert "cust" not in found.modelled
    assert any("not reproduced" in note for note in found.notes)


def test_a_fine_left_side_stays_in_the_model_where_its_counts_stand_out() -> None:
    found = compiled(schema(fine=20, coarse=4), FunctionalDependency(("fine",), "coarse"), one_way_deviation=54.0)
    assert (found.needs[0].way, found.modelled) == ("twin", ("fine", "coarse"))
    found = compiled(schema(fine=200, coarse=4), FunctionalDependency(("fine",), "coarse"), one_way_deviation=54.0)
    assert (found.needs[0].way, found.modelled) == ("reverse", ("coarse",))


def test_of_two_dependencies_into_one_attribute_one_is_turned_round() -> None:
    found = compiled(SMALL, FunctionalDependency(("a",), "d"), FunctionalDependency(("b",), "d"))
    assert [need.way for need in found.needs] == ["forward", "reverse"]
    assert found.modelled == ("a", "c")


def test_dependencies_both_ways_are_one_table_without_repeats() -> None:
    found = compiled(SMALL, FunctionalDependency(("a",), "b"), FunctionalDependency(("b",), "a"))
    (need,) = found.needs
    assert (need.lhs, need.rhs, need.bijective) == (("a",), "b", True)
    assert found.constraints[1].kept == "by construction: by the table of constraint 1"


def test_a_dependency_whose_right_side_has_an_order_gets_a_monotone_table() -> None:
    order = never("t1.c = t2.c and t1.a > t2.a and t1.b < t2.b")
    found = compiled(SMALL, FunctionalDependency(("c", "a"), "b"), order)
    assert [step.kind for step in found.passes] == ["monotone"]
    assert (found.needs[0].along, found.needs[0].rising) == ("a", True)


def test_constraints_that_would_undo_one_another_are_one_block() -> None:
    found = compiled(SMALL, never("t1.a > t2.a and t1.b < t2.b"), never("t1.c > t2.c and t1.b > t2.b"))
    assert [(step.kind, step.constraints) for step in found.passes] == [("block", (1, 2))]
    assert "together with constraint 2" in found.constraints[0].kept


def test_constants_cut_bins_and_masks_are_exact_on_them() -> None:
    found = compiled(schema(gain=100, loss=50), never("gain > 0 and loss > 9"))
    assert found.cuts == {"gain": (1,), "loss": (9, 10)}
    groups = {"gain": np.array([0] + [1] * 99), "loss": np.array([0] * 9 + [1] + [2] * 40)}
    assert found.masks[0].compute_allowed_share(groups).tolist() == [[1, 1, 1], [1, 1, 0]]


def test_soft_constraints_are_counted_and_never_enforced() -> None:
    found = compiled(SMALL, never("t1.a = t2.a and t1.b != t2.b", hard=False))
    assert (found.hard, len(found.soft), found.passes) == ((), 1, ())


def test_a_key_with_fewer_combinations_than_rows_is_refused_with_their_number() -> None:
    with pytest.raises(ConstraintProblem, match="20 combinations, but 21 rows"):
        compiled(SMALL, Key(("a", "b")), rows=21)


def test_conflicting_constraints_are_named_and_the_others_said_how_they_are_kept() -> None:
    with pytest.raises(ConstraintProblem) as refused:
        compiled(SMALL, never("a >= 2"), never("t1.a < 2"), never("t1.c > t2.c and t1.d < t2.d"))
    assert "constraint 1 (not (t1.a >= 2)); 2 (not (t1.a < 2))" in str(refused.value)
    assert "3 is kept by construction: d is dealt out in the order of c" in str(refused.value)
    assert refused.value.code == "constraint"


def test_a_constraint_on_columns_that_are_not_chosen_says_nothing() -> None:
    found = compile_constraints(SMALL, columns=("a", "b"), constraints=[FunctionalDependency(("a",), "d")])
    assert found.attributes == ("a", "b")
    assert found.constraints[0].kept == "says nothing about this output: d is not in it"


def test_rows_of_a_fresh_id_break_nothing_that_asks_for_the_same_id() -> None:
    table = columns('{ name = "p", type = "id" }', '{ name = "s", type = "boolean", null = "drop" }')
    found = compiled(table, FunctionalDependency(("p",), "s"), Key(("p", "s")))
    assert (kinds(found), found.fresh) == (["never", "never"], ("p",))


def columns(*lines: str) -> TableSchema:
    return parse_schema("format = 1\nattribute = [\n" + ",\n".join(lines) + "\n]\n" + END)


@pytest.mark.parametrize(
    ("x", "y", "broken"), [(2, 4, False), (5, 4, True), (4, 4, False), (5, 5, True), (5, 6, False)]
)
def test_attributes_of_different_grids_are_compared_by_value(x: int, y: int, broken: bool) -> None:
    table = columns(
        '{ name = "x", type = "real", lo = 0, hi = 3, grid = 0.5, outside = "clamp", null = "drop" }',
        '{ name = "y", type = "real", lo = 1, hi = 4, grid = 0.25, outside = "clamp", null = "drop" }',
    )
    found = compiled(table, never("t1.y < t1.x"))
    assert (1 + y * 0.25 < x * 0.5) is broken
    assert bool(found.masks[0].allows({"x": np.array(x), "y": np.array(y)})) is not broken


def test_things_without_a_common_scale_are_refused() -> None:
    table = columns(
        '{ name = "c", type = "category", values = ["u"], null = "drop" }',
        '{ name = "b", type = "boolean", null = "drop" }',
    )
    with pytest.raises(ConstraintProblem, match=r"Constraint 1 .*one is a category, the other a boolean"):
        compiled(table, never("t1.c = t2.b"))
