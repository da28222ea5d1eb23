"""Local reports of one node out of k, and their estimates for every node: probabilities, second moments.

A report of node v *supports* node j with probability p if j = v and q if not. Phi_j = (support - q) / (p - q) is
unbiased for 1[v = j].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["subset", "hash"]
Floats = NDArray[np.float64]
PRIME = 2**31 - 1
"""The hashes of ``hash`` reports are (a node + b) mod PRIME mod g."""
MAX_BITS = 128
MAX_BUCKETS = 2**20
"""The most buckets: with more, two nodes share a bucket less than once in a million draws."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """A frequency oracle over ``nodes`` nodes.

    Attributes:
        kind: "subset": the report is a set of ``size`` nodes (one node: k-ary randomised response); "hash": a hash
            function onto ``size`` buckets, and one of them.
        truth: The probability that the node's own bit or bucket is reported.
    Source:
        "Local Differential Privacy for Evolving Data" names none of these; subset selection: "Mutual Information
        Optimally Local Private Discrete Distribution Estimation" (2016); optimised local hashing: "Locally
        Differentially Private Protocols for Frequency Estimation" (USENIX Security 2017).
    """

    kind: Kind
    nodes: int
    size: int
    truth: float

    @property
    def p(self) -> float:
        """The probability that a report supports its own node."""
        return self.truth

    @property
    def q(self) -> float:
        """The probability that a report supports another node."""
        if self.kind == "hash":
            return 1 / self.size
        return (self.size - self.truth) / (self.nodes - 1) if self.nodes > 1 else 0.0

    @property
    def variance(self) -> float:
        """v0, the variance of Phi for any other node."""
        return self.q * (1 - self.q) / (self.p - self.q) ** 2

    @property
    def both(self) -> tuple[float, float]:
        """The probabilities that two nodes are supported at once: holder and another, two others."""
        if self.kind == "hash":
            return self.p * self.q, self.q**2
        k, w, p = self.nodes, self.size, self.truth
        if k < 3:
            return p * (w - 1) / max(k - 1, 1), 0.0
        others = p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)
        return p * (w - 1) / (k - 1), others / ((k - 1) * (k - 2))

    @property
    def spread(self) -> float:
        """The noise along any direction in which nodes differ: v0 minus the covariance of two other nodes."""
        return (self.q * (1 - self.q) - self.both[1] + self.q**2) / (self.p - self.q) ** 2

    def apply_second_moments(self, shares: Floats, values: Floats) -> Floats:
        """Return the matrix E[Phi_i Phi_j] times ``values`` (m, ...), where ``shares[i]`` of the users hold node i.

        Two nodes have the same joint moment whichever they are, except for their holders' shares: the matrix, which may
        have 10^12 entries, is a diagonal plus two columns.
        """
        with_holder, without = self.both
        q, gap = self.q, self.p - self.q
        slope, level = with_holder - without - q * gap, without - q * q
        held = shares.reshape(-1, *[1] * (values.ndim - 1))
        total = values.sum(axis=0)
        own = (q + held * gap) * (1 - 2 * q) + q * q - 2 * held * slope - level
        found: Floats = (slope * (held * total + (held * values).sum(axis=0)) + level * total + own * values) / gap**2
        return found


def choose_size(kind: Kind, nodes: int, epsilon: float) -> int:
    """Return the number of nodes (subset) or buckets (hash) with the most accurate estimates."""
    if kind == "hash":
        return max(2, round(min(math.exp(min(epsilon, 64.0)) + 1, MAX_BUCKETS)))
    return min(max(1, round(nodes / (math.exp(epsilon) + 1))), nodes - 1)


def choose_kind(nodes: int) -> Kind:
    """Return sets if they fit into 128 bits, hashes above."""
    return "subset" if nodes <= MAX_BITS else "hash"


def compute_ideal_truth(kind: Kind, nodes: int, size: int, epsilon: float) -> float:
    """Return the largest probability of truth under ``epsilon``, as a float; devices use a whole threshold below it."""
    e = math.exp(epsilon)
    if kind == "hash":
        return e / (e + size - 1)
    return size * e / (size * e + nodes - size)
