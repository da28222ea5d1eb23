"""Advice on joining: four models on held-out own rows: constant, alone, shared, stacked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.readable import Readable
from siloquent.share.estimate.stack import Fit, assign_folds, fit_alone, fit_constant_scores, fit_stacked
from siloquent.share.linear_score import LinearScore, decide_classes
from siloquent.share.spec.encoding import Encoding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ROUNDING = 1e-9
"""The maximal difference in loss between equal models, caused by the order of summation."""
MODELS = ("constant", "alone", "shared", "stacked")
COVERED = 0.95
"""The coverage of the intervals of differences."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The errors of one model on held-out rows.

    For classes ``error`` is the misclassification rate, ``balanced`` its mean over the classes (a constant has
    1 - 1/classes), ``auc`` the probability that the likelier of two rows ranks first, ``loss`` the log loss. For a
    number ``error`` and ``loss`` are the mean squared difference over the declared range as -1 to 1, the others NaN.
    """

    error: float
    balanced: float
    auc: float
    loss: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Stacked minus alone on the same rows: the mean and its 95 % interval; below 0 is better."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Readable):
    """The result of cross-validation on own rows; it is about those rows, so it stays with their owner.

    ``recommended``: stacked is better than alone in loss beyond the interval, not worse in error, and better than the
    constant in both: an improvement that a constant also gives does not count.
    """

    measures: dict[str, Measures]
    error: PairedDifference
    loss: PairedDifference
    recommended: bool
    rows: int

    def __str__(self) -> str:
        return f"{self.describe()}\nExact, about your own {self.rows:,} rows: it stays with their owner."

    def describe(self) -> str:
        """Return the advice in words."""
        if self.rows < 2:
            return "There are no own rows to compare on: the shared model is all there is."
        alone, stacked = self.measures["alone"].error, self.measures["stacked"].error
        constant = self.measures["constant"].error
        words = f"Errors: alone {alone:.4g}, with the others' releases {stacked:.4g}, the constant {constant:.4g}."
        if self.recommended and stacked >= alone:
            return f"Yes: sharing helps here, the loss falls and the error does not rise. {words}"
        if self.recommended:
            return f"Yes: sharing helps here. {words}"
        if self.loss.high < 0 and stacked <= alone:
            return f"No: it is better than alone, and no better than the constant. {words}"
        if self.loss.high < 0:
            return f"No: the loss falls, but the error does not. {words}"
        if self.loss.low > 0:
            return f"No: sharing makes it worse here. {words}"
        return f"No: sharing makes no difference that these rows can show. {words}"


def advise(encoding: Encoding, places: Integers, shared: LinearScore, how: Fit) -> Advice:
    """Cross-validate the four models on own rows of indices (rows, features + 1)."""
    rows, label = len(places), places[:, -1]
    held = {name: np.zeros((rows, len(shared.constant))) for name in MODELS}
    if rows < how.folds:
        return Advice({}, PairedDifference(0.0, 0.0, 0.0), PairedDifference(0.0, 0.0, 0.0), False, 0)
    y = encoding.compute_target(label) if encoding.is_regression else label
    folds = assign_folds(y, how.folds, how.seed, regression=encoding.is_regression)
    for fold in range(how.folds):
        train, test = places[folds != fold], folds == fold
        for name, scores in (
            ("constant", fit_constant_scores(encoding, train)),
            ("alone", fit_alone(encoding, train, how)),
            ("shared", shared),
            ("stacked", fit_stacked(encoding, train, shared, how)),
        ):
            held[name][test] = _compute_log_odds(scores, scores.compute_scores(encoding, places[test, :-1]))
    errors = {name: _compute_errors(encoding, held[name], y) for name in MODELS}
    losses = {name: _compute_losses(encoding, held[name], y) for name in MODELS}
    error, loss = (_compute_difference(found["stacked"] - found["alone"]) for found in (errors, losses))
    measures = {name: _compute_measures(encoding, held[name], y, errors[name], losses[name]) for name in MODELS}
    return Advice(measures, error, loss, recommended=is_gain(measures, error, loss), rows=rows)


def is_gain(measures: Mapping[str, Measures], error: PairedDifference, loss: PairedDifference) -> bool:
    """Return whether the others' releases help for certain: more than own rows, and more than a constant."""
    stacked, constant = measures["stacked"], measures["constant"]
    beats_alone = loss.high < -ROUNDING and error.mean <= 0
    return beats_alone and stacked.loss < constant.loss - ROUNDING and stacked.error <= constant.error


def _compute_log_odds(scores: LinearScore, found: Floats) -> Floats:
    """Convert scores to log-odds; a least-squares score in -1 to 1 is read as 2 p - 1."""
    if scores.link != "sign":
        return found
    p = np.clip((found + 1) / 2, 0.01, 0.99)
    return np.asarray(np.log(p) - (np.log1p(-p) if found.shape[1] == 1 else 0.0))


def _compute_errors(encoding: Encoding, found: Floats, y: Floats | Integers) -> Floats:
    if encoding.is_regression:
        return np.asarray((found[:, 0] - y) ** 2)
    return np.asarray(decide_classes(found) != y, dtype=np.float64)


def _compute_losses(encoding: Encoding, found: Floats, y: Floats | Integers) -> Floats:
    if encoding.is_regression:
        return np.asarray((found[:, 0] - y) ** 2)
    if found.shape[1] == 1:
        return np.asarray(np.logaddexp(0, np.where(y == 1, -found[:, 0], found[:, 0])))
    top = found.max(axis=1, keepdims=True)
    totals = top[:, 0] + np.log(np.exp(found - top).sum(axis=1))
    return np.asarray(totals - found[np.arange(len(y)), y.astype(np.int64)])


def _compute_difference(each: Floats) -> PairedDifference:
    from scipy.special import stdtrit

    # With few rows the spread is uncertain: Student's t, which is 1.96 for many rows.
    wide = float(stdtrit(len(each) - 1, (1 + COVERED) / 2))
    mean, error = float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each))
    return PairedDifference(mean, mean - wide * error, mean + wide * error)


def _compute_measures(
    encoding: Encoding, found: Floats, y: Floats | Integers, errors: Floats, losses: Floats
) -> Measures:
    if encoding.is_regression:
        return Measures(float(errors.mean()), math.nan, math.nan, float(losses.mean()))
    present = np.unique(y)
    balanced = float(np.mean([errors[y == label].mean() for label in present]))
    columns = [found[:, 0]] if found.shape[1] == 1 else list(found.T)
    labels = [1] if found.shape[1] == 1 else range(found.shape[1])
    areas = [area for c, one in zip(columns, labels, strict=True) if (area := compute_auc(c, y == one)) is not None]
    return Measures(float(errors.mean()), balanced, float(np.mean(areas)) if areas else math.nan, float(losses.mean()))


def compute_auc(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """Compute the area under the ROC curve; None where all rows have the same class."""
    # scipy.stats takes .3 s to import, so only advice imports it.
    from scipy.stats import rankdata

    count = int(positive.sum())
    if count in (0, len(positive)):
        return None
    ranks = float(rankdata(scores)[positive].sum())
    return (ranks - count * (count + 1) / 2) / (count * (len(positive) - count))
