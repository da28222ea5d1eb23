"""The class under which a point is most likely."""

from __future__ import annotations

import numpy as np

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix
from siloquent.sketch.estimate.points import compute_kernel_sums, quantile
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Classify, Verdicts


def classify(sketch: Sketch, question: Classify) -> Verdicts:
    """Classify each point by the question's rule, and decide whether the runner-up is excluded.

    Raises:
        RequestError: The sketch has no label, or the priors are not a distribution over its classes.
    Source:
        Likelihood and MAP rules: "A One-Pass Distributed and Private Sketch for Kernel Sums" (CCS 2021), section 4.
        MAP tends to the most frequent class where the kernel is broad, so the likelihood is the default.
    """
    labels = sketch.plan.labels
    if len(labels) < 2:
        raise RequestError("This sketch has no classes.", fix=build_fix("build it with ", UseOption("label", "...")))
    sums, outside = compute_kernel_sums(sketch, question.points)
    factors = _compute_factors(sketch, question)
    scores, errors = sums.values * factors[:, None], sums.errors * factors[:, None]
    order = np.argsort(-scores, axis=0, kind="stable")
    at = np.arange(scores.shape[1])
    first, second = order[0], order[1]
    gap = scores[first, at] - scores[second, at]
    reach = quantile(sums.rows, question.beta) * np.hypot(errors[first, at], errors[second, at])
    return Verdicts(tuple(labels[i] for i in first), gap > reach, scores.T, outside)


def _compute_factors(sketch: Sketch, question: Classify) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    sizes = sketch.estimate_class_sizes()
    if question.rule == "map":
        return np.ones(len(sizes))
    if question.rule == "likelihood":
        return 1 / sizes
    if question.rule != "prior":
        raise RequestError(f"The rule must be likelihood, prior or map, not {question.rule!r}.")
    priors = np.asarray(question.priors, dtype=float)
    if priors.shape != sizes.shape or not (priors >= 0).all() or abs(priors.sum() - 1) > 1e-9:
        order = ", ".join(str(label) for label in sketch.plan.labels)
        raise RequestError(
            f"priors must be {len(sizes)} numbers that add up to 1, in the order of the classes: {order}.",
            fix=UseOption("priors", _list_even_shares(len(sizes))),
        )
    return np.asarray(priors / sizes)


def _list_even_shares(count: int) -> list[float]:
    """Return shares that add up to 1, as even as two digits allow."""
    share = round(1 / count, 2)
    return [*[share] * (count - 1), round(1 - share * (count - 1), 2)]
