"""Products are numbered and counted right; their equations are nearly those of the exact models."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from siloquent.maths.models.glm_curves import CURVES, compute_equations, fit_curve, fit_rows, solve
from siloquent.maths.models.monomial_index import count_orderings, index_tensor, list_products, sum_products

ROWS = np.random.default_rng(0).integers(-5, 6, (40, 3))
BETA = {"logistic": np.array([-0.5, 1.6, -1.1]), "poisson": np.array([1.0, 0.8, -0.6])}


@pytest.mark.parametrize("order", [3, 4])
def test_each_product_is_summed_once(order: int) -> None:
    expected = [int(np.prod(ROWS[:, list(one)], axis=1).sum()) for one in list_products(3, order)]
    assert sum_products(ROWS, order).tolist() == expected


@pytest.mark.parametrize("order", [3, 4])
def test_orderings_count_the_entries_of_the_whole_tensor(order: int) -> None:
    seen = [tuple(sorted(entry)) for entry in itertools.product(range(3), repeat=order)]
    assert count_orderings(3, order).tolist() == [seen.count(tuple(one)) for one in list_products(3, order).tolist()]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_tensor_with_a_one_finds_every_lower_product(order: int) -> None:
    flat = np.concatenate(
        [[len(ROWS)]]
        + [[np.prod(ROWS[:, list(p)], axis=1).sum() for p in list_products(3, d)] for d in range(1, order + 1)]
    )
    whole = np.column_stack([np.ones(len(ROWS)), ROWS])
    letters = "abcd"[:order]
    expected = np.einsum(",".join(f"n{x}" for x in letters) + "->" + letters, *[whole] * order)
    assert np.allclose(flat[index_tensor(3, order)], expected)


def sample(kind: str, rows: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (rows, 2))
    mean = CURVES[kind](BETA[kind][0] + x @ BETA[kind][1:])
    return x, (rng.random(rows) < mean).astype(float) if kind == "logistic" else rng.poisson(mean).astype(float)


@pytest.mark.parametrize("kind", CURVES)
def test_rows_are_fitted_by_likelihood_with_its_errors(kind: str) -> None:
    x, y = sample(kind)
    weights, covariance = fit_rows(x, y, kind)
    assert (np.abs(weights - BETA[kind]) < 6 * np.sqrt(np.diag(covariance))).all()
    mean = CURVES[kind](weights[0] + x @ weights[1:])
    assert np.allclose([(y - mean).mean(), *((y - mean) @ x / len(x))], 0, atol=1e-5)


def test_rows_that_can_be_told_apart_get_finite_weights() -> None:
    x = np.linspace(-1, 1, 100)[:, None]
    weights, _ = fit_rows(x, (x[:, 0] > 0).astype(float), "logistic")
    assert np.isfinite(weights).all()


@pytest.mark.parametrize(("order", "most"), [(3, 0.12), (4, 0.04)])
@pytest.mark.parametrize("kind", CURVES)
def test_a_higher_order_is_nearer_to_the_exact_model(kind: str, order: int, most: float) -> None:
    x, y = sample(kind)
    whole = np.column_stack([np.ones(len(x)), x])
    letters = "abcd"[:order]
    moments = np.einsum(",".join(f"n{a}" for a in letters) + "->" + letters, *[whole] * order) / len(x)
    found = solve(moments, whole.T @ y / len(x), kind)
    assert found.has_settled
    assert np.abs(found.weights - fit_rows(x, y, kind)[0]).max() < most


def test_the_slope_of_the_equations_is_their_derivative() -> None:
    x = sample("logistic", 500)[0]
    whole = np.column_stack([np.ones(len(x)), x])
    moments = np.einsum("na,nb,nc,nd->abcd", whole, whole, whole, whole) / len(x)
    curve, weights = fit_curve(CURVES["logistic"], 3, -0.5, 1.0), np.array([-0.4, 1.0, 0.3])
    value, slope = compute_equations(moments, weights, curve)
    u = (whole @ weights - curve.mean) / curve.spread
    assert np.allclose(value, whole.T @ sum(a * u**i for i, a in enumerate(curve.powers)) / len(x))
    for i in range(3):
        step = np.eye(3)[i] * 1e-6
        assert np.allclose(
            (compute_equations(moments, weights + step, curve)[0] - value) / 1e-6, slope[:, i], atol=1e-5
        )


def test_moments_that_no_model_has_do_not_settle_and_do_not_fail() -> None:
    moments = np.eye(3)
    moments[1, 1] = 1e-9
    found = solve(moments, np.array([0.5, 0.4, 0.0]), "logistic")
    assert not found.has_settled
    assert np.isfinite(found.weights).all()
