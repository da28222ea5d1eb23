"""Collision rates of whole-number hashes against the closed forms, and what no kernel may be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from siloquent.errors import RequestError
from siloquent.maths.lsh import (
    Angular,
    Axes,
    Hamming,
    Jaccard,
    Kernel,
    Laplacian,
    Power,
    Product,
    PStable,
    Surrogate,
    build_surrogate_axes,
    draw_hashes,
    draw_minhashes,
    dump_kernel,
    hash_ids,
    lift_models,
    lift_records,
    parse_kernel,
)
from siloquent.maths.lsh.families import compute_similarity

FALSE_ALARM = 1e-9
ROWS = 2**17
AXES = Axes(np.full(3, 10_001), np.zeros(3), np.full(3, 0.001))
KERNELS: dict[str, Kernel] = {
    "p-stable L2": PStable(2, 1.5),
    "p-stable L1": PStable(1, 1.5),
    "laplacian": Laplacian(2.0),
    "angular": Angular(3),
    "power": Power(PStable(2, 3.0), 2),
    "product": Product((PStable(2, 3.0), Laplacian(4.0))),
}
PLACES = np.array([[5_000, 5_000, 5_000], [5_300, 4_900, 5_200], [6_500, 4_300, 5_600], [9_000, 1_000, 7_000]])


def collisions(kernel: Kernel, seed: int = 3) -> np.ndarray:
    """How often each other point shares the first one's bucket in independent rows."""
    hashes = draw_hashes(kernel, AXES, rows=ROWS, seed=seed, width=2**20, projections="iid")
    buckets = hashes.compute_buckets(PLACES)
    return (buckets[1:] == buckets[:1]).sum(axis=1)


def assert_rates(hits: np.ndarray, kernel: Kernel) -> None:
    points = PLACES * 0.001
    rates = np.clip(compute_similarity(kernel, points[1:], points[:1])[:, 0], 0, 1)
    rates = rates + (1 - rates) * 2.0**-20  # buckets that two codes share
    low, high = binom.ppf(FALSE_ALARM, ROWS, rates), binom.isf(FALSE_ALARM, ROWS, rates)
    assert ((low <= hits) & (hits <= high)).all(), (hits / ROWS, rates)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_two_points_collide_as_often_as_the_kernel_says(kernel: Kernel) -> None:
    assert_rates(collisions(kernel), kernel)


def test_a_wrong_bandwidth_would_be_seen() -> None:
    with pytest.raises(AssertionError):
        assert_rates(collisions(PStable(2, 1.5)), PStable(2, 1.55))


def test_hamming_collides_by_the_share_of_equal_attributes() -> None:
    axes = Axes(np.full(4, 5), np.zeros(4), np.ones(4))
    hashes = draw_hashes(Hamming(2), axes, rows=ROWS, seed=5, width=2**16, projections="iid")
    one, other = hashes.compute_buckets(np.array([[0, 1, 2, 3], [0, 1, 2, 4]]))
    hits = int((one == other).sum())
    assert abs(hits / ROWS - 0.75**2) < 6.5 * math.sqrt(0.25 / ROWS)


@pytest.mark.parametrize(("kernel", "power"), [(Jaccard(), 1), (Power(Jaccard(), 2), 2)])
def test_minhash_collides_by_the_jaccard_similarity(kernel: Kernel, power: int) -> None:
    ids = np.concatenate([np.arange(0, 60), np.arange(20, 80)])  # 40 of 80 elements shared
    hashes = draw_minhashes(kernel, rows=2**15, seed=1, width=2**16)
    one, other = hashes.compute_buckets(hash_ids(ids, key=9), np.array([0, 60, 120]))
    assert abs((one == other).mean() - 0.5**power) < 6.5 * math.sqrt(0.25 / 2**15)


def test_a_record_and_a_model_collide_by_the_angle_of_the_pair_however_long_they_are() -> None:
    steps = np.array([101, 11, 2])
    records = np.array([[100, 3, 1], [0, 10, 0], [50, 5, 1]])
    z = np.column_stack([(2 * records / (steps - 1) - 1) / 2, np.full(3, 0.5)])  # a constant is the fourth
    models = np.array([[0.3, -0.2, 0.5, 0.1], [-0.6, 0.1, 0.0, 0.7]])
    hashes = draw_hashes(Surrogate(2), build_surrogate_axes(steps), rows=ROWS, seed=7, width=None, projections="iid")
    mine, theirs = (hashes.compute_buckets(part) for part in (lift_records(records, steps), lift_models(models, steps)))
    hits = (mine[:, None] == theirs[None]).sum(axis=2)
    rates = compute_similarity(Surrogate(2), z, models)
    low, high = binom.ppf(FALSE_ALARM, ROWS, rates), binom.isf(FALSE_ALARM, ROWS, rates)
    assert ((low <= hits) & (hits <= high)).all()


def test_an_empty_set_has_no_bucket() -> None:
    hashes = draw_minhashes(Jaccard(), rows=70, seed=1, width=16)
    assert (hashes.compute_buckets(np.zeros(0, np.uint32), np.array([0, 0])) == -1).all()


@pytest.mark.parametrize("kernel", [*KERNELS.values(), Hamming(4), Jaccard(), Power(Jaccard(), 3)], ids=repr)
def test_a_kernel_survives_the_way_through_json(kernel: Kernel) -> None:
    assert parse_kernel(dump_kernel(kernel)) == kernel


@pytest.mark.parametrize("distance", [0.0, 1e-9, 0.5, 1.0, 3.0, 1e9])
@pytest.mark.parametrize("kernel", [PStable(1, 2.0), PStable(2, 2.0), Laplacian(2.0)], ids=repr)
def test_probabilities_are_probabilities_at_every_distance(kernel: PStable | Laplacian, distance: float) -> None:
    found = float(kernel.probability(np.array(distance)))
    assert -1e-12 <= found <= 1 + 1e-12
    assert distance > 1e-8 or found == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PStable(2, 0.0),
        lambda: PStable(2, math.nan),
        lambda: PStable(3, 1.0),  # type: ignore[arg-type]
        lambda: Laplacian(-1.0),
        lambda: Angular(0),
        lambda: Hamming(63),
        lambda: Surrogate(1),
        lambda: Power(Surrogate(2), 2),
        lambda: Product((Surrogate(2), PStable(2, 1.0))),
        lambda: Power(Jaccard(), 0),
        lambda: Product((Jaccard(), PStable(2, 1.0))),
        lambda: Product((PStable(2, 1.0),)),
        lambda: Product([PStable(2, 1.0), Laplacian(1.0)]),  # type: ignore[arg-type]
        lambda: Product((PStable(2, 1.0), "laplacian")),  # type: ignore[arg-type]
        lambda: Power("jaccard", 2),  # type: ignore[arg-type]
        lambda: Angular("4"),  # type: ignore[arg-type]
        lambda: Laplacian(None),  # type: ignore[arg-type]
        lambda: Angular(True),
    ],
)
def test_what_is_no_kernel_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match=r"must|has|is a|takes|is one|is not|cannot be a factor") as wrong:
        make()  # type: ignore[operator]
    refused = wrong.value
    assert isinstance(refused, RequestError)
    assert (refused.code, refused.spent) == ("kernel_invalid", "nothing")
    assert refused.detail.endswith(".")
    if "(" in refused.fix:  # a kernel to take instead
        names = {"Laplacian": Laplacian, "Angular": Angular, "Surrogate": Surrogate, "Power": Power, "Jaccard": Jaccard}
        eval(refused.fix.removesuffix(" alone"), {**names, "Product": Product})  # noqa: S307
