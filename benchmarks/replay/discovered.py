"""Discoveries on neighbours, with the same noise for the same keys: loss and delta against the charge.

A key that only one unit holds is noised on one side alone. So calls are compared key by key: common keys lose what
their counts' changes lose, and for the keys of the one unit the probability that any passes is summed up. Formulas,
exact numbers and the noise that was drawn are all that is used; no price or sensitivity of the product is believed.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.replay.audit import Found, opened
from benchmarks.replay.declarations import BUDGET, DECLARATION
from siloquent.api import Session
from siloquent.data import PrivateTable
from siloquent.errors import SiloquentError
from siloquent.privacy import ATTO, get_accountant, noise
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema

SETTINGS = [(adjacency, most) for adjacency in ("add-remove", "replace-one") for most in (0, 1, 3)]
KEYS_EACH = (1, 2, 5)
Counts = dict[str, int]


@dataclass(slots=True, eq=False)
class Heard:
    """What one run noised, key by key, and what it stored and paid."""

    units: Counts = field(default_factory=dict)
    noises: Counts = field(default_factory=dict)
    variances: set[Fraction] = field(default_factory=set)
    payloads: list[bytes] = field(default_factory=list)
    status: str = "answered"
    amount: int = 0
    delta: int = 0


def declare(adjacency: str, most: int) -> TableSchema:
    """The declaration of the other audits, in a zCDP account."""
    unit = f'{{ kind = "user", column = "who", max_rows = {most} }}' if most else '{ kind = "row" }'
    text = DECLARATION.format(
        other="cell", null=['"drop"'] * 2, flag="drop", plain="drop", outside=["drop"] * 3, lo=-5, hi=5,
        adjacency=adjacency, unit=unit, accountant="zcdp", size=10_000, bins="{ width = 2 }", rules="",
        budget=BUDGET["zcdp"],
    )  # fmt: skip
    return parse_schema(text)


def neighbours(chance: random.Random, schema: TableSchema, keys_each: int) -> tuple[pa.Table, pa.Table]:
    """Tables that differ in one unit: often with keys that nobody else holds, else with as many as others hold."""
    is_user = schema.unit.kind == "user"
    keys = [f"common {number}" for number in range(2 * keys_each + 2)]
    base = [(f"p{i}", key) for i in range(60 * keys_each) for key in chance.sample(keys, chance.randint(1, 3))]
    own = chance.choice([0, 0, 1, keys_each + 2])

    def unit(name: str, pool: list[str]) -> list[tuple[str, str | None]]:
        held: list[str | None] = [*pool, *(f"{name}'s {number}" for number in range(own))]
        if not is_user:
            return [(name, chance.choice(held))]
        held += [None, "x" * 300] if own else []
        chance.shuffle(held)
        return [(name, key) for key in held] * chance.choice([1, 1, 3])

    half = len(keys) // 2
    left = [("bob", key) for _, key in unit("bob", keys[half:])] if schema.replace_one else []
    sides = [[*base, *unit("ann", keys[:half])], [*base, *left]]
    if chance.random() < 0.5:
        sides.reverse()
    for rows in sides:
        chance.shuffle(rows)
    return frame(sides[0]), frame(sides[1])


def frame(rows: Sequence[tuple[str, str | None]]) -> pa.Table:
    """Rows of these users and texts; the other columns are all alike."""
    import datetime

    size = len(rows)
    return pa.table(
        {
            "who": pa.array([who for who, _ in rows], pa.string()),
            "note": pa.array([note for _, note in rows], pa.string()),
            "ward": ["A"] * size,
            "ill": [True] * size,
            "day": pa.array([datetime.date(2024, 1, 2)] * size),
            **{name: pa.array([1.0] * size) for name in ("age", "cost", "dose")},
        }
    )


@contextmanager
def heard(tape: Heard, first: Heard | None) -> Iterator[None]:
    """Note keys, exact counts and noise; keys that ``first`` noised get its noise again."""
    real_count, real_noise = PrivateTable.count_units_by_key, noise.add_gaussian
    waiting: list[list[str]] = []

    def count(table: Any, *given: Any, **named: Any) -> Iterator[Any]:
        for part in real_count(table, *given, **named):
            waiting.append(part.keys.to_pylist())
            yield part

    def add(values: Any, *, variance: Fraction) -> Any:
        keys, drawn = waiting.pop(), real_noise(values, variance=variance)
        assert len(keys) == len(values)
        tape.variances.add(Fraction(variance))
        for place, (key, exact) in enumerate(zip(keys, values.tolist(), strict=True)):
            if first is not None and key in first.noises:
                drawn[place] = exact + first.noises[key]
            tape.units[key], tape.noises[key] = exact, int(drawn[place]) - exact
        return drawn

    with patch.object(PrivateTable, "count_units_by_key", count), patch.object(noise, "add_gaussian", add):
        yield


def play(session: Session, keys_each: int, first: Heard | None = None) -> Heard:
    """Discover the notes with the noise of ``first``."""
    tape, ledger = Heard(), session.ledger
    before, settle = session.get_account("visits").spent, ledger.settle

    def settled(permit: Any, event: Any, payload: bytes, **more: Any) -> Any:
        tape.payloads.append(payload)
        return settle(permit, event, payload, **more)

    with patch.object(ledger, "settle", settled), heard(tape, first):
        try:
            session.discover("visits", "note", rho="0.5", keys_each=keys_each, delta="1e-7", key="audit")
        except SiloquentError as refused:
            tape.status = f"{refused.code}: {refused}"
    spent = session.get_account("visits").spent
    tape.amount, tape.delta = spent.amount - before.amount, spent.delta - before.delta
    return tape


def discovered(seeds: range) -> Iterator[Found]:
    """One discovery of keys for each seed, over all settings."""
    for seed in seeds:
        chance = random.Random(f"discovered {seed}")
        adjacency, most = SETTINGS[seed % len(SETTINGS)]
        keys_each = 1 if not most else KEYS_EACH[seed // len(SETTINGS) % len(KEYS_EACH)]
        yield audit_keys(declare(adjacency, most), keys_each, chance)


def audit_keys(schema: TableSchema, keys_each: int, chance: random.Random) -> Found:
    """Discover on a table, and with the same noise on its neighbour."""
    sides = neighbours(chance, schema, keys_each)
    with opened(schema, sides[0]) as session:
        one = play(session, keys_each)
    with opened(schema, sides[1]) as session:
        other = play(session, keys_each, one)
    charge = Fraction(one.amount, get_accountant("zcdp").scale)
    faults, loss = list_faults(one, other, keys_each, charge)
    unit = "row" if schema.unit.kind == "row" else f"user x{schema.unit.max_rows}"
    name = f"discover keys x{keys_each}"
    return Found(name, "zcdp", unit, schema.adjacency, one.status, ("add_gaussian",), loss, charge, tuple(faults))


def list_faults(one: Heard, other: Heard, keys_each: int, charge: Fraction) -> tuple[list[str], Fraction]:
    """What tells the neighbours apart beyond the charge, and the loss of their common keys."""
    faults = [f"{side.status}" for side in (one, other) if side.status != "answered"]
    if faults:
        return faults, Fraction(0)
    if (one.amount, one.delta, one.variances) != (other.amount, other.delta, other.variances):
        faults.append("neighbours pay differently, or get other noise")
    told = [json.loads(side.payloads[0]) for side in (one, other)]
    if {**told[0], "keys": 0} != {**told[1], "keys": 0}:
        faults.append("neighbours are told something else than keys")
    (variance,), common = one.variances, one.units.keys() & other.units.keys()
    loss = Fraction(sum((one.units[key] - other.units[key]) ** 2 for key in common)) / (2 * variance)
    if loss > charge:
        faults.append(f"undercharged: {float(loss)} for {float(charge)}")
    for side, shown in zip((one, other), told, strict=True):
        faults += list_faults_of_side(side, shown, side.units.keys() - common, keys_each)
    return faults, loss


def list_faults_of_side(side: Heard, shown: dict[str, Any], alone: set[str], keys_each: int) -> Iterator[str]:
    """What is wrong with one side: the keys that it has ``alone``, their probability, and what it shows."""
    if len(alone) > keys_each or any(side.units[key] != 1 for key in alone):
        yield f"{len(alone)} keys are one side's alone"
    (variance,), threshold = side.variances, shown["threshold"]
    passes = -math.expm1(len(alone) * math.log1p(-tail(threshold - 1, float(variance))))
    if passes > side.delta / ATTO * (1 + 1e-9):
        yield f"a single unit's key passes with probability {passes}, charged {side.delta / ATTO}"
    passing = {key for key in side.units if side.units[key] + side.noises[key] >= threshold}
    if shown["keys"] != sorted(passing, key=str.encode):
        yield "other keys, or in another order, than those that reach the threshold"


def tail(m: int, variance: float) -> float:
    """P[N >= m] of the discrete Gaussian, summed term by term."""
    reach = np.arange(-60 * math.ceil(math.sqrt(variance)) - 60, m + 60 * math.ceil(math.sqrt(variance)) + 60)
    weights = np.exp(-(reach**2) / (2 * variance))
    return float(weights[reach >= m].sum() / weights.sum())
