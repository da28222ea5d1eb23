"""Classifiers that learn one column from the others in the rows to be put out, for the paid report. They see no row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

NAMES = ("logistic regression", "random forest", "boosted trees")
MAX_TRAINED = 5_000
"""Rows that are learned from: more cost seconds, and change little."""
_BLOCK = 2**16
_STEP, _MOST = 2.0**-24, 2.0**20
"""Of the coefficients of a sum: a hundred columns' add up without rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedClassifiers:
    """Three fitted classifiers of one column's groups. A class of arrays and models, so that engines can send it away.

    Attributes:
        target: The place of the column that they say.
        sizes: How many groups each column has.
    """

    target: int
    sizes: tuple[int, ...]
    models: tuple[Any, ...]

    def count_right(self, rows: Integers) -> Integers:
        """How many of ``rows`` (groups, shape (rows, columns)) each classifier says right, shape (3,)."""
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
    """The classifiers of the column ``target`` that ``rows`` (groups, shape (rows, columns)) teach.

    Its groups are what they say; where there is one alone, the classifiers are constant.
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
    # One thread: on a busy machine those of boosted trees wait for one another.
    with threadpool_limits(1):
        models = (
            round_coefficients(LogisticRegression(max_iter=200).fit(wide, true)),
            RandomForestClassifier(60, min_samples_leaf=2, random_state=seed % 2**32).fit(codes, true),
            HistGradientBoostingClassifier(random_state=seed % 2**32).fit(codes, true),
        )
    return FittedClassifiers(target, sizes, models)


def round_coefficients(model: Any) -> Any:
    """A fitted linear classifier with coefficients in whole steps, so that a row's scores are sums without rounding.

    BLAS adds up in an order that hangs on how many rows there are. Where two scores are nearly the same, a row that
    comes or goes would otherwise change what is said of others, too.
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
