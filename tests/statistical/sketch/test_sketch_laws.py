"""The noise and spread of kernel sums are what the plan says; intervals cover; shares add up to the law they name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from siloquent.maths.lsh import Axes, PStable, compute_row_sums, count_dense, count_sparse, draw_hashes
from siloquent.maths.lsh.families import compute_similarity
from siloquent.privacy.noise import add_laplace
from siloquent.privacy.noise.distributed import add_gaussian_share, add_laplace_share
from siloquent.sketch import Budget, Density, SketchPlan, ask, plan
from siloquent.sketch.measure import add_counter_noise
from siloquent.sketch.sketch import Sketch
from unit.sketch.tables import PURE, ZCDP, rows, schema, spec

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
DRAWS = 40_000


def assert_variance(values: NDArray[np.float64], expected: float) -> None:
    """The sample variance of nearly normal values fits ``expected``."""
    n = len(values)
    found = values.var(ddof=1) / expected * (n - 1)
    low, high = chi2.ppf(FALSE_ALARM / 2, n - 1), chi2.isf(FALSE_ALARM / 2, n - 1)
    assert low < found < high, f"variance {values.var(ddof=1):.4g}, not {expected:.4g}"


def noise_of_sums(made: SketchPlan) -> NDArray[np.float64]:
    """What noise alone adds to a kernel sum, DRAWS times: R counters a time."""
    rows_ = made.hash_plan.hashes.rows
    zeros = np.zeros((DRAWS, rows_), dtype=np.int64)
    return add_counter_noise(made, zeros, made.parameter).mean(axis=1) * rows_ / (made.hits or rows_)


CASES: dict[str, tuple[str, dict[str, object], Callable[[SketchPlan], float]]] = {
    "dense pure": (PURE, {"mode": "dense"}, lambda p: 2 * 16 / (0.2 * 0.99) ** 2),
    "sparse 1": (PURE, {"mode": "sparse", "hits": 1}, lambda p: 2 * 16 / (0.2 * 0.99) ** 2),
    "sparse 4": (PURE, {"mode": "sparse", "hits": 4}, lambda p: 2 * 16 / (0.2 * 0.99) ** 2),
    "dense zcdp": (ZCDP, {}, lambda p: 1 / (2 * 0.99 * float(p.price))),
}


@pytest.mark.parametrize(("account", "given", "expected"), CASES.values(), ids=CASES)
def test_the_noise_of_a_kernel_sum_is_that_of_the_table(
    account: str, given: dict[str, object], expected: Callable[[SketchPlan], float]
) -> None:
    made = plan(spec(rows=16, budget=Budget(epsilon="0.2"), **given), schema(budget=account), seed=1)
    values = noise_of_sums(made)
    assert values.var() == pytest.approx(expected(made), rel=0.05)
    assert_variance(values, made.noise_deviation**2)


def test_a_variance_a_tenth_off_would_be_seen() -> None:
    made = plan(spec(rows=16), schema(), seed=1)
    with pytest.raises(AssertionError, match="variance"):
        assert_variance(noise_of_sums(made), 1.1 * made.noise_deviation**2)


AXES = Axes(np.full(2, 101), np.zeros(2), np.full(2, 0.1))


@pytest.mark.parametrize("hits", [1, 4])
def test_drawing_rows_adds_the_variance_of_a_sample_without_replacement(hits: int) -> None:
    """All records equal: f = N, hashing adds nothing, and the spread is that of the drawn rows alone."""
    hashes = draw_hashes(PStable(2, 1.0), AXES, rows=16, seed=3, width=None)
    places, classes = np.full((400, 2), 50), np.zeros(400, dtype=np.int64)
    random, found = np.random.default_rng(1), []
    for _ in range(2_000):
        words = random.integers(0, 2**64, 400, dtype=np.uint64)
        counters = count_sparse(hashes, places, classes, hits=hits, words=words)
        found.append((counters[0, 0].sum() - 400 * hits / 16) * 16 / hits)
    # One row's estimate (R/s) Bin(N, s/R): the mean over all rows is N exactly, since each record has s hits.
    assert_variance(np.array(found), 400 * (16 / hits) * (1 - hits / 16))


def test_a_corrected_sum_is_unbiased_also_where_cells_are_crowded() -> None:
    data = rows(500)
    scaled = np.stack([data["x"].to_numpy() / 10, data["y"].to_numpy() / 100], axis=1)
    points = np.array([[2.5, 30], [5.0, 48], [9.9, 2]])
    expected = compute_similarity(PStable(2, 0.3), scaled, points / [10, 100]).sum(axis=0)
    places = np.stack([np.rint(data["x"].to_numpy() * 100), data["y"].to_numpy()], axis=1).astype(np.int64)
    errors = []
    for seed in range(60):
        made = plan(spec(rows=64, width=16, projections="iid"), schema(), seed=seed)
        assert made.hash_plan.hashes.width == 16
        counters = count_dense(made.hash_plan.hashes, places, np.zeros(500, np.int64))  # type: ignore[arg-type]
        sketch = as_sketch(made, counters, np.array([500]))
        errors.append(ask(sketch, Density(points)).values - expected)
    mean, deviation = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(mean) < norm.isf(FALSE_ALARM) * deviation * 1.5).all(), (mean, deviation)
    uncorrected = [compute_row_sums(made.hash_plan.hashes, counters, places[:1])[0][0] / 64]  # type: ignore[arg-type]
    assert uncorrected[0] > 0


def as_sketch(made: SketchPlan, counters: NDArray[np.int64], sizes: NDArray[np.int64]) -> Sketch:
    return Sketch(
        plan=made.hash_plan,
        counters=counters,
        sizes=sizes,
        noise=made.noise,
        parameter=made.parameter,
        variance=made.parameter,
        size_variance=Fraction(1),
        hits=made.hits,
        event=made.event,
    )


@pytest.mark.parametrize("projections", ["iid", "sobol"])
@pytest.mark.parametrize("epsilon", ["0.3", "3"])
def test_intervals_cover_at_least_as_often_as_they_say(projections: str, epsilon: str) -> None:
    data = rows(1_000)
    scaled = np.stack([data["x"].to_numpy() / 10, data["y"].to_numpy() / 100], axis=1)
    points = np.random.default_rng(2).uniform([0, 0], [10, 100], (40, 2)).round(1)
    places = np.stack([np.rint(data["x"].to_numpy() * 100), data["y"].to_numpy()], axis=1).astype(np.int64)
    grid = np.stack([points[:, 0], np.floor(points[:, 1] + 0.5)], axis=1)
    expected = compute_similarity(PStable(2, 0.3), scaled, grid / [10, 100]).sum(axis=0)
    covered = []
    for seed in range(60):
        given = {"rows": 64, "projections": projections, "budget": Budget(epsilon=epsilon)}
        made = plan(spec(**given), schema(), seed=seed)
        exact = count_dense(made.hash_plan.hashes, places, np.zeros(1_000, np.int64))  # type: ignore[arg-type]
        held = []
        for _ in range(4):  # so that the noise moves the mean by .0026: a right program's is never below .93
            found = ask(
                as_sketch(made, add_counter_noise(made, exact, made.parameter), np.array([1_000])), Density(points)
            )
            held.append(((found.low <= expected) & (expected <= found.high)).mean())
        covered.append(np.mean(held))
    # Points of one sketch hang together, so a sketch is one draw; its share of covered points varies by .08.
    mean, deviation = float(np.mean(covered)), float(np.std(covered, ddof=1)) / np.sqrt(60)
    assert mean > 0.95 - 6 * deviation - 0.005
    assert mean > 0.93


def pmf(scale: float, most: int) -> NDArray[np.float64]:
    alpha = np.exp(-1 / scale)
    y = np.arange(-most, most + 1)
    inner = (1 - alpha) / (1 + alpha) * alpha ** np.abs(y)
    tail = alpha ** (most + 1) / (1 + alpha)
    return np.concatenate([[tail], inner, [tail]])


def assert_law(values: NDArray[np.int64], scale: float) -> None:
    most = int(scale * 4)
    expected = pmf(scale, most) * len(values)
    counted = np.bincount(np.clip(values, -most - 1, most + 1) + most + 1, minlength=2 * most + 3)
    statistic = ((counted - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(FALSE_ALARM, len(expected) - 1), statistic


@pytest.mark.slow
@pytest.mark.parametrize("honest", [1, 3, 10])
@pytest.mark.parametrize("scale", [Fraction(3), Fraction(25, 2)])
def test_polya_shares_add_up_to_discrete_laplace(honest: int, scale: Fraction) -> None:
    total = np.zeros(60_000, dtype=np.int64)
    for _ in range(honest):
        total = add_laplace_share(total, scale=scale, honest=honest)
    assert_law(total, float(scale))


def test_shares_for_more_parties_than_there_are_would_be_seen() -> None:
    total = np.zeros(60_000, dtype=np.int64)
    for _ in range(9):
        total = add_laplace_share(total, scale=3, honest=10)
    with pytest.raises(AssertionError):
        assert_law(total, 3.0)


def test_gaussian_shares_add_up_to_the_variance() -> None:
    total = np.zeros(DRAWS, dtype=np.int64)
    for _ in range(10):
        total = add_gaussian_share(total, variance=400, honest=10)
    assert_variance(total.astype(float), 400)


def test_ten_silos_have_the_noise_of_one_central_release() -> None:
    """Shared noise: the sum over ten silos of shares, against noise that one party adds."""
    shares = np.zeros(DRAWS, dtype=np.int64)
    for _ in range(10):
        shares = add_laplace_share(shares, scale=8, honest=10)
    central = add_laplace(np.zeros(DRAWS, dtype=np.int64), scale=8)
    alpha = float(np.exp(-1 / 8))
    for values in (shares, central):
        assert values.var() == pytest.approx(2 * alpha / (1 - alpha) ** 2, rel=0.15)
    hits = int((np.abs(shares) > 18).sum())
    rate = float(2 * alpha**19 / (1 + alpha))
    assert binom.ppf(FALSE_ALARM, DRAWS, rate) <= hits <= binom.isf(FALSE_ALARM, DRAWS, rate)


def test_merged_noise_has_the_sum_of_the_parts_variances() -> None:
    made = plan(spec(rows=16), schema(), seed=1)
    zeros = np.zeros(made.hash_plan.shape, dtype=np.int64)
    from siloquent.releases.provenance import Provenance
    from siloquent.sketch import merge

    parts = [
        replace(
            as_sketch(made, add_counter_noise(made, zeros, made.parameter), np.zeros(1, np.int64)),
            parts=(Provenance("t@1", f"led{i}", 1, "h", "", "one row", "add-remove"),),
        )
        for i in range(10)
    ]
    whole = merge(parts)
    assert whole.variance == 10 * made.parameter
    assert np.array_equal(whole.counters, sum(part.counters for part in parts))
