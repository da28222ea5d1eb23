"""Rates of soft constraints: bounded change by brute force, bought, met, and refused where there are none."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from siloquent.errors import RequestError
from siloquent.synth.measure.rates import compute_scaled_rate
from unit.synth.people import opened, planned, rows, schema, spec

SOFT = "constraint = [{ kind = 'denial', not = 't1.ward = t2.ward and t1.smoker != t2.smoker', hard = false }]"


def broken(table: list[tuple[int, int]]) -> int:
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in combinations(table, 2))


def test_a_row_changes_a_scaled_rate_by_400_at_most_and_that_is_reached() -> None:
    random = np.random.default_rng(0)
    most = 0
    for _ in range(1_500):
        least = int(random.integers(2, 9))
        table = [tuple(row) for row in random.integers(0, 3, (int(random.integers(1, 12)), 2)).tolist()]
        before = compute_scaled_rate(broken(table), len(table), least)
        for neighbour in (table[:-1], [*table, (0, 2)], [*table[:-1], (2, 0)]):
            after = compute_scaled_rate(broken(neighbour), len(neighbour), least)
            most = max(most, abs(after - before))
    assert most <= 400
    corner = [(0, 2)]  # two rows, all pairs broken
    assert compute_scaled_rate(broken([*corner, (2, 0)]), 2, 2) - compute_scaled_rate(broken(corner), 1, 2) == 400


def test_a_public_rate_is_met(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rules=SOFT) as session:
        made = session.synth.synthesize(spec(rows=1_000, rates={"1": "0.09"}))
    (kept,) = made.report.constraints
    assert kept.rate == 0.09
    assert kept.pairs is not None
    assert kept.possible is not None
    assert kept.pairs / kept.possible == pytest.approx(0.09, rel=0.03)


def test_a_bought_rate_is_near_the_truth_and_is_stored(tmp_path: Path) -> None:
    table = rows(2_000)
    plain = table.to_pydict()
    pairs = [(w, s) for w, s in zip(plain["ward"], plain["smoker"], strict=True) if w is not None]
    count = {w: [sum(1 for v, s in pairs if v == w and s is t) for t in (True, False)] for w in "ABCD"}
    truth = sum(a * b for a, b in count.values()) / (2_000 * 1_999 / 2)
    with opened(tmp_path / "w", table, rules=SOFT) as session:
        made = session.synth.synthesize(spec(rows=800, measure_rates="0.2"), key="k")
        folder = session.synth.save(made)
        assert session.verify(folder).ok
        assert session.synth.load(folder).rates == made.model.rates
    assert made.model.rates[1] == pytest.approx(truth, abs=0.05)


def test_rates_of_nothing_are_refused() -> None:
    with pytest.raises(RequestError, match="No soft constraint"):
        planned(measure_rates="0.1")
    with pytest.raises(RequestError, match="no rate to meet"):
        planned(rates={"1": "0.1"})
    assert planned(schema(rules=SOFT), measure_rates="0.1").rate_noise is not None
