"""The exact private choice of the next marginal: the one in which the model is most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.plan.expected_gain import LOSS, compute_expected_gain

if TYPE_CHECKING:
    from siloquent.synth.plan.budget import Selection, VectorNoise

Integers = NDArray[np.int64]
SHORT, PLAIN = 200, 10_000


def compute_utilities(
    exact: Sequence[Integers], expected: Sequence[NDArray[np.float64]], *, deviation: float, loss: float = LOSS
) -> Integers:
    """Return the expected gain of counting each marginal, in rows that the model has in wrong cells.

    Privacy:
        None: exact. Adding or removing a row changes one gap by one, so each number by at most one (a replaced row by
        two): ``expected`` and the noise are functions of earlier releases. Proof: docs/explanation/synth.md.
    """
    found = [
        compute_expected_gain(count - np.rint(model).astype(np.int64), deviation=deviation, loss=loss)
        for count, model in zip(exact, expected, strict=True)
    ]
    return np.array(found, dtype=np.int64)


def choose_candidate(scores: Integers, *, selection: Selection) -> int:
    """Return the index of one candidate; larger scores are more likely.

    Privacy:
        One round of ``selection``: bounded range ``selection.range`` (g^2/8 of rho) by the exponential mechanism, or
        that epsilon by permute-and-flip, where one unit moves each score by at most ``selection.sensitivity``.
        Proof: docs/explanation/selection.md.
    """
    from siloquent.privacy.noise import permute_and_flip, select_exponential

    draw = select_exponential if selection.law == "gaussian" else permute_and_flip
    return draw(scores, rate=selection.rate)


def add_vector_noise(counts: Integers, noise: VectorNoise) -> Integers:
    """Return ``counts`` with independent noise on each.

    Privacy:
        ``noise.event``, where one unit changes ``counts`` by at most ``noise.sensitivity`` (squared L2, or L1).
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    flat = np.ascontiguousarray(counts, dtype=np.int64).ravel()
    # Short vectors are drawn in plain Python, from the same distribution. The compiled samplers are faster only from
    # this size on: loading them takes half a second and 100 MB, as long as 100,000 draws without them.
    parts = np.array_split(flat, -(-flat.size // SHORT)) if 0 < flat.size <= PLAIN else [flat]
    if noise.law == "gaussian":
        drawn = [add_gaussian(part, variance=noise.parameter) for part in parts]
    else:
        drawn = [add_laplace(part, scale=noise.parameter) for part in parts]
    return np.concatenate(drawn).reshape(counts.shape)
