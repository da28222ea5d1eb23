"""Linear scores over bins and numbers: the form of every model of this task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.share.spec.encoding import Encoding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LinearScore:
    """A linear score over the encoding's design: ``weights`` (columns + numbers, outputs), ``constant`` (outputs,).

    Two classes and numbers have one output; more classes one each. ``link``: "logit" scores are log-odds, "sign" ones
    are about -1 for the first class and 1 for the second, "value" ones are the label itself in -1 to 1.
    """

    weights: Floats
    constant: Floats
    link: Literal["logit", "sign", "value"]

    def compute_scores(self, encoding: Encoding, places: Integers) -> Floats:
        """Compute the scores of rows of indices (rows, features), shape (rows, outputs)."""
        codes, columns = encoding.compute_codes(places), encoding.columns
        found = np.tile(self.constant, (len(places), 1))
        for i in range(codes.shape[1]):
            found += self.weights[codes[:, i]]
        return np.asarray(found + encoding.compute_numbers(places) @ self.weights[columns:])


def decide_classes(scores: Floats) -> Integers:
    """Decide the class of each row: by sign for one output, the highest of several."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)


def convert_label_values(encoding: Encoding, values: Floats) -> Floats:
    """Convert label values to the number's own unit, clamped to its declared range."""
    lo, hi = float(encoding.label.lo), float(encoding.label.hi)  # type: ignore[arg-type]
    return np.asarray(np.clip(lo + (values + 1) / 2 * (hi - lo), lo, hi))
