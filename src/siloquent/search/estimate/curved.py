"""Logistic and Poisson models of unions: from products of up to four numbers, summed over tables with their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.glm_curves import GlmSolution, compute_equations, solve
from siloquent.maths.models.monomial_index import count_orderings, index_tensor, list_products, sum_products_exactly
from siloquent.maths.models.ridge import choose_ridge
from siloquent.search.estimate.models import Scales, convert_units
from siloquent.search.estimate.training import DRAWS, LocalRows
from siloquent.search.offers import Offer
from siloquent.search.plan.planner import compute_deviation
from siloquent.search.results import FittedModel

Floats = NDArray[np.float64]
Z95 = 1.959964


@dataclass(frozen=True, slots=True, eq=False)
class MomentProducts:
    """Sums of products of up to ``order`` numbers in -1 to 1, the target last, by degree; and the noise's variances."""

    numbers: int
    order: int
    sums: Floats
    variances: Floats

    def __add__(self, other: MomentProducts) -> MomentProducts:
        """Return the products of both tables' rows together."""
        return MomentProducts(self.numbers, self.order, self.sums + other.sums, self.variances + other.variances)


def compute_row_products(rows: LocalRows, order: int) -> MomentProducts:
    """Compute the products of own rows exactly."""
    numbers = rows.numbers.shape[1]
    found = [np.array([len(rows.numbers)], dtype=np.float64), rows.numbers.sum(axis=0)]
    found += [sum_products_exactly(rows.numbers, degree) for degree in range(2, order + 1)]
    sums = np.concatenate(found)
    return MomentProducts(numbers, order, sums, np.zeros_like(sums))


def extract_offer_products(offer: Offer, columns: Sequence[int], order: int) -> MomentProducts | None:
    """Extract the products of some columns of an offer, in their order; None where its order is lower."""
    second, whole = offer.compute_second_moments(), len(offer.columns)
    if second is None or len(offer.measured.higher) < order - 2:
        return None
    counts, sums = offer.get_key_sums(0)
    found, variances = [counts.sum(keepdims=True), sums.sum(axis=0)[list(columns)]], []
    by_degree = [second[tuple(list_products(whole, 2).T)]]
    by_degree += [array / offer.steps**degree for degree, array in enumerate(offer.measured.higher, start=3)]
    place = np.asarray(columns, dtype=np.int64)
    law = "gaussian" if offer.noise == "gaussian" else "laplace"
    for degree in range(order + 1):
        variance = (compute_deviation(law, offer.parameters[degree]) / offer.steps**degree) ** 2  # type: ignore[arg-type]
        if degree < 2:
            variances.append(np.full(1 if degree == 0 else len(place), variance))
            continue
        weights = whole ** np.arange(degree - 1, -1, -1, dtype=np.int64)
        wanted = np.sort(place[list_products(len(place), degree)], axis=1)
        at = np.searchsorted(list_products(whole, degree) @ weights, wanted @ weights)
        found.append(by_degree[degree - 2][at])
        times = count_orderings(whole, degree)[at]
        variances.append(variance / (times if degree > 2 or offer.is_halved else np.ones_like(times)))
    return MomentProducts(len(place), order, np.concatenate(found), np.concatenate(variances))


def fit_curved_model(
    total: MomentProducts, kind: str, names: Sequence[str], scales: Scales, r2: float, rng: np.random.Generator
) -> tuple[FittedModel, str]:
    """Fit the model with 95 % intervals for noise, sampling and the curve's error, which is also stated in words.

    Where noise permits no model of the highest order, the next lower one is used.

    Source:
        Saibot, section 6 (generalised linear models by higher orders); docs/decisions/search-curves.md.
    """
    middle, half = (0.5, 0.5) if kind == "logistic" else scales[-1]
    order, ridge = total.order, _compute_ridge(total)
    moments, wanted = _extract_parts(total, total.sums, order, middle, half)
    found = solve(moments, wanted, kind, ridge=ridge)
    while not found.has_settled and order > 3:
        order, moments = order - 1, moments[0]
        found = solve(moments, wanted, kind, ridge=ridge)
    width = _compute_widths(total, found, moments, (order, middle, half), rng) + np.abs(
        ridge * found.inverse @ found.weights
    )
    slopes, width = found.weights[1:], width[1:]
    scales = (*scales[:-1], (0.0, 1.0))  # the prediction is a score, which has no unit
    model = convert_units(names, scales, slopes, slopes - width, slopes + width, float(found.weights[0]), r2, kind)
    return model, _describe_fit(found, kind, order)


def _compute_ridge(total: MomentProducts) -> float:
    """Compute the ridge as for a union: as large as the noise of second moments."""
    one = index_tensor(total.numbers, 2)[1, 1]
    return choose_ridge(total.numbers, float(np.sqrt(total.variances[one])), float(total.sums[0]))


def _extract_parts(
    total: MomentProducts, sums: Floats, order: int, middle: float, half: float
) -> tuple[Floats, Floats]:
    """Return E[x x ...] (p,) * order and E[y x] (p,), with a 1 before x and y in its own unit."""
    p, rows = total.numbers, max(float(total.sums[0]), 1.0)
    pairs = sums[index_tensor(p, 2)]
    own = sums[index_tensor(p, order)][(slice(0, p),) * order]
    return own / rows, (half * pairs[p, :p] + middle * pairs[0, :p]) / rows


def _compute_widths(
    total: MomentProducts,
    found: GlmSolution,
    moments: Floats,
    asked: tuple[int, float, float],
    rng: np.random.Generator,
) -> Floats:
    """Compute half the intervals' widths: noise drawn again from its distribution, sampling, and the curve's error."""
    rows, p = max(float(total.sums[0]), 1.0), total.numbers
    covariance = found.inverse / rows
    moved = []
    for _ in range(DRAWS if total.variances.any() else 0):
        noise = rng.normal(0, 1, len(total.sums)) * np.sqrt(total.variances)
        more, products_ = _extract_parts(total, noise - total.sums / rows * noise[0], *asked)
        moved.append(compute_equations(more, found.weights, found.curve)[0] - products_)
    if moved:
        covariance = covariance + found.inverse @ np.cov(np.stack(moved).T) @ found.inverse
    # The curve's error, in the direction in which it changes a weight most.
    second = moments.reshape(-1, p, p)[0]
    off = found.curve.error * np.sqrt(np.maximum(np.diag(found.inverse @ second @ found.inverse), 0))
    return np.asarray(Z95 * np.sqrt(np.maximum(np.diag(covariance), 0)) + off)


def _describe_fit(found: GlmSolution, kind: str, order: int) -> str:
    curve = {"logistic": "chance", "poisson": "rate"}[kind]
    if not found.has_settled:
        return f"no {kind} model of order {order} holds these products: scores spread too far, or noise is too large"
    return (
        f"the {curve}'s curve is a polynomial of order {order - 1}, off by {found.curve.error:.2g} (root mean square) "
        "where the scores lie"
    )
