"""The shared model: the relation of features and label in the silos' sums, as weights. Post-processing, free."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.maths.models.moments import Moments
from siloquent.maths.models.ridge import choose_ridge, estimate_covariance_matrix, solve_slopes
from siloquent.share.estimate.pool import Pool, clamp_rows
from siloquent.share.linear_score import LinearScore
from siloquent.share.spec.encoding import Encoding
from siloquent.share.spec.layout import STEPS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CleanedTables:
    """Cleaned tables: ``cells`` (classes, columns), all above 0; ``classes`` (classes,) are at least 1."""

    cells: Floats
    classes: Floats
    rows: int


def fit_shared_scores(pooled: Pool) -> LinearScore:
    """Fit the model that pooled releases determine."""
    if pooled.agreement.method == "marginals":
        return _fit_from_tables(pooled.encoding, clean_tables(pooled))
    if pooled.agreement.method == "gram":
        return _fit_from_pairs(pooled)
    return _fit_from_moments(pooled)


def clean_tables(pooled: Pool) -> CleanedTables:
    """Compute label x bin tables from pooled marginals, smoothed against cells that are only noise.

    Raises:
        RequestError: The releases are not marginals.
    """
    if pooled.agreement.method != "marginals":
        raise RequestError("Rows come from marginals or trees.", fix=UseOption("method", "marginals"))
    encoding = pooled.encoding
    cells = pooled.counts.reshape(encoding.classes, encoding.columns)
    deviation = float(pooled.deviations[0])
    # Each feature's table estimates the number of rows of each class; the mean has the least noise.
    found = cells.sum(axis=1) / len(encoding.features)
    classes = np.maximum(found, 1.0)
    # One deviation of the noise is added to every cell, in proportion to the classes, so that a bin of pure noise
    # favours no class. (Replacing such cells by one value for all classes would favour the rarest.)
    added = (deviation + 0.5) * classes / classes.sum()
    cleaned = np.maximum(cells, 0.0) + added[:, None]
    return CleanedTables(cleaned, classes, clamp_rows(float(found.sum()), pooled.most_rows))


def _fit_from_tables(encoding: Encoding, tables: CleanedTables) -> LinearScore:
    """Return the limit of logistic regression for many rows, with features independent given the label."""
    widths, blocks = np.array(encoding.widths), encoding.blocks
    totals = np.zeros((encoding.classes, len(widths)))
    np.add.at(totals.T, blocks, tables.cells.T)
    logs = np.log(tables.cells / totals[:, blocks])
    prior = np.log(tables.classes / tables.classes.sum())
    numbers = np.zeros((len(encoding.numeric), encoding.classes))
    if encoding.is_regression:
        return _fit_expected(encoding, np.exp(logs), prior)
    weights, constant = np.vstack([logs.T, numbers]), prior
    if encoding.classes == 2:
        weights, constant = weights[:, 1:] - weights[:, :1], constant[1:] - constant[:1]
    return LinearScore(weights, constant, "logit")


def _fit_expected(encoding: Encoding, shares: Floats, prior: Floats) -> LinearScore:
    """Fit a number's least squares plane to bucket middles, with features independent given the bucket."""
    middles, p = compute_bucket_middles(encoding), np.exp(prior)
    mean = p @ shares
    cross = (p * middles) @ shares
    second = shares.T @ (p[:, None] * shares)
    same = encoding.blocks[:, None] == encoding.blocks[None, :]
    second = np.where(same, np.diag(mean), second)
    centre = float(p @ middles)
    weights = _solve_ridge(second - np.outer(mean, mean), (cross - centre * mean)[:, None], ridge=1e-3)[:, 0]
    whole = np.concatenate([weights, np.zeros(len(encoding.numeric))])[:, None]
    return LinearScore(whole, np.array([centre - float(mean @ weights)]), "value")


def compute_bucket_middles(encoding: Encoding) -> Floats:
    """Compute the middle of each bucket of a number over its declared range as -1 to 1, shape (buckets,)."""
    edges = np.concatenate([[0], encoding.label_cuts, [encoding.label.steps]])
    return encoding.compute_target((edges[:-1] + edges[1:] - 1) / 2)


