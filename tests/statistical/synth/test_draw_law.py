"""Drawing a column under soft constraints follows its law: direct, by Gibbs steps, by accept and reject."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from siloquent.synth.estimate.chain.draw import draw_by_rejection
from siloquent.synth.estimate.counting import build_pair_tables
from unit.synth.test_constraints import SMALL, compiled, never

FALSE_ALARM = 1e-9
TRIALS = 60_000
WEIGHT = 0.7


def law() -> np.ndarray:
    """P[v] of the last row's d: chance x exp(-weight x partners), by hand, over all seven values."""
    others = np.array([[1, 2], [3, 5], [4, 1], [2, 6]])
    chance = np.array([1, 2, 3, 4, 3, 2, 1]) / 16
    broken = [sum((c < 3) != (d < v) and c != 3 and d != v for c, d in others) for v in range(7)]
    mass = chance * np.exp(-WEIGHT * np.array(broken))
    return mass / mass.sum()


def drawn(weight: float, *, stored: bool = False) -> np.ndarray:
    """How often each value is drawn in fresh tables with four rows."""
    found = compiled(SMALL, never("t1.c > t2.c and t1.d < t2.d", hard=False))
    form = found.constraints[0].form
    assert form is not None
    tables = build_pair_tables([form], found, "d")
    others = np.array([[0, 0, 1, 2], [0, 0, 3, 5], [0, 0, 4, 1], [0, 0, 2, 6]])
    random = np.random.default_rng(8)
    chances = np.array([[1, 2, 3, 4, 3, 2, 1]]) / 16
    counts = np.zeros(7)
    tables.add(others)
    for uniform in random.random(TRIALS):
        row = np.array([[0, 0, 3, 0]])
        if stored:
            tables.add(row)
        tables.draw(
            row,
            np.zeros(1, dtype=np.int64),
            weights=np.array([weight]),
            chances=chances,
            uniforms=np.array([uniform]),
            stored=stored,
        )
        tables.add(row, -1)
        counts[row[0, 3]] += 1
    return counts


def assert_follows(counts: np.ndarray, expected: np.ndarray) -> None:
    distance = ((counts - TRIALS * expected) ** 2 / (TRIALS * expected)).sum()
    assert distance <= chi2.isf(FALSE_ALARM, len(expected) - 1), distance


@pytest.mark.statistical
@pytest.mark.parametrize("stored", [False, True])
def test_a_drawn_value_follows_its_law(stored: bool) -> None:
    assert_follows(drawn(WEIGHT, stored=stored), law())


@pytest.mark.statistical
def test_the_test_would_catch_a_weight_that_counts_one_direction_only() -> None:
    with pytest.raises(AssertionError):
        assert_follows(drawn(WEIGHT / 2), law())


def accepted(weight: float, *, looks: bool = True, refusals: int = 300) -> np.ndarray:
    """The same by accept and reject; ``looks`` False: it draws from empty tables, as the thesis's code does."""
    found = compiled(SMALL, never("t1.c > t2.c and t1.d < t2.d", hard=False))
    form = found.constraints[0].form
    assert form is not None
    others = np.array([[0, 0, 1, 2], [0, 0, 3, 5], [0, 0, 4, 1], [0, 0, 2, 6]])
    random = np.random.default_rng(9)
    chances, counts = np.array([[1, 2, 3, 4, 3, 2, 1]]) / 16, np.zeros(7)
    tables = build_pair_tables([form], found, "d")
    if looks:
        tables.add(others)
    for _ in range(TRIALS // 4):
        row = np.array([[0, 0, 3, 0]])
        at, weights = np.zeros(1, np.int64), np.array([weight])
        draw_by_rejection(tables, row, at, weights=weights, chances=chances, random=random, refusals=refusals)
        tables.add(row, -1)
        counts[row[0, 3]] += 4
    return counts / 4


def assert_accepted(counts: np.ndarray) -> None:
    expected = law() * counts.sum()
    distance = ((counts - expected) ** 2 / expected).sum()
    assert distance <= chi2.isf(FALSE_ALARM, len(expected) - 1), distance


@pytest.mark.statistical
@pytest.mark.parametrize("refusals", [300, 1])
def test_accept_and_reject_follows_the_same_law(refusals: int) -> None:
    """With one refusal allowed most draws end in the law itself: also then nothing changes."""
    assert_accepted(accepted(WEIGHT, refusals=refusals))


@pytest.mark.statistical
def test_the_test_would_catch_a_variant_that_accepts_without_looking() -> None:
    with pytest.raises(AssertionError):
        assert_accepted(accepted(WEIGHT, looks=False))
