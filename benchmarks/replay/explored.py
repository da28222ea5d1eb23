"""Questions of explore through the Session's own door, and constructed pairs for every mechanism."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from benchmarks.replay.audit import Found, Release, audit
from benchmarks.replay.declarations import SETTINGS, Row, apart, declared, extremes, neighbours, question
from benchmarks.replay.steps import parts_of
from siloquent.api import Session
from siloquent.explore.plan import planner
from siloquent.privacy import ExponentialSelect, get_accountant
from siloquent.schema import TableSchema

SHOWN_AT_RANDOM = frozenset({"hash", "prev", "ledger", "at"})
EACH = 6


def ask(text: str) -> Release:
    """The answer's whole document and table."""

    def release(session: Session) -> object:
        answer = session.ask(text)
        return _plain(answer.to_json()), [tuple(map(str, row)) for row in answer.rows], answer.table.to_pylist()

    return release


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key not in SHOWN_AT_RANDOM}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def explored(seeds: range, *, each: int = EACH) -> Iterator[Found]:
    """``each`` questions after one another for each seed, on neighbours of a declaration of its own."""
    for seed in seeds:
        chance = random.Random(f"replay {seed}")
        schema, bounds = declared(chance, *SETTINGS[seed % len(SETTINGS)])
        one, other = neighbours(chance, schema, bounds)
        asked = [question(chance, bounds) for _ in range(each)]
        chosen = chance.choice([None, None, chance.randrange(6)])
        with nullcontext() if chosen is None else patch.object(planner, "_choose", _nth(chosen)):
            yield from audit(schema, one, other, [(text, ask(text), k) for text, k in asked])


def _nth(number: int) -> Callable[..., Any]:
    """Another mechanism than the cheapest: whichever the planner takes must be paid for."""
    return lambda affordable, *, optimistic: affordable[number % len(affordable)]


FAR_APART = {
    "groups": "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 30 REUSE NONE",
    "sums": "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 900 REUSE NONE",
    "blocks": "BIN visits ON COUNT(*) WHERE W = {age <= 0, age <= 1, age > 1, ward = 'A', ward != 'A'} "
    "ERROR 300 REUSE NONE",
    "iceberg": "BIN visits ON COUNT(*) WHERE W = {ward = 'A', ward = 'C'} HAVING COUNT(*) > 2 "
    "ERROR 20 PREFER OPTIMISTIC",
    "crossing": "BIN visits ON COUNT(*) WHERE W = {ward = 'C', ward IN ('B', 'C')} HAVING COUNT(*) > 15 ERROR 90",
    "top": "BIN visits ON COUNT(*) WHERE W = {ward = 'A', ward = 'C', ward = 'B'} ORDER BY COUNT(*) LIMIT 1 ERROR 90",
    "top sums": "BIN visits ON SUM(cost) WHERE W = {ward = 'A', ward = 'C', ward = 'B'} ORDER BY SUM(cost) LIMIT 1 "
    "ERROR 900",
    "median": "SELECT MEDIAN(age) FROM visits ERROR 15",
    "average": "SELECT AVG(dose) FROM visits BUDGET 30 EPSILON",
    "average of some": "SELECT AVG(cost) FROM visits WHERE ward != 'B' BUDGET 30 EPSILON",
    "variance": "SELECT VAR(dose) FROM visits BUDGET 30 EPSILON",
    "several": "SELECT COUNT(*), AVG(dose), SUM(cost) FROM visits WHERE ward = 'A' BUDGET 30 EPSILON",
    "averages of groups": "SELECT ill, AVG(dose) FROM visits GROUP BY ill BUDGET 30 EPSILON",
    "average and median": "SELECT AVG(cost), MEDIAN(age) FROM visits BUDGET 30 EPSILON",
    "medians of chosen groups": "SELECT ward, MEDIAN(age), COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 2 "
    "ERROR 20, 30",
}
"""Questions whose price some pair of extreme units uses up, by what they ask."""