def _solve_ridge(second: Floats, cross: Floats, *, ridge: float) -> Floats:
    """Solve S^-1 b for columns b, with negative eigenvalues of S set to 0 and ``ridge`` added."""
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    return np.asarray(vectors @ ((vectors.T @ cross) / (np.maximum(values, 0.0) + ridge)[:, None]))


def _fit_from_pairs(pooled: Pool) -> LinearScore:
    """Fit least squares on +-1 from pair counts; the ridge is as large as the noise's eigenvalues."""
    encoding, layout = pooled.encoding, pooled.layout
    columns, blocks = encoding.columns, encoding.blocks
    pairs, deviations = pooled.get_part(0)
    second = np.zeros((columns, columns))
    second[layout.pairs] = pairs
    second += second.T
    ones, cross, total = _compute_label_sums(pooled)
    # Every record has one bin in each feature, so each block of single counts estimates the number of records.
    sums = np.bincount(blocks, weights=ones)
    rows = max(float(sums.mean()), 1.0)
    ones = ones + ((rows - sums) / np.array(encoding.widths))[blocks]
    second[np.diag_indices(columns)] = ones
    intercept = np.concatenate([ones, [rows]])
    whole = np.vstack([np.hstack([second, ones[:, None]]), intercept[None, :]])
    deviation = float(deviations[0]) if len(deviations) else float(pooled.deviations[0])
    weights = _solve_ridge(
        whole, np.vstack([cross, total[None, :]]), ridge=max(math.sqrt(columns) * deviation, 1e-6 * rows)
    )
    made = np.vstack([weights[:-1], np.zeros((len(encoding.numeric), weights.shape[1]))])
    return LinearScore(made, weights[-1], "value" if encoding.is_regression else "sign")


def _compute_label_sums(pooled: Pool) -> tuple[Floats, Floats, Floats]:
    """Return single counts (columns,), label-weighted ones (columns, outputs) and the label's sums (outputs,)."""
    encoding = pooled.encoding
    if pooled.layout.is_signed:
        ones, cross, total = (pooled.get_part(number)[0] for number in (1, 2, 3))
        return ones, cross[:, None], total
    tables = pooled.get_part(1)[0].reshape(encoding.classes, encoding.columns)
    ones, classes = tables.sum(axis=0), tables.sum(axis=1) / len(encoding.features)
    if encoding.is_regression:
        middles = compute_bucket_middles(encoding)
        return ones, (middles @ tables)[:, None], np.array([middles @ classes])
    return ones, (2 * tables - ones).T, 2 * classes - classes.sum()


def _fit_from_moments(pooled: Pool) -> LinearScore:
    """Fit the linear model of noisy moments, with a nonnegative covariance and a ridge as large as the noise."""
    layout, encoding = pooled.layout, pooled.encoding
    (count, _), (sums, _), (squares, noise), (products, _) = (pooled.get_part(number) for number in range(4))
    d, rows = layout.dimensions, max(float(count[0]), 1.0)
    second = np.zeros((d, d))
    second[np.triu_indices(d, 1)] = products
    second += second.T
    second[np.diag_indices(d)] = squares
    covariance = estimate_covariance_matrix(Moments(rows, sums, second))
    # A class needs only the direction of the weights, a number also their length: then the ridge is as large as the
    # noise's largest eigenvalue, twice its root mean square.
    ridge = (2 if encoding.is_regression else 1) * choose_ridge(d - 1, float(noise[0]), rows)
    weights = solve_slopes(covariance, ridge)
    # Features and label were scaled alike, so slopes do not change; the constant does.
    unit = STEPS / math.sqrt(layout.nonzero)
    constant = float(sums[-1] - sums[:-1] @ weights) / rows / unit
    return LinearScore(
        layout.to_design(weights)[:, None], np.array([constant]), "value" if encoding.is_regression else "sign"
    )
