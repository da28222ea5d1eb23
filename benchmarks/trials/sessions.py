"""Sessions of questions from a fixed generator, priced as APEx would and planned as we do, each drawing from the last.

Nothing here depends on rows: a plan looks at matrices and variances alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np

from benchmarks.explore.costs import PLENTY
from siloquent.api import read_schema
from siloquent.explore import parse
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswer, EarlierAnswers
from siloquent.explore.plan.reuse.linear_measurements import (
    LinearMeasurement,
    build_footprint,
    build_linear_measurement,
)
from siloquent.explore.plan.reuse.plans import ReusedMechanism, compute_question_digest, find_cheapest_with_reuse
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.maths.strategies.trees import build_levels
from siloquent.privacy import FREE, get_accountant
from siloquent.schema import TableSchema

ROWS, BETA, CONFIDENCE = 32_561, 5e-4, "0.9995"
FIRST, LAST = 17, 91
Accounting = Literal["pure", "zcdp"]
Reuse = Literal["", "ANY", "NONE", "SIMULTANEOUS"]
"""What questions say; nothing: the default of table files."""
Predicate = tuple[int, int, int | None]
"""low <= age < high, and a sex or None for both."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a session: all its predicates, and its error bound in rows."""

    predicates: tuple[Predicate, ...]
    alpha: float

    @property
    def text(self) -> str:
        """As it is asked."""
        parts = [
            f"age >= {low} AND age < {high}" + ("" if sex is None else f" AND sex = {sex}")
            for low, high, sex in self.predicates
        ]
        return f"BIN people ON COUNT(*) WHERE W = {{{', '.join(parts)}}} ERROR {self.alpha} CONFIDENCE {CONFIDENCE}"


def hist(w: int, lo: int = FIRST, hi: int = LAST, sex: int | None = None) -> list[Predicate]:
    """Bins of ``w`` years."""
    return [(low, min(low + w, hi), sex) for low in range(lo, hi, w)]


def prefix(w: int, lo: int = FIRST, hi: int = LAST, sex: int | None = None) -> list[Predicate]:
    """Ages from ``lo`` on, up to every ``w``-th year."""
    return [(lo, low + w, sex) for low in range(lo, hi, w)]


def by_sex(lo: int, hi: int) -> list[Predicate]:
    """One range of ages for either sex."""
    return [(lo, hi, 0), (lo, hi, 1)]


def session(seed: int, length: int) -> Iterator[Asked]:
    """The questions of one session."""
    rng = np.random.default_rng(seed)
    for _ in range(length):
        kind = rng.integers(0, 7)
        w = int(rng.choice([1, 2, 5, 10]))
        lo = int(rng.integers(17, 60))
        hi = min(91, lo + int(rng.integers(10, 40)))
        sex = [None, 0, 1][rng.integers(0, 3)]
        query = [
            hist(w),
            prefix(w),
            by_sex(17, 91),
            hist(w, lo, hi, sex),
            prefix(w, lo, hi, sex),
            by_sex(lo, hi),
            hist(w, sex=0) + hist(w, sex=1),
        ][kind]
        yield Asked(tuple(query), float(rng.choice([0.01, 0.02, 0.04, 0.08])) * ROWS)


# APEx, re-implemented from the thesis


def laplace_price(asked: Asked) -> float:
    """The Laplace mechanism: the largest column of W times ln(1/(1 - (1 - beta)^(1/L))) / alpha."""
    answers = len(asked.predicates)
    return _most_counted(asked) * -math.log(-math.expm1(math.log1p(-BETA) / answers)) / asked.alpha


def apex_price(asked: Asked) -> float:
    """The cheaper of the Laplace mechanism and the H2 strategy at its exact joint two-sided quantile."""
    laplace = laplace_price(asked)
    return laplace if _most_counted(asked) == 1 else min(laplace, _h2_unit(len(asked.predicates)) / asked.alpha)


def _most_counted(asked: Asked) -> int:
    """How many predicates count the same person at most."""
    cells = np.zeros((2, LAST - FIRST), dtype=np.int64)
    for low, high, sex in asked.predicates:
        cells[slice(None) if sex is None else sex, low - FIRST : high - FIRST] += 1
    return int(cells.max())


