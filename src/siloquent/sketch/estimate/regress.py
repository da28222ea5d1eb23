"""The paper's linear regression: the model with the least surrogate loss, found by a derivative-free search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix
from siloquent.maths.lsh import Hashes, Surrogate, compute_row_sums, lift_models
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import LinearModel, Regress

Floats = NDArray[np.float64]
ROUNDS, CHILDREN, SHRINK = 80, 48, 0.94


def regress(sketch: Sketch, question: Regress) -> LinearModel:
    """Compute the linear model of one feature by the others.

    Raises:
        RequestError: The sketch was not built with the kernel ``Surrogate``, or has no such feature.
    Source:
        "A One-Pass Distributed and Private Sketch for Kernel Sums" (CCS 2021), section 4: f(t) + f(-t) for
        t ~ [theta, -1], which is smallest where residuals are small. Weights are searched in a ball, so that all models
        are compared at one scale; the paper leaves the search open.
    """
    plan, hashes = sketch.plan, sketch.plan.hashes
    names = [feature.name for feature in plan.features]
    if not isinstance(plan.kernel, Surrogate) or not isinstance(hashes, Hashes):
        raise RequestError(
            "This sketch has no surrogate loss.",
            fix=build_fix(
                "build it with ", UseOption("kernel", {"kind": "surrogate", "bits": 4}, "kernel=Surrogate(4)")
            ),
        )
    if question.target not in names:
        raise RequestError(f"This sketch has no feature {question.target!r}. Known: {', '.join(names)}.")
    at = names.index(question.target)
    steps = np.array([feature.steps for feature in plan.features])
    counters = np.ascontiguousarray(sketch.counters.sum(axis=0, keepdims=True))

    def loss(theta: Floats) -> Floats:
        models = np.insert(theta, at, -1.0, axis=1) / np.sqrt(1 + question.reach**2)
        both = lift_models(np.concatenate([models, -models]), steps)
        return np.asarray(compute_row_sums(hashes, counters, both)[0][0].reshape(2, -1).sum(axis=0))

    random = np.random.default_rng(question.seed)
    best, step = np.zeros((1, len(names))), question.reach / 2
    for _ in range(ROUNDS):
        tried = np.concatenate([best, best + step * random.standard_normal((CHILDREN, len(names)))])
        tried *= np.minimum(1, question.reach / np.maximum(np.linalg.norm(tried, axis=1, keepdims=True), 1e-300))
        best = tried[[int(np.argmin(loss(tried)))]]
        step *= SHRINK
    return _convert_units(sketch, at, best[0])


def _convert_units(sketch: Sketch, at: int, theta: Floats) -> LinearModel:
    """Convert weights from attributes on -1 to 1 to own units: 2 (x - lo) / span - 1, the constant last."""
    features = sketch.plan.features
    lo, span = (np.array(part) for part in zip(*[(f.lo, max(f.steps - 1, 1) * f.grid) for f in features], strict=True))
    others = [i for i in range(len(features)) if i != at]
    weights = theta[:-1] * span[at] / span[others]
    constant = theta[-1] - (theta[:-1] * (2 * lo[others] / span[others] + 1)).sum()
    return LinearModel(
        features=tuple(features[i].name for i in others),
        target=features[at].name,
        weights=weights,
        intercept=float((constant + 1) * span[at] / 2 + lo[at]),
        count=int(sketch.estimate_class_sizes().sum()),
        low=float(lo[at]),
        high=float(lo[at] + span[at]),
    )
