"""A candidate without a gain ranks after all others, however large its values are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from siloquent.maths.models.partial_correlation import MomentsByKey, compute_exact_gains
from siloquent.search.estimate.greedy import rank_candidates

KEYS, ROWS, MANY = 40, 4_000, 120


def ranked_of(table: MomentsByKey, values: Any) -> list[Any]:
    pool = SimpleNamespace(candidates=range(MANY), values=values, variances=np.zeros_like(values), unsure=0.0)
    training: Any = SimpleNamespace(
        can_join=lambda key: True, compute_key_moments=lambda key: table, draw_moments=lambda key, rng: []
    )
    ranked, looked_at = rank_candidates(training, [pool], np.random.default_rng(0))  # type: ignore[list-item]
    assert looked_at == MANY
    return ranked


@pytest.mark.parametrize("level", [0.1, 1e3, 1e6 + 0.1, -3e9])
@pytest.mark.parametrize("seed", range(5))
def test_constants_gain_nothing_and_are_never_first(level: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    key, truth = rng.integers(0, KEYS, ROWS), rng.normal(size=KEYS)
    y = 0.2 * truth[key] + rng.normal(size=ROWS)
    counts = np.bincount(key, minlength=KEYS).astype(float)
    table = MomentsByKey(counts, np.bincount(key, weights=y, minlength=KEYS)[:, None], np.array([[y.var()]]))
    values = level * (1 + rng.normal(size=(MANY, 1))) + np.zeros((MANY, KEYS))  # 4 offers of 30 columns, all constant
    values[seed] = level + truth  # but one
    ranked = ranked_of(table, values)
    assert ranked[0].candidate == seed
    assert ranked[0].gain > 0.005
    assert {(one.expected, one.gain, one.low) for one in ranked[1:]} == {(0.0, 0.0, 0.0)}


@pytest.mark.parametrize("seed", range(5))
def test_candidates_are_in_the_order_of_double_precision(seed: int) -> None:
    """Gains that differ by less than single precision knows: 4 offers of 30 columns that are almost the same."""
    rng = np.random.default_rng(seed)
    key, truth = rng.integers(0, KEYS, ROWS), rng.normal(size=KEYS)
    y = 0.5 * truth[key] + rng.normal(size=ROWS)
    counts = np.bincount(key, minlength=KEYS).astype(float)
    table = MomentsByKey(counts, np.bincount(key, weights=y, minlength=KEYS)[:, None], np.array([[y.var()]]))
    steps = rng.permutation(MANY)
    values = truth + 1e-9 * steps[:, None] * rng.normal(size=KEYS)
    ranked = ranked_of(table, values)
    exact = compute_exact_gains(table, values - values[:, [int(np.argmax(counts))]]).gains
    found = [one.candidate for one in ranked[:20]]
    assert [one.gain for one in ranked] == sorted((one.gain for one in ranked), reverse=True)
    assert found == sorted(found, key=lambda i: -exact[i])
    assert len({float(np.float32(one.gain)) for one in ranked[:20]}) < 20  # single precision cannot tell them apart
