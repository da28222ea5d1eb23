"""Classifiers of one column, trained on the output rows for the paid report. They see no private row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NAMES = ("logistic regression", "random forest", "boosted trees")
MAX_TRAINED = 5_000
"""The most rows for training: more take seconds and change little."""
_BLOCK = 2**16
_STEP, _MOST = 2.0**-24, 2.0**20
"""The step and bound of the coefficients of a sum: those of 100 columns add up without rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedClassifiers:
    """Three fitted classifiers of one column's groups: arrays and models only, so that engines can serialise it.

    Attributes:
        target: The index of the column that they predict.
        sizes: The number of groups of each column.
    """

    target: int
    sizes: tuple[int, ...]
    models: tuple[Any, ...]

    def count_right(self, rows: Integers) -> Integers:
        """Return how many of ``rows`` (groups, shape (rows, columns)) each classifier predicts right, shape (3,)."""
        from threadpoolctl import threadpool_limits

        found = np.zeros(len(self.models), dtype=np.int64)
        with threadpool_limits(1):
            return self._count_right(rows, found)

    def _count_right(self, rows: Integers, found: Integers) -> Integers:
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            codes, true = _select_others(block, self.target), block[:, self.target]
            wide = _encode_one_hot(block, self.target, self.sizes)
            found += [
                int((model.predict(wide if i == 0 else codes) == true).sum()) for i, model in enumerate(self.models)
            ]
        return found


def train_classifiers(rows: Integers, target: int, sizes: tuple[int, ...], *, seed: int) -> FittedClassifiers:
    """Return the classifiers of the column ``target``, trained on ``rows`` (groups, shape (rows, columns)).

    They predict the column's groups; if it has only one, the classifiers are constant.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    rows = rows[:MAX_TRAINED]
    true = rows[:, target]
    codes, wide = _select_others(rows, target), _encode_one_hot(rows, target, sizes)
    if len(sizes) < 2 or (true == true[0]).all():
        constant = DummyClassifier(strategy="most_frequent")
        return FittedClassifiers(target, sizes, tuple(constant.fit(np.zeros((len(rows), 1)), true) for _ in NAMES))
    # One thread: on a busy machine the threads of boosted trees wait for one another.
    with threadpool_limits(1):
        models = (
            round_coefficients(LogisticRegression(max_iter=200).fit(wide, true)),
            RandomForestClassifier(60, min_samples_leaf=2, random_state=seed % 2**32).fit(codes, true),
            HistGradientBoostingClassifier(random_state=seed % 2**32).fit(codes, true),
        )
    return FittedClassifiers(target, sizes, models)


def round_coefficients(model: Any) -> Any:
    """Round a fitted linear classifier's coefficients to whole steps, so that a row's scores are exact sums.

    The order of BLAS sums depends on the number of rows. Where two scores are nearly equal, adding or removing a row
    could otherwise change the predictions for others.
    """
    for name in ("coef_", "intercept_"):
        found = np.clip(np.asarray(getattr(model, name), dtype=np.float64), -_MOST, _MOST)
        setattr(model, name, np.rint(found / _STEP) * _STEP)
    return model


def _select_others(rows: Integers, target: int) -> NDArray[np.float32]:
    return np.delete(rows, target, axis=1).astype(np.float32)


def _encode_one_hot(rows: Integers, target: int, sizes: tuple[int, ...]) -> NDArray[np.float32]:
    parts = [rows[:, i, None] == np.arange(size) for i, size in enumerate(sizes) if i != target]
    return np.hstack(parts).astype(np.float32) if parts else np.zeros((len(rows), 1), dtype=np.float32)
