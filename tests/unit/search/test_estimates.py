"""Joins of other kinds, parents, and a greedy search over several keys."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines.search_tables import planned, released
from siloquent.search import compute_pooled_slopes
from siloquent.search.domains import JoinKey, KeyPart
from siloquent.search.estimate.greedy import select_greedily
from siloquent.search.estimate.joins import CandidatePool, JoinCandidate, compute_offer_means, pool_candidates
from siloquent.search.estimate.training import LocalRows, ReleasedSums

N = 40_000


def test_a_many_to_many_join_finds_the_slopes_of_a_key_that_tells_nothing() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 0.25, (N, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    y = x @ [0.6, -0.8] + rng.normal(0, 0.05, N)
    key = rng.permutation(np.arange(N) % 10)
    own, other = (planned(names, epsilon="50", keys=10, second_moments="total") for names in (("x1", "y"), ("x2",)))
    found = compute_pooled_slopes(released(own, np.column_stack([x[:, 0], y]), key), released(other, x[:, [1]], key))
    # Chance alone moves products across by some 1 / sqrt(keys): signs are right, sizes roughly.
    assert found[0] < 0 < found[1]
    alone = np.cov(x[:, 0], y)
    assert abs(found[1] - 0.6) < abs(alone[0, 1] / alone[0, 0] - 0.6) + 0.2


def test_a_school_with_few_rows_is_drawn_in_to_its_district() -> None:
    rng = np.random.default_rng(2)
    labels = tuple(f"{d}{s}" for d in "ab" for s in "0123456789")
    truth = np.repeat([-0.5, 0.5], 10)
    key = rng.integers(0, 20, 400)
    offer = released(planned(("f",), epsilon="1", keys=20), truth[key][:, None], key)
    errors = []
    for parent in (None, 1):
        named = JoinKey((KeyPart("school", "category", 20, values=labels),), parent)
        from dataclasses import replace

        found = compute_offer_means(replace(offer, keys=(named,)), 0).values[:, 0]
        errors.append(float(((found - truth) ** 2).mean()))
    assert errors[1] < errors[0]


def two_keys() -> tuple[LocalRows, list[CandidatePool]]:
    """Rows whose target follows one feature of each of two keys."""
    rng = np.random.default_rng(3)
    cells = rng.integers(0, 12, 5_000), rng.integers(0, 15, 5_000)
    z = rng.normal(0, 0.3, 12), rng.normal(0, 0.3, 15)
    y = z[0][cells[0]] + 0.7 * z[1][cells[1]] + rng.normal(0, 0.1, 5_000)
    offer = released(planned(("f",), epsilon="1", keys=12), np.zeros((10, 1)), np.zeros(10, dtype=np.int64))
    pools = [
        CandidatePool(
            tuple(JoinCandidate(offer, i, own, i) for i in range(3)),
            np.stack([z[own], *others]),
            np.zeros((3, len(z[own]))),
            np.zeros(3),
        )
        for own, others in enumerate((rng.normal(0, 0.3, (2, 12)), rng.normal(0, 0.3, (2, 15))))
    ]
    return LocalRows(y[:, None], cells, (12, 15)), pools


def test_greedy_takes_one_feature_of_each_key_and_then_stops() -> None:
    training, pools = two_keys()
    rounds, after = select_greedily(training, pools, most=5, least_gain=0.01, rng=np.random.default_rng(0))
    taken = [found.taken.candidate for found in rounds if found.taken]
    assert [(one.own, one.column) for one in taken] == [(0, 0), (1, 0)]
    assert rounds[-1].taken is None
    assert isinstance(after, LocalRows)
    assert after.numbers.shape == (5_000, 3)
    assert after.compute_r2(*after.fit_slopes()) > 0.85


def test_a_release_takes_features_of_one_key_alone() -> None:
    training, pools = two_keys()
    parts = [training.compute_key_moments(key) for key in (0, 1)]
    second = training.numbers.T @ training.numbers
    release = ReleasedSums(
        (parts[0].counts, parts[1].counts), (parts[0].sums, parts[1].sums), second, (1.0, 0.5, 0.5), True
    )
    rounds, _ = select_greedily(release, pools, most=5, least_gain=0.01, rng=np.random.default_rng(0))
    taken = [found.taken.candidate.own for found in rounds if found.taken]
    assert taken == [0]


def test_only_keys_that_share_half_of_their_values_are_joined() -> None:
    offer = released(planned(("f",), epsilon="1", keys=10), np.zeros((10, 1)), np.zeros(10, dtype=np.int64))
    like = JoinKey((KeyPart("k", "integer", 15, "0", "1"),))
    unlike = JoinKey((KeyPart("k", "integer", 30, "0", "1"),))
    found = pool_candidates([offer], [like, unlike], without=frozenset())
    assert [len(pool.candidates) for pool in found] == [1, 0]
    assert found[0].values.shape == (1, 15)
    assert found[0].values[0, 10:] == pytest.approx(found[0].values[0, 10])
