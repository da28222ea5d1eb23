"""Own rows and the shared model together: the shared score is an additional, hardly penalised feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.blas import limit_to_one_thread
from siloquent.share.linear_score import LinearScore
from siloquent.share.spec.encoding import Encoding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Kind = Literal["logistic", "svm", "linear"]
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""The values of C of the penalised fits, chosen by cross-validation on own rows."""
SPREAD = 3.0
"""The shared score's deviation among the features: the penalty then barely affects it, so fits start from it."""
FEWEST = 20


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of models: their kind, folds of the inner cross-validation, and the seed that draws folds."""

    kind: Kind
    folds: int = 5
    seed: int = 0


def fit_alone(encoding: Encoding, places: Integers, how: Fit) -> LinearScore:
    """Fit the model of only own rows of indices (rows, features + 1)."""
    with limit_to_one_thread():
        return _fit_model(encoding, places, None, how)


def fit_stacked(encoding: Encoding, places: Integers, shared: LinearScore, how: Fit) -> LinearScore:
    """Fit the model of own rows that starts from the shared one; with too few rows, return the shared one itself."""
    with limit_to_one_thread():
        return _fit_model(encoding, places, shared, how)


def _fit_model(encoding: Encoding, places: Integers, shared: LinearScore | None, how: Fit) -> LinearScore:
    label = places[:, -1]
    y = encoding.compute_target(label) if encoding.is_regression else label
    if len(places) < FEWEST or (not encoding.is_regression and np.bincount(y.astype(int)).max() > len(y) - how.folds):
        return shared if shared is not None else fit_constant_scores(encoding, places)
    design = encoding.build_design(places[:, :-1])
    if shared is None:
        weights, constant = _choose_best(design, y, how, encoding)
        return _build_scores(encoding, weights, constant, how.kind)
    raw = shared.compute_scores(encoding, places[:, :-1])
    spread = np.maximum(raw.std(axis=0), 1e-9)
    weights, constant = _choose_best(np.hstack([design, (raw - raw.mean(axis=0)) / spread * SPREAD]), y, how, encoding)
    # A score of scores is a score: the shared weights are multiplied in.
    own, lent = weights[: design.shape[1]], weights[design.shape[1] :] * (SPREAD / spread)[:, None]
    return _build_scores(
        encoding, own + shared.weights @ lent, constant + (shared.constant - raw.mean(axis=0)) @ lent, how.kind
    )


def _build_scores(encoding: Encoding, weights: Floats, constant: Floats, kind: Kind) -> LinearScore:
    if encoding.is_regression:
        return LinearScore(weights, constant, "value")
    return LinearScore(weights, constant, "logit" if kind == "logistic" else "sign")


def fit_constant_scores(encoding: Encoding, places: Integers) -> LinearScore:
    """Fit the best guess without features: class shares as log-odds, or the mean."""
    label = places[:, -1]
    rows = encoding.columns + len(encoding.numeric)
    if encoding.is_regression:
        mean = float(encoding.compute_target(label).mean()) if len(label) else 0.0
        return LinearScore(np.zeros((rows, 1)), np.array([mean]), "value")
    counts = np.bincount(label, minlength=encoding.classes) + 0.5
    logs = np.log(counts / counts.sum())
    if encoding.classes == 2:
        return LinearScore(np.zeros((rows, 1)), logs[1:] - logs[:1], "logit")
    return LinearScore(np.zeros((rows, encoding.classes)), logs, "logit")


def _choose_best(design: Floats, y: Any, how: Fit, encoding: Encoding) -> tuple[Floats, Floats]:
    """Return weights (columns, outputs) and constants for the penalty that is best in cross-validation."""
    folds = assign_folds(y, how.folds, how.seed, regression=encoding.is_regression)
    losses = []
    for strength in STRENGTHS:
        loss = 0.0
        for fold in range(how.folds):
            train, test = folds != fold, folds == fold
            weights, constant = _fit_penalised(design[train], y[train], how.kind, strength, encoding.classes)
            loss += _choose_loss(how.kind)(design[test] @ weights + constant, y[test])
        losses.append(loss)
    return _fit_penalised(design, y, how.kind, STRENGTHS[int(np.argmin(losses))], encoding.classes)


def assign_folds(y: Any, folds: int, seed: int, *, regression: bool) -> Integers:
    """Assign a fold to each row, shape (rows,): equal shares of every class in each."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(y))
    if not regression:
        order = order[np.argsort(np.asarray(y)[order], kind="stable")]
    made = np.empty(len(y), dtype=np.int64)
    made[order] = np.arange(len(y)) % folds
    return made


def _fit_penalised(design: Floats, y: Any, kind: Kind, strength: float, classes: int) -> tuple[Floats, Floats]:
    # scikit-learn takes .5 s to import, so only learning imports it.
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if kind == "linear":
        made = Ridge(alpha=1 / strength).fit(design, y)
        return made.coef_.reshape(1, -1).T, np.atleast_1d(np.asarray(made.intercept_, dtype=float))
    if len(np.unique(y)) < 2:  # a fold may lack a class
        shares = np.log((np.bincount(y, minlength=classes) + 0.5) / (len(y) + 0.5 * classes))
        constant = shares[1:] - shares[:1] if classes == 2 else shares
        return np.zeros((design.shape[1], len(constant))), constant
    if kind == "logistic":
        made = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-3).fit(design, y)
    else:
        made = LinearSVC(C=strength, loss="hinge" if len(design) < 2_000 else "squared_hinge", max_iter=5_000, tol=1e-3)
        made.fit(design, y)
    return _extract_weights(made, classes)


def _extract_weights(made: Any, classes: int) -> tuple[Floats, Floats]:
    """Return a fitted classifier's weights with one output, or one per class; a missing class is never chosen."""
    weights, constant = np.asarray(made.coef_, dtype=float), np.asarray(made.intercept_, dtype=float)
    if classes == 2:
        return weights.T, constant
    if len(made.classes_) == 2:
        weights, constant = np.vstack([-weights, weights]) / 2, np.concatenate([-constant, constant]) / 2
    whole, shift = np.zeros((classes, weights.shape[1])), np.full(classes, -1e3)
    whole[made.classes_], shift[made.classes_] = weights, constant
    return whole.T, shift


def _choose_loss(kind: Kind) -> Callable[[Floats, Any], float]:
    return {"logistic": log_loss, "svm": hinge_loss, "linear": squared_loss}[kind]


def log_loss(scores: Floats, y: Any) -> float:
    """Compute the sum of -log p of the true classes, from log-odds (rows, outputs)."""
    if scores.shape[1] == 1:
        return float(np.logaddexp(0, np.where(y == 1, -scores[:, 0], scores[:, 0])).sum())
    top = scores.max(axis=1)
    totals = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    return float((totals - scores[np.arange(len(y)), y]).sum())


def hinge_loss(scores: Floats, y: Any) -> float:
    """Compute the sum of hinge losses."""
    if scores.shape[1] == 1:
        return float(np.maximum(0, 1 - np.where(y == 1, scores[:, 0], -scores[:, 0])).sum())
    true = scores[np.arange(len(y)), y]
    others = scores.copy()
    others[np.arange(len(y)), y] = -np.inf
    return float(np.maximum(0, 1 + others.max(axis=1) - true).sum())


def squared_loss(scores: Floats, y: Any) -> float:
    """Compute the sum of squared differences."""
    return float(((scores[:, 0] - y) ** 2).sum())
