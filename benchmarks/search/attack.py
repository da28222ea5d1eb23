"""A attack: preprocessing on raw rows tells who is there, however much noise comes after it; ours does not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.search_tables import planned, released
from benchmarks.row import Options, Row

Floats = NDArray[np.float64]
TRIALS = 400


def rows(options: Options) -> Iterator[Row]:
    """A-preprocessing."""
    if options.wants("A-preprocessing"):
        yield _attack(100 if options.quick else TRIALS)


def _attack(trials: int) -> Row:
    """An attacker who knows all rows but one says which of two tables was released; half of the guesses are luck."""
    rng = np.random.default_rng(3)
    n, d, epsilon = 10_000, 100, 1 / 3
    rows_, key = rng.normal(0, 1, n), rng.integers(0, d, n)
    odd = rows_.copy()
    odd[0] = 1e6
    made = planned(("f",), epsilon=str(round(epsilon, 4)), keys=d, adjacency="replace-one")
    paper = ours = 0
    for _ in range(trials):
        truth = bool(rng.integers(2))
        table = odd if truth else rows_
        kept = np.abs(table - table.mean()) <= 1.5 * table.std()
        # Counts after the outlier cut, with the noise of a third of the budget; both expectations are the attacker's.
        sigma = np.sqrt(2 * np.log(1.25 / 1e-6)) * np.sqrt(2) / epsilon
        seen = np.bincount(key[kept], minlength=d) + rng.normal(0, sigma, d)
        expected = [np.bincount(key[_kept(one)], minlength=d) for one in (rows_, odd)]
        paper += (_nearer(seen, expected) == 1) == truth
        offer = released(made, np.clip(table / 3, -1, 1)[:, None], key)
        sums = offer.get_key_sums(0)[1][:, 0]
        ideal = [np.bincount(key, weights=np.clip(one / 3, -1, 1), minlength=d) for one in (rows_, odd)]
        ours += (_nearer(sums, ideal) == 1) == truth
    return Row(
        "A-preprocessing",
        ours=ours / trials,
        peer=paper / trials,
        goal=0.5 + np.expm1(epsilon) / (np.expm1(epsilon) + 2) / 2 + 3 * 0.5 / np.sqrt(trials),
        unit="guesses right",
        how=f"{trials} trials, n {n:,}, one row replaced by 10^6, eps 1/3 replace-one; peer: the paper's outlier "
        "cut on raw rows; goal: what eps 1/3 allows, and three deviations of chance",
    )


def _kept(table: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.abs(table - table.mean()) <= 1.5 * table.std())


def _nearer(seen: Floats, expected: list[NDArray[np.float64]] | list[NDArray[np.int64]]) -> int:
    return int(np.argmin([((seen - one) ** 2).sum() for one in expected]))