WARDS: list[Row] = [{"ward": ward} for ward in "ABC"]
UNITS: dict[str, list[Row]] = {
    **dict.fromkeys(("groups", "iceberg", "crossing", "top"), WARDS),
    **{name: [{**ward, "cost": cost} for ward in WARDS for cost in (-5, 5)] for name in ("sums", "top sums")},
    "blocks": [{"ward": ward, "age": age} for ward in "AC" for age in (0, 1, 4)],
    "median": [{"age": age} for age in range(5)],
    "average": [{"dose": -1}, {"dose": 3}],
    "average of some": [{"ward": "A", "cost": cost} for cost in (-5, 5)],
    "variance": [{"dose": place / 2} for place in range(-2, 7)],
    "several": [{"ward": "A", "dose": dose, "cost": cost} for dose in (-1, 3) for cost in (-5, 5)],
    "averages of groups": [{"ill": ill, "dose": dose} for ill in (True, False) for dose in (-1, 3)],
    "average and median": [{"age": age, "cost": cost} for age in (*range(5), None) for cost in (-5, 5, None)],
    "medians of chosen groups": [{**ward, "age": age} for ward in WARDS for age in range(5)],
}
"""All that a row can be to a question, as far as its loss is concerned.

A loss is convex in the values of both rows, so least and greatest values are enough, but for sums and squares together:
there all values are tried. Rows that count nowhere are beside them. Which rows a user has does not matter: m equal ones
move m times as far, and no others further.
"""
NOWHERE: Row = {"ward": None, "age": None, "cost": None, "dose": None}


def far_apart(
    setting: tuple[str, str, int], names: Sequence[str] = tuple(FAR_APART), *, nth: int = 0
) -> Iterator[Found]:
    """Questions on neighbours that differ as far as two units can, by the ``nth`` cheapest mechanism."""
    schema, bounds = declared(random.Random(1), *setting, bounds=(-5, 5))
    for name in names:
        yield from _asked(schema, extremes(schema, bounds), name, nth)


def farthest(
    setting: tuple[str, str, int], names: Sequence[str] = tuple(FAR_APART), *, nth: int = 0
) -> Iterator[Found]:
    """The same, until some neighbours use up the whole charge; else the worst of all that there are.

    These must reach ``bound_ratio``, which says why no neighbours use up more.
    """
    schema, bounds = declared(random.Random(1), *setting, bounds=(-5, 5))
    for name in names:
        best: Found | None = None
        for sides in _pairs(schema, bounds, name):
            for found in _asked(schema, sides, name, nth):
                best = found if best is None or found.faults or found.ratio > best.ratio else best
            if best is None or best.faults or best.ratio > bound_ratio(name, best) * (1 - 1e-6):
                break
        if best is not None:
            yield replace(best, most=bound_ratio(name, best))


def bound_ratio(name: str, found: Found) -> float:
    """The part of its charge that any neighbours can use up: 1, but where a reason is known.

    Medians of groups beside their counts, another row in the place of one, zCDP: their prices M and C are those of
    their own worst rows, and no rows are the worst of both. A row that stays in its group moves that group's median as
    far as two rows that come or go, and no count; one that goes into another group moves two medians half as far, at a
    quarter of the price each, and two counts. Of a unit's m rows let q go: M (1 - q/m + q^2 / 2m^2) + C q^2 / m^2 is
    convex in q, so that no unit uses up more than the larger of M and M/2 + C.
    """
    is_zcdp_replaced = (found.account, found.adjacency) == ("zcdp", "replace-one")
    if not is_zcdp_replaced or name != "medians of chosen groups" or not found.charge:
        return 1.0
    book = get_accountant("zcdp")
    parts = [part for event in found.events for part in parts_of(event)]
    medians = sum(book.compute_cost(one).amount for one in parts if isinstance(one, ExponentialSelect))
    counts = sum(book.compute_cost(one).amount for one in parts) - medians
    return max(medians, medians / 2 + counts) / (medians + counts)


def _pairs(schema: TableSchema, bounds: tuple[int, int], name: str) -> Iterator[tuple[pa.Table, pa.Table]]:
    yield extremes(schema, bounds)
    units: list[Row] = [{**row, "cost": row.get("cost", bounds[1])} for row in UNITS[name]]
    if schema.adjacency == "replace-one":
        yield from (apart(schema, one, other) for one, other in combinations([*units, NOWHERE], 2))
    else:
        yield from (apart(schema, one, None) for one in units)


def _asked(schema: TableSchema, sides: tuple[pa.Table, pa.Table], name: str, nth: int) -> Iterator[Found]:
    text = FAR_APART[name]
    with patch.object(planner, "_choose", _nth(nth)) if nth else nullcontext():
        yield from audit(schema, *sides, [(text, ask(text), 1)])