@cache
def _h2_unit(cells: int) -> float:
    """The price of prefixes over ``cells`` by a binary tree for an error bound of one, by a million samples."""
    shape = build_levels(cells, 2)
    nodes = [
        (low, high)
        for starts in shape
        for low, high in zip(starts.tolist(), [*starts[1:].tolist(), cells], strict=True)
    ]
    matrix = np.zeros((len(dict.fromkeys(nodes)), cells))
    for row, (low, high) in enumerate(dict.fromkeys(nodes)):
        matrix[row, low:high] = 1
    back = (np.tril(np.ones((cells, cells))) @ np.linalg.pinv(matrix)).T.astype(np.float32)
    rng = np.random.default_rng(1)
    largest = [np.abs(rng.laplace(size=(50_000, len(matrix))).astype(np.float32) @ back).max(axis=1) for _ in range(20)]
    return float(np.quantile(np.concatenate(largest), 1 - BETA) * matrix.sum(axis=0).max())


# Ours


@cache
def people(name: Accounting) -> TableSchema:
    """74 ages by two sexes."""
    return read_schema(people_file(name, rho="1000"))


def people_file(name: Accounting, *, rho: str) -> str:
    """The same as a table file."""
    budget = f'rho = "{rho}"\ndelta = "1e-6"' if name == "zcdp" else f'epsilon = "{rho}"'
    return f"""
format = 1
attribute = [
  {{ name = "age", type = "integer", lo = 17, hi = 90, outside = "clamp", null = "drop" }},
  {{ name = "sex", type = "integer", lo = 0, hi = 1, outside = "clamp", null = "drop" }},
]
[table]
name = "people"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{name}"
{budget}
"""


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The plans of a session in order; ``total``: epsilon or rho."""

    plans: tuple[Plan, ...]
    total: Fraction

    @property
    def free(self) -> int:
        """How many answers cost nothing."""
        return sum(one.event == FREE for one in self.plans)

    @property
    def repeated(self) -> int:
        """How many of those are an earlier answer again."""
        return sum(isinstance(one.chosen, ReusedMechanism) and one.chosen.repeated is not None for one in self.plans)


@cache
def walked(seed: int, length: int, name: Accounting, reuse: Reuse) -> Walk:
    """A session as it is planned and paid for, each answer kept for the later ones."""
    schema, plans, total = people(name), [], Fraction(0)
    known: list[EarlierAnswer] = []
    noises = 0
    for place, asked in enumerate(session(seed, length)):
        text = asked.text if not reuse else f"{asked.text} REUSE {reuse}"
        found = find_cheapest_with_reuse(plan(parse(text), schema, left=PLENTY), EarlierAnswers(tuple(known)))
        plans.append(found)
        total += get_accountant(name).compute_price(found.event).amount
        past = None
        if found.event != FREE:
            past = kept(found, receipt_of(place), noises)
            noises += noises_of(found)
        measured = StoredMeasurement(found.chosen.name, found.chosen.form, found.event, (), str(found.alpha))
        if isinstance(found.chosen, ReusedMechanism):
            measured = replace(measured, label=found.chosen.label, sources=found.chosen.sources)
        measured = replace(measured, question=compute_question_digest(found))
        known.append(EarlierAnswer(receipt_of(place), "people@1", measured, past))
    return Walk(tuple(plans), total)


def receipt_of(place: int) -> int:
    """The entry of the receipt of the question at ``place``: each has a reservation and a settlement."""
    return 2 * place + 4


def place_of(receipt: int) -> int:
    """Back from there."""
    return receipt // 2 - 2


def noises_of(found: Plan) -> int:
    """How many noises a plan draws."""
    return sum(len(one) for one in found.chosen.strategy) or found.compiled.answers


def kept(found: Plan, seq: int, first: int) -> LinearMeasurement:
    """What the ledger would keep, with the noises' places from ``first`` on for values: plans do not look at them."""
    chosen = found.chosen
    footprint = build_footprint(found.compiled, found.schema, by_strategy=chosen.form != "answers")
    values = tuple(range(first, first + noises_of(found)))
    assert footprint is not None
    strategy = tuple(np.asarray(matrix) for matrix in chosen.strategy)  # 148 cells: never sparse
    past = build_linear_measurement(footprint, found.event, values, strategy, source=seq, account="people@1")
    assert past is not None
    return past
