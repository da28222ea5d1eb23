"""Right answers of classifiers are counts: a row that comes or goes moves each by one at most."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from siloquent.synth.estimate.judges import Judges, summed_exactly, trained

SIZES = (2, *(4 for _ in range(12)))


def nearly_undecided(seed: int) -> tuple[LogisticRegression, np.ndarray]:
    """A classifier of the first column, and a row whose score is 0 but for rounding."""
    random = np.random.default_rng(seed)
    row = np.array([0, *random.integers(0, 4, 12)])
    weights = random.normal(size=48).astype(np.float32)
    held = [4 * i + value for i, value in enumerate(row[1:])]
    weights[held[-1]] = -weights[held[:-1]].astype(np.float64).sum()
    model = LogisticRegression()
    model.classes_, model.coef_, model.intercept_ = np.array([0, 1]), weights[None], np.zeros(1, dtype=np.float32)
    return model, row


def test_one_more_row_changes_what_is_said_of_no_other() -> None:
    for seed in range(20):
        model, row = nearly_undecided(seed)
        judges = Judges(0, SIZES, (summed_exactly(model),))
        right = [int(judges.right(np.repeat(row[None], count, axis=0))[0]) for count in range(30)]
        assert set(np.diff(right).tolist()) in ({0}, {1})


def test_fitted_scores_are_sums_of_whole_steps() -> None:
    rows = np.random.default_rng(0).integers(0, SIZES, (300, 13))
    linear = trained(rows, 0, SIZES, seed=1).models[0]
    for found in (linear.coef_, linear.intercept_):
        assert found.dtype == np.float64
        assert (found * 2**24 == np.rint(found * 2**24)).all()
        assert np.abs(found).max() <= 2**20
