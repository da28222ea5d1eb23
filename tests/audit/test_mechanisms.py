"""Explore's mechanisms, run as the product runs them, on neighbouring tables: no claim is refuted, faults are.

The runs are real ones (``run_mechanism`` on exact numbers), so there are fewer of them than for bare noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_private, audit
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.mechanisms.base import ErrorRequirement
from siloquent.explore.plan.mechanisms.direct_noise import price_laplace
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.spec import parse
from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.privacy import Cost, convert_zcdp_to_epsilon, get_accountant
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema, Unit

pytestmark = pytest.mark.statistical
N = 5_000
DELTA = 0.01
WARDS = Attribute("ward", "category", values=("A", "B", "C", "D"))
AGE = Attribute("age", "integer", lo=Decimal(0), hi=Decimal(3), grid=Decimal(1))
WHO = Attribute("who", "id")
Rows = list[dict[str, object]]


ROW = Unit()


def table(accountant: str = "pure", *, adjacency: str = "add-remove", unit: Unit = ROW) -> TableSchema:
    budget = (
        TableBudget("pure", epsilon=Fraction(1000))
        if accountant == "pure"
        else TableBudget("zcdp", rho=Fraction(1000), delta=Fraction(1, 100))
    )
    return TableSchema("t", Domain((WHO, WARDS, AGE)), budget, adjacency=adjacency, unit=unit)  # type: ignore[arg-type]


def columns(found: Plan, rows: Rows) -> list[NDArray[np.int64]]:
    """Exact folded counts, through the declaration's own index functions."""
    folded = []
    for part in found.compiled.parts:
        cells = np.zeros(part.block.size, dtype=np.int64)
        for row in rows:
            places = [
                c[found.schema.domain[a].index(row[a])]
                for a, c in zip(part.block.attributes, part.block.classes, strict=True)
            ]
            weight = (
                found.schema.domain["age"].index(row["age"]) + found.compiled.offset if found.compiled.attribute else 1
            )
            cells[np.ravel_multi_index(places, part.block.shape) if places else 0] += weight
        folded.append(part.fold(cells))
    return folded


def release(found: Plan) -> Callable[[Rows, int], NDArray[np.float64]]:
    def run(rows: Rows, n: int) -> NDArray[np.float64]:
        exact = columns(found, rows)
        outputs = [run_mechanism(found.chosen, found.compiled, exact).values for _ in range(n)]
        width = max((len(o) for o in outputs), default=0)
        # Sets of ids differ in length: the length is part of what is seen.
        return np.array([[*o, *[-1] * (width - len(o)), len(o)] for o in outputs], dtype=np.float64)

    return run


def claim(found: Plan) -> dict[str, float]:
    name = found.schema.budget.accountant
    price = float(get_accountant(name).compute_price(found.event).amount)
    return {"epsilon": price} if name == "pure" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}


def row(ward: str, age: int) -> dict[str, object]:
    return {"ward": ward, "age": age}


BASE = [row("A", 0), row("A", 2), row("B", 1), row("C", 3)]
ADDED = (BASE, [*BASE, row("A", 0)])
EMPTY: tuple[Rows, Rows] = ([], [row("B", 1)])
REPLACED = (BASE, [*BASE[1:], row("D", 3)])
USER = (BASE, [*BASE, row("B", 1), row("B", 3), row("A", 0)])
QUESTIONS = {
    "laplace or gaussian": "SELECT ward, COUNT(*) FROM t GROUP BY ward ERROR {e} CONFIDENCE 0.9",
    "strategy": "BIN t ON COUNT(*) WHERE W = PREFIX(age, 0, 4, 1) ERROR {e} CONFIDENCE 0.9",
    "crossing": "BIN t ON COUNT(*) WHERE W = PREFIX(age, 0, 4, 1) HAVING COUNT(*) > 2 ERROR {e} CONFIDENCE 0.9",
    "iceberg": "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) > 1 ERROR {e} CONFIDENCE 0.9",
    "top": "SELECT ward FROM t GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR {e} CONFIDENCE 0.9",
    "overlapping top": "BIN t ON COUNT(*) WHERE W = {{ward = 'A', age < 2, ward != 'B', age = 0}} "
    "ORDER BY COUNT(*) LIMIT 2 ERROR {e} CONFIDENCE 0.9",
    "sum": "SELECT ward, SUM(age) FROM t GROUP BY ward ERROR {e} CONFIDENCE 0.9",
}
SETTINGS = [
    ("add-remove", Unit(), ADDED, 3),
    ("add-remove", Unit(), EMPTY, 3),
    ("replace-one", Unit(), REPLACED, 6),
    ("add-remove", Unit("user", "who", 3), USER, 9),
]


@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("adjacency", "unit", "pair", "error"), SETTINGS, ids=["added", "empty", "replaced", "user"])
def test_a_mechanism_keeps_its_claim(
    question: str, name: str, adjacency: str, unit: Unit, pair: tuple[Rows, Rows], error: int
) -> None:
    found = planned(question, table(name, adjacency=adjacency, unit=unit), error)
    assert_private(release(found), pair, n=N, **claim(found))


def planned(question: str, schema: TableSchema, error: int) -> Plan:
    factor = 4 if question == "sum" else 1
    return plan(parse(QUESTIONS[question].format(e=error * factor)), schema, left=Cost(10**16))


# Planted faults: the price of another setting, charged for what really runs.


def charged(found: Plan, **claims: float) -> None:
    assert audit(release(found), USER if found.schema.unit.kind == "user" else REPLACED, n=2 * N, **claims).refuted  # type: ignore[arg-type]


@pytest.mark.slow
def test_one_row_charged_for_a_user_of_three_is_caught() -> None:
    found = planned("laplace or gaussian", table(), 3)
    wrong = replace(found, schema=table(unit=Unit("user", "who", 3)))
    charged(wrong, **claim(found))


def test_the_row_norm_charged_for_the_column_norm_is_caught() -> None:
    """Four nested predicates, charged as if one row moved one of them."""
    text = "BIN t ON COUNT(*) WHERE W = {age < 4, age < 3, age < 2, age < 1} ERROR 2 CONFIDENCE 0.9"
    found = plan(parse(text), table(), left=Cost(10**16))
    wanted = ErrorRequirement("wcq", alpha=Fraction(2), m=3, beta=0.1)
    short = price_laplace(replace(found.compiled, sensitivity=Sensitivity(1, 1, 1)), wanted)
    assert short is not None
    faulty = replace(found, chosen=short)
    assert audit(release(faulty), ADDED, n=N, **claim(faulty)).refuted  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_clamp_left_out_is_caught() -> None:
    """A sum over values that were not clamped moves by more than was paid for."""
    found = planned("sum", table(), 3)
    wild = (BASE, [*BASE, row("A", 3), row("A", 3), row("A", 3)])
    assert audit(release(found), wild, n=2 * N, **claim(found)).refuted  # type: ignore[arg-type]
