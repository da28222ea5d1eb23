"""A candidate without a gain ranks after all others, however large its values are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from siloquent.maths.partial import ByKey
from siloquent.search.estimate.greedy import ranking

KEYS, ROWS, MANY = 40, 4_000, 120


@pytest.mark.parametrize("level", [0.1, 1e3, 1e6 + 0.1, -3e9])
@pytest.mark.parametrize("seed", range(5))
def test_constants_gain_nothing_and_are_never_first(level: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    key, truth = rng.integers(0, KEYS, ROWS), rng.normal(size=KEYS)
    y = 0.2 * truth[key] + rng.normal(size=ROWS)
    counts = np.bincount(key, minlength=KEYS).astype(float)
    table = ByKey(counts, np.bincount(key, weights=y, minlength=KEYS)[:, None], np.array([[y.var()]]))
    values = level * (1 + rng.normal(size=(MANY, 1))) + np.zeros((MANY, KEYS))  # 4 offers of 30 columns, all constant
    values[seed] = level + truth  # but one
    pool = SimpleNamespace(candidates=range(MANY), values=values, variances=np.zeros_like(values), unsure=0.0)
    training: Any = SimpleNamespace(can_join=lambda key: True, by_key=lambda key: table, drawn=lambda key, rng: [])
    ranked, looked_at = ranking(training, [pool], rng)  # type: ignore[list-item]
    assert (ranked[0].candidate, looked_at) == (seed, MANY)
    assert ranked[0].gain > 0.005
    assert {(one.expected, one.gain, one.low) for one in ranked[1:]} == {(0.0, 0.0, 0.0)}
