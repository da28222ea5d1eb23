"""Trees along axes: what is computed level by level is what dense matrices would give, and bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.maths.strategies.base import Norm, reconstruct, solve_least_squares
from siloquent.maths.strategies.layered import (
    LayeredStrategy,
    Shapes,
    TreeAxis,
    bound_laplace_tails,
    build_layered,
    find_laplace_level,
)
from siloquent.maths.strategies.prefixes import compute_prefix_shapes
from siloquent.maths.strategies.sparse import Sparse, kronecker
from siloquent.maths.strategies.trees import build_levels, find_best_weights
from siloquent.maths.tails.calibration import compute_laplace_factor
from siloquent.maths.workloads import build_prefix, build_product

BETA = 5e-4


def dense(matrix: Sparse) -> NDArray[np.int64]:
    full = np.zeros((len(matrix), matrix.columns + matrix.beyond), dtype=np.int64)
    for row, (low, high) in enumerate(zip(matrix.starts[:-1], matrix.starts[1:], strict=True)):
        full[row, matrix.places[low:high]] = matrix.entries[low:high]
    return full


def small(norm: Norm, cells: int = 7, branching: int = 3) -> TreeAxis:
    shape = build_levels(cells, branching)
    return TreeAxis(shape, tuple(range(5, 5 + len(shape))), cells, norm)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_an_axis_measures_and_solves_as_its_matrix_does(norm: Norm) -> None:
    axis = small(norm)
    full = dense(axis.build_matrix()).astype(float)
    x = np.random.default_rng(1).normal(size=(7, 3))
    assert np.allclose(axis.measure(x), full @ x)
    assert np.allclose(axis.solve(x.copy()), np.linalg.solve(full.T @ full, x))


def test_a_product_has_a_row_for_every_pair_of_rows() -> None:
    one, two = small("l1").build_matrix(), small("l1", 4, 2).build_matrix()
    assert np.array_equal(dense(kronecker(one, two)), np.kron(dense(one), dense(two)))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("shape", [(24,), (5, 6), (3, 4, 2)])
def test_the_shapes_of_a_reconstruction_are_those_of_the_dense_one(shape: tuple[int, ...], norm: Norm) -> None:
    workload = build_product(*(build_prefix(cells) for cells in shape))
    strategy = build_layered(shape, workload.astype(float), norm=norm)
    matrix = dense(strategy.build_matrix(np.arange(workload.shape[1])))
    back = reconstruct(workload, matrix)
    assert back is not None
    found = strategy.compute_shapes(lambda: iter([workload[:5].astype(float), workload[5:].astype(float)]))
    assert np.allclose(found.squares, (back**2).sum(axis=1))
    assert np.allclose(found.fourths, (back**4).sum(axis=1))
    assert np.allclose(found.largest, np.abs(back).max(axis=1))
    assert np.allclose(found.total, np.abs(back).sum(axis=1))


def test_cells_of_the_grid_that_no_column_has_are_measured_as_empty() -> None:
    strategy = LayeredStrategy("t", (small("l1"), small("l1", 4, 2)))
    place = np.array([20, 3, 11, 0])
    matrix = strategy.build_matrix(place)
    assert matrix.shape == (len(matrix), 4)
    x = np.array([5, -2, 7, 1])
    laid = np.zeros(28, dtype=np.int64)
    laid[place] = x
    assert np.array_equal(
        matrix.apply(x), np.kron(dense(small("l1").build_matrix()), dense(small("l1", 4, 2).build_matrix())) @ laid
    )
    ones = np.abs(dense(matrix)[:, :4]).sum(axis=0)
    squares = (dense(matrix)[:, :4] ** 2).sum(axis=0)
    assert matrix.compute_lengths() == (ones.max(), squares.max(), dense(matrix)[:, :4].max())


def test_least_squares_gives_back_what_the_dense_reconstruction_gives() -> None:
    workload = build_product(build_prefix(9), build_prefix(7))
    strategy = build_layered((9, 7), workload.astype(float), norm="l1")
    matrix = strategy.build_matrix(np.arange(63))
    back = reconstruct(workload, dense(matrix))
    assert back is not None
    noisy = np.random.default_rng(2).integers(-(10**9), 10**9, len(matrix))
    assert np.allclose(workload @ matrix.solve_least_squares(noisy), back @ noisy, rtol=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_trees_of_any_size_give_the_exact_answers_and_variances(norm: Norm) -> None:
    """Sizes, branchings and weights are drawn; the dense reconstruction has the same rows to a billionth."""
    draw = np.random.default_rng(11)
    for _ in range(15):
        cells, branching = int(draw.integers(1, 60)), int(draw.integers(2, 9))
        shape = build_levels(cells, branching)
        axis = TreeAxis(shape, tuple(draw.integers(1, 40_000, len(shape)).tolist()), cells, norm)
        strategy = LayeredStrategy("t", (axis,))
        matrix = strategy.build_matrix(np.arange(cells))
        back = reconstruct(build_prefix(cells), dense(matrix))
        assert back is not None
        found = strategy.compute_shapes(lambda n=cells: iter([build_prefix(n).astype(float)]))  # type: ignore[misc]
        assert np.allclose(found.squares, (back**2).sum(axis=1), rtol=1e-9)
        noisy = draw.integers(-(10**9), 10**9, len(matrix))
        answers, wanted = np.cumsum(matrix.solve_least_squares(noisy)), back @ noisy
        assert np.abs(answers - wanted).max() <= 1e-9 * np.abs(wanted).max()
        solved = solve_least_squares(dense(matrix), noisy)
        assert solved is not None
        assert np.abs(np.cumsum(solved) - wanted).max() <= 1e-9 * np.abs(wanted).max()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_all_cumulative_sums_have_the_shapes_of_their_reconstruction(norm: Norm) -> None:
    draw = np.random.default_rng(12)
    for _ in range(30):
        cells, branching = int(draw.integers(1, 70)), int(draw.integers(2, 9))
        shape = build_levels(cells, branching)
        axis = TreeAxis(shape, tuple(draw.integers(1, 40_000, len(shape)).tolist()), cells, norm)
        exact = LayeredStrategy("t", (axis,)).compute_shapes(lambda n=cells: iter([build_prefix(n).astype(float)]))  # type: ignore[misc]
        found = compute_prefix_shapes(axis)
        for name in ("squares", "fourths", "total"):
            assert np.allclose(getattr(found, name), getattr(exact, name), rtol=1e-9), (cells, branching, name)
        assert np.all(found.largest >= exact.largest)


def test_a_matrix_that_does_not_determine_its_cells_has_no_least_squares() -> None:
    assert solve_least_squares(np.array([[1, 1, 0], [0, 0, 1]]), np.array([5, 6])) is None
    assert solve_least_squares(np.array([[3, 1], [6, 2], [0, 0]]), np.array([5, 6, 7])) is None


def test_measuring_does_not_overflow() -> None:
    matrix = small("l1").build_matrix()
    x = np.full(7, 2**62, dtype=np.int64)
    assert matrix.apply(x).tolist() == (dense(matrix).astype(object) @ x.astype(object)).tolist()


@pytest.mark.parametrize("two_sided", [True, False])
def test_the_level_lies_above_the_union_of_exact_tails_but_not_far(two_sided: bool) -> None:
    workload = build_prefix(300)
    strategy = build_layered((300,), workload.astype(float), norm="l1")
    back = reconstruct(workload, dense(strategy.build_matrix(np.arange(300))))
    assert back is not None
    union = compute_laplace_factor(back, BETA, two_sided=two_sided).value
    level = find_laplace_level(
        strategy.compute_shapes(lambda: iter([workload.astype(float)])), BETA, two_sided=two_sided
    )
    assert union <= level <= 1.06 * union


@pytest.mark.parametrize("row", [[1.0], [1.0, 1.0], [1.0, 0.2, 0.2, 0.2], [0.3] * 40])
def test_a_tail_is_never_above_its_bound(row: list[float]) -> None:
    r = np.array([row])
    shape = Shapes((r**2).sum(axis=1), (r**4).sum(axis=1), r.max(axis=1), r.sum(axis=1))
    draws = np.sort(np.random.default_rng(3).laplace(size=(200_000, len(row))) @ r[0])
    for x in np.quantile(draws, [0.6, 0.9, 0.99, 0.999]):
        seen = 1 - np.searchsorted(draws, x) / len(draws)
        assert seen <= bound_laplace_tails(shape, float(x))[0] * 1.05


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_every_column_is_within_its_norm(norm: Norm) -> None:
    workload = build_product(build_prefix(8), build_prefix(9)).astype(float)
    strategy = build_layered((8, 9), workload, norm=norm, bits=16)
    l1, l2_squared, _ = strategy.build_matrix(np.arange(72)).compute_lengths()
    if norm == "l1":
        assert l1 <= 2**16
    else:
        assert l2_squared <= (2**16 * 1.01) ** 2


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("cells", [5, 9, 20, 50, 200, 751])
def test_weights_are_found_although_the_best_ones_lie_apart_without_end(cells: int, norm: Norm) -> None:
    # Only the sum of all cells is asked for: the more the root has, the better, until rounding leaves no variance.
    branching, weights = find_best_weights(cells, np.ones((1, cells)), norm=norm)
    assert 2 <= branching <= cells
    assert np.all(np.isfinite(weights))
    assert weights[0] > 0.999
