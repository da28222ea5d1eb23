"""Whole-number codes: the same by every way of computing them, and within their buckets."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.maths.lsh import (
    Angular,
    Axes,
    Hashes,
    Kernel,
    Laplacian,
    Power,
    PStable,
    compute_row_sums,
    count_dense,
    count_sparse,
    draw_hashes,
)


def axes(d: int, steps: int = 1_000) -> Axes:
    return Axes(np.full(d, steps), np.linspace(-3, 2, d), np.full(d, 0.01))


def codes_in_int64(hashes: Hashes, places: np.ndarray) -> np.ndarray:
    """(A . k + B) >> shift in Python's own loops over int64, shape (records, R)."""
    d = places.shape[1]
    A = hashes.A[:, 0, :d].astype(np.int64)
    return ((places @ A.T) + hashes.B[:, 0].astype(np.int64)) >> hashes.shift[:, 0]


@pytest.mark.parametrize("d", [1, 3, 4, 7, 12, 30])
def test_codes_equal_an_int64_reference_on_random_records(d: int) -> None:
    random = np.random.default_rng(d)
    places = random.integers(0, 1_000, (100_000 if d == 3 else 5_000, d))
    hashes = draw_hashes(PStable(2, 0.7), axes(d), rows=16, seed=11, width=None)
    expected = codes_in_int64(hashes, places) - hashes.low
    assert np.array_equal(hashes.compute_buckets(places), expected)
    assert expected.min() >= 0
    assert expected.max() < hashes.width


@pytest.mark.parametrize("d", [2, 20])
@pytest.mark.parametrize("classes", [1, 3])
def test_the_matrix_path_and_the_loop_count_the_same(d: int, classes: int) -> None:
    random = np.random.default_rng(1)
    places, labels = random.integers(0, 1_000, (3_001, d)), random.integers(0, classes, 3_001)
    hashes = draw_hashes(PStable(2, 0.7), axes(d), rows=8, seed=2, width=None)
    counters = count_dense(hashes, places, labels, class_count=classes)
    expected = np.zeros_like(counters)
    for r, column in enumerate(hashes.compute_buckets(places).T):
        np.add.at(expected, (labels, r, column), 1)
    assert np.array_equal(counters, expected)


@pytest.mark.parametrize("kernel", [PStable(2, 0.7), Power(Laplacian(1.0), 2), Angular(5)], ids=repr)
@pytest.mark.parametrize("hits", [1, 2, 7])
def test_a_sparse_record_counts_once_in_so_many_rows(kernel: Kernel, hits: int) -> None:
    width = None if not isinstance(kernel, Power) else 64
    hashes = draw_hashes(kernel, axes(3), rows=16, seed=4, width=width)
    places = np.random.default_rng(0).integers(0, 1_000, (1, 3))
    buckets = hashes.compute_buckets(places)[0]
    for word in range(50):
        words = np.array([word * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)
        counters = count_sparse(hashes, places, np.zeros(1, np.int64), hits=hits, words=words)[0]
        rows = np.flatnonzero(counters.sum(axis=1))
        assert len(rows) == hits
        assert counters.max() == 1
        assert (counters[rows, buckets[rows]] == 1).all()


def test_sums_over_rows_are_those_of_the_cells() -> None:
    random = np.random.default_rng(5)
    hashes = draw_hashes(PStable(2, 0.7), axes(3), rows=32, seed=4, width=256)
    places = random.integers(0, 1_000, (500, 3))
    counters = random.integers(-50, 50, (2, 32, 256))
    sums, squares = compute_row_sums(hashes, counters, places)
    cells = counters[:, np.arange(32), hashes.compute_buckets(places)]
    assert np.array_equal(sums, cells.sum(axis=2))
    assert np.array_equal(squares, (cells**2).sum(axis=2))


def test_sobol_rows_estimate_a_kernel_better_than_independent_ones() -> None:
    places = np.random.default_rng(1).integers(0, 1_000, (400, 3))
    errors = {}
    for how in ("sobol", "iid"):
        found = []
        for seed in range(8):
            hashes = draw_hashes(PStable(2, 2.0), axes(3), rows=256, seed=seed, width=None, projections=how)  # type: ignore[arg-type]
            counters = count_dense(hashes, places, np.zeros(400, np.int64))
            found.append(compute_row_sums(hashes, counters, places[:50])[0][0] / 256)
        errors[how] = np.std(found, axis=0).mean()
    assert errors["sobol"] < 0.8 * errors["iid"]


def test_the_same_seed_gives_the_same_functions_and_another_gives_others() -> None:
    one, same, other = (draw_hashes(PStable(2, 1.0), axes(3), rows=8, seed=s, width=None) for s in (1, 1, 2))
    assert np.array_equal(one.A, same.A)
    assert not np.array_equal(one.A, other.A)


@pytest.mark.parametrize(
    ("rows", "width", "kernel"),
    [(12, None, PStable(2, 1.0)), (8, 100, PStable(2, 1.0)), (8, None, Laplacian(1.0)), (8, None, PStable(1, 1.0))],
)
def test_shapes_that_do_not_fit_are_refused(rows: int, width: int | None, kernel: Kernel) -> None:
    with pytest.raises(ValueError, match=r"power of two|not a range"):
        draw_hashes(kernel, axes(3), rows=rows, seed=1, width=width)


def test_large_domains_keep_whole_numbers_below_two_to_the_53() -> None:
    wide = Axes(np.array([2**40, 2**40]), np.zeros(2), np.array([1e-6, 1e-9]))
    for kernel in (PStable(2, 0.001), PStable(1, 1e5), Laplacian(3.0), Angular(2)):
        hashes = draw_hashes(kernel, wide, rows=64, seed=1, width=256)
        steps = wide.steps if hashes.A.shape[2] > 1 else wide.steps[hashes.column]
        reach = (np.abs(hashes.A[:, :, : len(wide.steps)]) * (steps if steps.ndim == 1 else steps[:, :, None])).sum(2)
        assert (reach + np.abs(hashes.B) < 2**53).all()
