"""Weights of soft constraints that make drawn rows break them at known rates: by simulation, free."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.chain.draw import REFERENCE_ROWS
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.enforce.constraints import count_violations

PASSES = 10
DRAWS = 6
"""The number of tables of 5,000 rows that a rate averages: one only is off by 10 % if few rows break the most."""
CLOSE = 0.01
LONGEST = 2.0
"""The largest step of a weight, in log-probability at the target rate."""


def fit_weights(model: ChainModel, rates: Mapping[int, float], *, seed: int = 0) -> ChainModel:
    """Return the model with weights at which simulated rows break each constraint at its rate, as nearly as possible.

    It takes ten passes, each a secant step (Broyden's) for all weights together. A rate falls as its weight rises, and
    a weight may be negative. Rates that only move together cannot be met separately. Every pass draws with the same
    seed, so that only the weights change.

    Args:
        rates: The target share of pairs, by the number of a soft constraint over two rows; others keep their weight.
    Source:
        Thesis, algorithm 11, corrected: exp(-W V) has no normaliser there, so W is a rate times the steps taken.
    """
    numbers = [one.number for one in model.frame.compiled.soft if rates.get(one.number, 0.0) > 0]
    if not numbers:
        return model
    wanted = np.log([rates[number] for number in numbers])
    unit = 1.0 / (np.exp(wanted) * REFERENCE_ROWS)
    weights = np.zeros(len(numbers))
    gap = _compute_log_rates(model, numbers, weights, seed) - wanted
    best, least = weights, float(np.abs(gap).max())
    # The response of the log-rates to the weights, in units in which a single rate would fall by about one.
    answer = -np.eye(len(numbers))
    for _ in range(PASSES - 1):
        if least <= CLOSE:
            break
        step = np.clip(-np.linalg.lstsq(answer, gap, rcond=None)[0], -LONGEST, LONGEST)
        trial = weights + step * unit
        found = _compute_log_rates(model, numbers, trial, seed) - wanted
        answer += np.outer(found - gap - answer @ step, step) / max(float(step @ step), 1e-12)
        weights, gap = trial, found
        if float(np.abs(gap).max()) < least:
            best, least = weights, float(np.abs(gap).max())
    return model.replace_weights({**model.weights, **dict(zip(numbers, best.tolist(), strict=True))})


def _compute_log_rates(
    model: ChainModel, numbers: list[int], weights: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return the log mean rates of tables drawn under these weights; no broken pair counts as half a pair."""
    trial = model.replace_weights({**model.weights, **dict(zip(numbers, weights.tolist(), strict=True))})
    broken, possible = np.zeros(len(numbers)), 1
    for draw in range(DRAWS):
        cells = trial.draw_cells(REFERENCE_ROWS, seed=seed + draw)
        counts = count_violations(cells, model.frame.compiled, one_way=False)
        broken += [counts[number].pairs for number in numbers]
        possible = counts[numbers[0]].possible
    return np.asarray(np.log(np.maximum(broken, 0.5) / (DRAWS * possible)))
