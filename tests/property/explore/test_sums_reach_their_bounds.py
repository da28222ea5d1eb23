"""Some two rows move sums as far as their sensitivity says: a bound above what is reached would hide a lost factor."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec import parse
from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema, Unit

D = Decimal
PREDICATES = {
    "sex = 'f'": lambda row: row[0] == "f",
    "sex = 'm'": lambda row: row[0] == "m",
    "age < 1": lambda row: row[1] < 1,
    "age < 2": lambda row: row[1] < 2,
    "age >= 2": lambda row: row[1] >= 2,
    "age = 3": lambda row: row[1] == 3,
}
FEMALE, MALE, BABY, CHILD, OLDER, THREE = PREDICATES


def schema(bounds: tuple[int, int], rows: int) -> TableSchema:
    attributes = (
        Attribute("who", "id"),
        Attribute("sex", "category", values=("f", "m")),
        Attribute("age", "integer", lo=D(0), hi=D(3), grid=D(1)),
        Attribute("cost", "integer", lo=D(bounds[0]), hi=D(bounds[1]), grid=D(1)),
    )
    unit = Unit("user", "who", rows) if rows > 1 else Unit()
    budget = TableBudget("pure", epsilon=Fraction(1))
    return TableSchema("visits", Domain(attributes), budget, unit=unit, adjacency="replace-one")


def reached(predicates: list[str], bounds: tuple[int, int], rows: int) -> Sensitivity:
    """How far replacing a unit of equal rows by another one moves the sums, at the furthest in each norm."""
    units = list(product("fm", range(4), bounds))
    sums = [[rows * row[2] * PREDICATES[name](row) for name in predicates] for row in units]
    moves = [[abs(a - b) for a, b in zip(one, other, strict=True)] for one, other in product(sums, sums)]
    return Sensitivity(
        l1=max(sum(move) for move in moves),
        l2_squared=max(sum(each * each for each in move) for move in moves),
        linf=max(max(move) for move in moves),
    )


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("predicates", "bounds"),
    [
        ([FEMALE, MALE], (0, 6)),  # the largest value in one predicate, then in a disjoint one
        ([BABY, CHILD, OLDER], (0, 6)),
        ([FEMALE], (-6, 6)),  # the largest value, then the least one
        ([FEMALE, BABY], (-6, 6)),
        ([BABY, OLDER, MALE], (-6, 6)),
        ([CHILD, OLDER, THREE], (-5, 5)),
    ],
)
def test_replacing_a_unit_moves_sums_as_far_as_is_charged(
    predicates: list[str], bounds: tuple[int, int], rows: int
) -> None:
    workload = ", ".join(predicates)
    query = parse(f"BIN visits ON SUM(cost) WHERE W = {{{workload}}} ERROR 100")
    assert compile_workload(query, schema(bounds, rows)).sensitivity == reached(predicates, bounds, rows)
