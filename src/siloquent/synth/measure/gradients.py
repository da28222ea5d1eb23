"""Sums of clipped gradients in whole numbers; the norm of each row's whole gradient is verified, not assumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.spec.network import Network

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
MARGIN = 1 - 2**-6
"""The clipping margin below the bound, so that rounding seldom exceeds it, which would exclude the row."""


@dataclass(frozen=True, slots=True)
class Quanta:
    """The quanta of gradients: ``scale`` stands for length ``clip``; factors of products share its root.

    ``left`` = 2^ceil(log2(scale / clip) / 2) counts one factor of each product, scale / (clip left) the other, so that
    every product counts quanta of clip / scale.
    """

    clip: int
    scale: int

    @property
    def per_unit(self) -> float:
        """The number of quanta in a gradient of 1."""
        return self.scale / self.clip

    @property
    def left(self) -> float:
        """The number of steps in 1 of a left factor."""
        return float(2.0 ** math.ceil(math.log2(self.per_unit) / 2))

    @property
    def right(self) -> float:
        """The number of steps in 1 of a right factor."""
        return self.per_unit / self.left


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """The factors of a batch's gradients, each row's in closed form.

    Attributes:
        delta: Softmax minus the true value, shape (rows, target values).
        mixed: c, shape (rows, width).
        back: W' delta, shape (rows, width).
        logits: Gradient of the attention's logits, shape (rows, context).
        alpha: Shape (context,).
        holds: The context values of each row, sparse, shape (rows, context values).
    """

    delta: Floats
    mixed: Floats
    back: Floats
    logits: Floats
    alpha: Floats
    holds: csr_array

    @property
    def squared_norms(self) -> Floats:
        """The squared norms of each row's gradient, (rows,): |delta|^2 (|c|^2 + 1) + sum alpha^2 |g|^2 + |dq|^2."""
        head = (self.delta**2).sum(axis=1) * ((self.mixed**2).sum(axis=1) + 1)
        body = (self.alpha**2).sum() * (self.back**2).sum(axis=1)
        return np.asarray(head + body + (self.logits**2).sum(axis=1))


def compute_gradients(network: Network, rows: NDArray[np.integer]) -> Gradients:
    """Return the parts of every row's gradient of the cross-entropy; rows hold groups, shape (rows, attributes).

    A row's parts are the same to the last digit whatever other rows are in the batch: otherwise adding or removing a
    row could change how others are rounded.
    """
    alpha, holds = network.alpha, _build_incidence(network, rows)
    mixed = np.asarray(holds @ (network.embeddings * np.repeat(alpha, np.diff(network.starts))[:, None]))
    scores = _multiply_exactly(mixed, network.weights.T, reach=float(alpha.sum() * np.abs(network.embeddings).max()))
    scores += network.bias
    scores -= scores.max(axis=1, keepdims=True)
    delta = np.exp(scores)
    delta /= delta.sum(axis=1, keepdims=True)
    delta[np.arange(len(rows)), rows[:, network.target]] -= 1.0
    back = _multiply_exactly(delta, network.weights, reach=1.0)
    met = np.stack(
        [
            np.einsum("nd,nd->n", network.embeddings[start + rows[:, place].astype(np.int64)], back)
            for place, start in zip(network.context, network.starts, strict=False)
        ],
        axis=1,
    )
    # Column by column, in one order for every row; a matrix-vector product's order depends on the number of rows.
    weighed = sum((met[:, i] * a for i, a in enumerate(alpha)), np.zeros(len(rows)))
    logits = alpha * (met - (weighed / math.sqrt(len(alpha)))[:, None])
    return Gradients(delta, mixed, back, logits, alpha, holds)


def _multiply_exactly(left: Floats, right: Floats, *, reach: float) -> Floats:
    """Return ``left @ right`` of both in whole steps, some 2^20 of them up to their ``reach``: every sum is exact.

    The order of BLAS sums depends on the number of rows; exact sums are the same in every order.

    Args:
        reach: An upper bound on every number in ``left``, independent of the rows.
    """
    digits = (52 - left.shape[1].bit_length()) // 2
    return np.asarray(_round_to_steps(left, reach, digits) @ _round_to_steps(right, float(np.abs(right).max()), digits))


def _round_to_steps(values: Floats, reach: float, digits: int) -> Floats:
    finer = digits - math.frexp(reach)[1]
    return np.asarray(np.ldexp(np.rint(np.ldexp(values, finer)), -finer))


def sum_clipped_gradients(network: Network, rows: NDArray[np.integer], quanta: Quanta) -> Integers:
    """Return the sum of the rows' clipped gradients in whole quanta, in the order of ``Network.flatten``.

    Rows are scaled to length ``clip`` at most, then the factors of each product are rounded, then each row's norm is
    recomputed from the whole numbers; a row above ``scale`` is left out. Products are whole and sums below 2^53, so
    double-precision matrix products are exact.

    Privacy:
        None yet. Adding or removing one row moves the vector by at most ``quanta.scale`` in L2, whatever the row and
        the parameters are.
    """
    # Parameters are public, so a diverged model may be recognised as such.
    if not len(rows) or not all(np.isfinite(part).all() for part in (network.alpha, network.flatten())):
        return np.zeros(network.size, dtype=np.int64)
    found = compute_gradients(network, rows)
    factor = np.minimum(1.0, quanta.clip * MARGIN / np.maximum(np.sqrt(found.squared_norms), 1e-300))[:, None]
    delta = np.rint(found.delta * factor * quanta.left)
    back = np.rint(found.back * factor * quanta.left)
    logits = np.rint(found.logits * factor * quanta.per_unit)
    mixed = np.rint(np.hstack([found.mixed, np.ones((len(rows), 1))]) * quanta.right)
    alpha = np.rint(found.alpha * quanta.right)
    norms = (delta**2).sum(axis=1) * (mixed**2).sum(axis=1)
    norms += (back**2).sum(axis=1) * (alpha**2).sum() + (logits**2).sum(axis=1)
    # Not "> scale": NaN must not pass.
    outside = ~(norms <= float(quanta.scale) ** 2)
    for part in (delta, back, logits):
        part[outside] = 0.0
    mixed[outside] = 0.0
    head = delta.T @ mixed
    # Every embedding's gradient is alpha times the sum of g over the rows that hold its value.
    body = np.asarray(found.holds.T @ back) * np.repeat(alpha, np.diff(network.starts))[:, None]
    whole = np.concatenate([body.ravel(), logits.sum(axis=0), head[:, :-1].ravel(), head[:, -1]])
    return whole.astype(np.int64)


def _build_incidence(network: Network, rows: NDArray[np.integer]) -> csr_array:
    from scipy.sparse import csr_array  # imported here: it takes 40 ms, and only training needs it

    count, width = len(rows), len(network.context)
    values = rows[:, list(network.context)].astype(np.int64) + network.starts[:-1]
    ends = np.arange(0, count * width + 1, width)
    return csr_array((np.ones(count * width), values.ravel(), ends), shape=(count, int(network.starts[-1])))
