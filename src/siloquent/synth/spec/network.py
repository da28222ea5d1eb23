"""One conditional model of the chain: embeddings of drawn values, attention over them, a softmax over the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """P[target | context] = softmax(W c + b); c = sum over context attributes of alpha_a times their value's embedding.

    Attributes:
        context: Indices of the context attributes; ``target``: that of the next.
        starts: The start of the embeddings of each context attribute, with one more entry than there are.
        embeddings: Shape (context values, width): those of all context attributes, stacked.
        logits: Of the attention, shape (context,): alpha = sqrt(context) softmax(logits).
        weights, bias: Shape (target values, width) and (target values,).
    """

    context: tuple[int, ...]
    target: int
    starts: Integers
    embeddings: Floats
    logits: Floats
    weights: Floats
    bias: Floats

    @property
    def alpha(self) -> Floats:
        """The attention's weights, shape (context,)."""
        shifted = np.exp(self.logits - self.logits.max())
        return np.asarray(np.sqrt(len(shifted)) * shifted / shifted.sum())

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.embeddings.size + self.logits.size + self.weights.size + self.bias.size

    def flatten(self) -> Floats:
        """Return all parameters as one vector: embeddings, logits, weights, bias."""
        return np.concatenate([self.embeddings.ravel(), self.logits, self.weights.ravel(), self.bias])

    def replace_parameters(self, line: Floats) -> Network:
        """Return the same model with other parameters, in the order of ``flatten``."""
        ends = np.cumsum([self.embeddings.size, self.logits.size, self.weights.size])
        embeddings, logits, weights, bias = np.split(line, ends)
        return Network(
            self.context,
            self.target,
            self.starts,
            embeddings.reshape(self.embeddings.shape),
            logits,
            weights.reshape(self.weights.shape),
            bias,
        )

    def mix_context(self, rows: NDArray[np.integer]) -> Floats:
        """Return c of every row, shape (rows, width); rows hold groups, shape (rows, attributes)."""
        found = np.zeros((len(rows), self.embeddings.shape[1]))
        for alpha, place, start in zip(self.alpha, self.context, self.starts, strict=False):
            found += alpha * self.embeddings[start + rows[:, place].astype(np.int64)]
        return found

    def compute_probabilities(self, rows: NDArray[np.integer]) -> Floats:
        """Return the distribution of the target in every row, shape (rows, target values)."""
        scores = self.mix_context(rows) @ self.weights.T + self.bias
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def draw_first_embeddings(sizes: tuple[int, ...], width: int, *, seed: int) -> Floats:
    """Draw initial embeddings of all values of all attributes, shape (sum of sizes, width): N(0, 1.44 / width)."""
    return np.random.default_rng(seed).normal(0.0, 1.2 / np.sqrt(width), (sum(sizes), width))


def build_blank_network(context: tuple[int, ...], target: int, sizes: tuple[int, ...], embeddings: Floats) -> Network:
    """Return an untrained model on given embeddings of all attributes' values."""
    ends = np.cumsum((0, *sizes))
    rows = np.concatenate([embeddings[ends[place] : ends[place + 1]] for place in context])
    starts = np.cumsum((0, *(sizes[place] for place in context)))
    width = embeddings.shape[1]
    return Network(
        context, target, starts, rows, np.zeros(len(context)), np.zeros((sizes[target], width)), np.zeros(sizes[target])
    )
