"""Runs found from the declaration say what a look at each value says; classes are those of all tests together."""

from __future__ import annotations

import random
import tracemalloc
from datetime import datetime
from decimal import Decimal

import numpy as np
import pytest

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.classes import MAX_VALUES, Runs, build_classes, build_runs, check_work, count_work
from siloquent.explore.plan.cells.predicate_evaluation import evaluate_atom
from siloquent.explore.plan.cells.space import Space
from siloquent.explore.plan.cells.space import iter_tests as comparisons_in
from siloquent.explore.spec import parse_predicate
from siloquent.schema import Attribute, Domain

D = Decimal
ATTRIBUTES = (
    Attribute("x", "integer", lo=D(-30), hi=D(30), grid=D(3)),
    Attribute("x", "integer", lo=D(0), hi=D(40), grid=D(1), null="cell", outside="clamp"),
    Attribute("x", "real", lo=D("-1"), hi=D("1"), grid=D("0.25"), null="cell"),
    Attribute("x", "date", lo=datetime(2024, 2, 27), hi=datetime(2024, 3, 3), grid=D(86_400)),
    Attribute("x", "datetime", lo=datetime(2024, 2, 28, 20), hi=datetime(2024, 2, 29, 8), grid=D(3_600), null="cell"),
    Attribute("x", "category", values=("a", "b", "c"), other="cell", null="cell"),
    Attribute("x", "category", values=("a", "b", "c")),
)
WIDE = Attribute("x", "integer", lo=D(0), hi=D(999_999), grid=D(1))


def _constant(attribute: Attribute, draw: random.Random) -> str:
    if attribute.kind == "category":
        return repr(draw.choice(attribute.values))
    if attribute.is_temporal:
        day = f"2024-0{draw.randint(2, 3)}-{draw.randint(1, 29):02d}"
        return draw.choice([f"DATE '{day}'", f"TIMESTAMP '{day} {draw.randint(0, 23):02d}:30:00'"])
    return str(draw.choice([draw.randint(-45, 45), D(draw.randint(-180, 180)) / 8]))


def _test(attribute: Attribute, draw: random.Random) -> str:
    if draw.random() < 0.2:
        found = [_constant(attribute, draw) for _ in range(draw.randint(1, 4))]
        return f"x IN ({', '.join(one for one in found if one.split()[0] == found[0].split()[0] or '2024' not in one)})"
    op = draw.choice(["=", "!="] if attribute.kind == "category" else ["=", "!=", "<", "<=", ">", ">="])
    sides = ["x", _constant(attribute, draw)]
    if draw.random() < 0.3:
        sides.reverse()
    return f" {op} ".join(sides)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda one: f"{one.kind}-{one.null}")
def test_runs_are_the_truth_of_each_value(attribute: Attribute) -> None:
    draw = random.Random(7)
    cells = np.arange(attribute.size + 1, dtype=np.int32)
    for _ in range(150):
        text = _test(attribute, draw)
        (test,) = comparisons_in(parse_predicate(text))
        assert count_work(test, attribute) == 0, text  # type: ignore[arg-type]
        found = build_runs(test, attribute).refine_to(cells)  # type: ignore[arg-type]
        assert found.tolist() == evaluate_atom(test, attribute).tolist(), text  # type: ignore[arg-type]


def test_classes_are_those_of_equal_signatures_in_order() -> None:
    draw = np.random.default_rng(3)
    for _ in range(300):
        size = int(draw.integers(1, 30))
        vectors = draw.integers(-1, int(draw.choice([2, 3, 40])), (int(draw.integers(1, 6)), size + 1))
        found, first = build_classes([Runs.from_vector(one) for one in vectors], size)
        signatures = [tuple(column) for column in vectors.T.tolist()]
        order = list(dict.fromkeys(signatures))
        assert found.tolist() == [order.index(one) for one in signatures]
        assert first.tolist() == [signatures.index(one) for one in order]


def test_two_thousand_ranges_take_the_memory_of_one_map_of_the_values() -> None:
    tests = [
        t for i in range(2_000) for t in comparisons_in(parse_predicate(f"x BETWEEN {i * 499} AND {i * 499 + 700}"))
    ]
    tracemalloc.start()
    space = Space(tests, Domain((WIDE,)), [])  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 8 * WIDE.size  # one signature of each value would be 4,000 bytes wide
    assert space.block.size > 2_000


def test_what_would_take_too_long_is_refused_before_it_is_done() -> None:
    few = [(t, WIDE) for i in range(5) for t in comparisons_in(parse_predicate(f"x % {i + 2} = 0"))]
    check_work(few)  # type: ignore[arg-type]
    many = few * (MAX_VALUES // (5 * WIDE.size) + 1)
    with pytest.raises(RequestError, match="too many to plan") as refused:
        check_work(many)  # type: ignore[arg-type]
    assert "compare x directly" in refused.value.fix
