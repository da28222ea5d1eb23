"""Earlier measurements put together: unbiased, of the least deviation, and topped up by as little as keeps a bound."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.maths.gls import (
    bound_gaussian_miss,
    build_supplement_family,
    find_least_strength,
    solve_weights,
)
from siloquent.maths.workloads import build_histogram, build_prefix

W = build_prefix(12).astype(float)


def measured(rows: int, cells: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (rows, cells)) / 7.0


def test_answers_are_put_together_without_bias_and_as_shortly_as_possible() -> None:
    rows = np.vstack([build_histogram(12) / 3.0, measured(9, 12)])
    found = solve_weights(rows, W)
    assert found is not None
    assert np.abs(found @ rows - W).max() <= 1e-12
    assert np.allclose(found, W @ np.linalg.pinv(rows), atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_determined_is_found_also_where_cells_are_not(seed: int) -> None:
    rows = measured(5, 12, seed) * 10.0 ** np.random.default_rng(seed).uniform(-2, 2, (5, 1))
    inside = np.random.default_rng(seed).integers(-3, 4, (4, 5)) @ (rows > 0).astype(float)
    found = solve_weights(rows, inside)
    assert found is not None
    assert np.abs(found @ rows - inside).max() <= 1e-9 * max(1.0, np.abs(inside).max())


def test_what_is_not_determined_is_not_estimated() -> None:
    assert solve_weights(build_histogram(12)[:11].astype(float), W) is None
    assert solve_weights(np.zeros((0, 12)), W) is None
    assert build_supplement_family(np.zeros((0, 12)), measured(3, 12), W, most=1.0) is None


@pytest.mark.parametrize("strength", [1e-3, 0.2, 1.0])
def test_one_decomposition_gives_the_deviations_of_every_strength(strength: float) -> None:
    known, asked = measured(9, 12), build_histogram(12).astype(float)
    family = build_supplement_family(known, asked, W, most=1.0)
    assert family is not None
    both = solve_weights(np.vstack([known, strength * asked]), W)
    assert both is not None
    assert np.allclose(family.compute_deviations(strength), np.sqrt((both**2).sum(axis=1)), rtol=1e-7)


def test_without_anything_new_only_determined_answers_have_a_deviation() -> None:
    family = build_supplement_family(W[:1] / 2.0, build_histogram(12).astype(float), W, most=1.0)
    assert family is not None
    found = family.compute_deviations(0.0)
    assert found[0] == pytest.approx(2.0)
    assert np.all(np.isinf(found[1:]))


def test_the_least_strength_keeps_the_bound_and_less_does_not() -> None:
    family = build_supplement_family(measured(9, 12), build_histogram(12).astype(float), W, most=5.0)
    assert family is not None
    room = np.full(12, 3.0)

    def keeps(deviations: np.ndarray) -> bool:
        return bound_gaussian_miss(deviations, room, two_sided=True) <= 0.01

    least = find_least_strength(family, keeps)
    assert least is not None
    assert 0 < least < 5
    assert keeps(family.compute_deviations(least))
    assert not keeps(family.compute_deviations(least * (1 - 1e-9)))
    assert find_least_strength(family, lambda deviations: True) == 0.0
    assert find_least_strength(family, lambda deviations: False) is None


def test_misses_add_up_one_sided_and_multiply_two_sided() -> None:
    tail = 0.0227501319  # Q(2)
    two = np.array([1.0, 3.0])
    assert bound_gaussian_miss(two, 2 * two, two_sided=False) == pytest.approx(2 * tail, rel=1e-8)
    assert bound_gaussian_miss(two, 2 * two, two_sided=True) == pytest.approx(1 - (1 - 2 * tail) ** 2, rel=1e-8)
    assert bound_gaussian_miss(np.array([0.0]), np.array([0.5]), two_sided=True) == 0
    assert bound_gaussian_miss(np.array([0.0]), np.array([-0.5]), two_sided=True) == 1
    assert bound_gaussian_miss(np.array([np.inf]), np.array([1e9]), two_sided=True) == 1
