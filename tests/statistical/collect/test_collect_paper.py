"""The paper's mechanisms as rebuilt for comparison: unbiased, each of them; the printed mirrored range is not."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from benchmarks.baselines import decomposition
from benchmarks.collect import paper
from benchmarks.collect.data import syn2, syn2_many
from siloquent.maths.local.hierarchy import build_flat_tree, build_tree

pytestmark = pytest.mark.statistical
FALSE_ALARM, RUNS, USERS, M = 1e-9, 16, 20_000, 25
TREES = (build_tree(M), build_tree(M))


def assert_unbiased(found: list[float], truth: float) -> None:
    limit = student.isf(FALSE_ALARM / 2, len(found) - 1) * np.std(found, ddof=1) / sqrt(len(found))
    assert abs(np.mean(found) - truth) <= limit, f"mean {np.mean(found):.0f}, truth {truth:.0f}, within {limit:.0f}"


def people() -> np.ndarray:
    random = np.random.default_rng(1)
    first = np.clip(np.rint(random.normal(12, 6, USERS)), 0, M - 1)
    return np.column_stack([first, np.clip(np.rint(first + random.normal(0, 3, USERS)), 0, M - 1)]).astype(np.int64)


TABLE = people()
RANGES = {0: (4, 17)}
INSIDE = (TABLE[:, 0] >= 4) & (TABLE[:, 0] <= 17)
COUNT, SUM = float(INSIDE.sum()), float((TABLE[INSIDE, 1] + 1).sum())
BOTH = {0: (4, 17), 1: (3, 20)}
IN_BOTH = float((INSIDE & (TABLE[:, 1] >= 3) & (TABLE[:, 1] <= 20)).sum())


def sum_of_mirrored(seed: int) -> float:
    """Of values from 51 on: the mirrored half holds most of the sum then."""
    return paper.Ahio(TABLE, 6.0, seed, least=51, most=75, trees=TREES, mirror=True).sum(0, RANGES)


GROUPS = np.arange(USERS) % 3


def by_group(seed: int) -> float:
    """Each sensitive group of the second attribute by its weight: a group that is lost or counted twice shows."""
    return float(np.dot(hio(seed).by_group(1, RANGES), np.arange(1.0, M + 1)))


def by_shown_group(seed: int) -> float:
    return float(np.dot(hio(seed).by_shown_group(GROUPS, RANGES), [1.0, 10.0, 100.0]))


def sr_hio(seed: int) -> float:
    return paper.SrHio(TABLE, 6.0, seed, ends=[(1, M), (1, M)], trees=TREES).sum(1, RANGES)


def sum_without_groups(seed: int) -> float:
    """What AMG gives when the factor for the groups is left out."""
    return amg(seed) / 2


def amg(seed: int) -> float:
    return paper.Mg(TABLE, 6.0, seed, TREES, ends=(1, M)).sum(1, RANGES)


def hio(seed: int) -> paper.Hio:
    return paper.Hio(TABLE, 6.0, seed, TREES)


MECHANISMS: dict[str, tuple[Callable[[int], float], float]] = {
    "HIO": (lambda seed: hio(seed).count(BOTH), IN_BOTH),
    "HIO-RDC": (lambda seed: hio(seed).count(BOTH, k=4), IN_BOTH),
    "HIO, sum over values": (lambda seed: hio(seed).sum(1, np.arange(1.0, M + 1).tolist(), RANGES), SUM),
    "AHIO, sum": (lambda seed: paper.Ahio(TABLE, 6.0, seed, most=M, trees=TREES).sum(1, RANGES), SUM),
    "AHIO, count": (lambda seed: paper.Ahio(TABLE, 6.0, seed, most=M, trees=TREES).count_of_group_sum(RANGES), COUNT),
    "SR-HIO": (sr_hio, SUM),
    "HIO-PUB": (lambda seed: hio(seed).sum_of_public(TABLE[:, 1] + 1.0, RANGES), SUM),
    "HIO-GROUP-BY, sensitive": (by_group, SUM),
    "HIO-GROUP-BY, shown": (by_shown_group, float((10.0 ** GROUPS[INSIDE]).sum())),
    "MG": (lambda seed: paper.Mg(TABLE, 6.0, seed, TREES).count(BOTH), IN_BOTH),
    "AMG": (amg, SUM),
    "EHIO": (sum_of_mirrored, float((TABLE[INSIDE, 0] + 51).sum())),
}


@pytest.mark.parametrize(("estimate", "truth"), MECHANISMS.values(), ids=MECHANISMS)
def test_a_rebuilt_mechanism_is_unbiased(estimate: Callable[[int], float], truth: float) -> None:
    assert_unbiased([estimate(seed) for seed in range(RUNS)], truth)


def test_the_printed_mirrored_range_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(low: int, high: int, *, least: int) -> tuple[int, int]:
        return 2 * least - low - 1, 2 * least - high - 1

    assert printed(4, 17, least=1) != decomposition.mirror_range(4, 17, least=1)
    monkeypatch.setattr(paper, "mirror_range", printed)
    with pytest.raises(AssertionError, match="truth"):
        assert_unbiased([sum_of_mirrored(seed) for seed in range(RUNS)], MECHANISMS["EHIO"][1])


def test_a_group_of_users_that_stands_for_itself_alone_is_caught() -> None:
    with pytest.raises(AssertionError, match="truth"):
        assert_unbiased([sum_without_groups(seed) for seed in range(RUNS)], SUM)


def test_joins_of_the_paper_are_unbiased() -> None:
    first, second = syn2(3, USERS)
    truth = float(((first[:, 1] == 1) & (second[:, 0] >= 5) & (second[:, 0] <= 16)).sum())
    trees = (build_tree(25), build_flat_tree(20)), (build_tree(25),)
    joined, columns = [], [(first[:, 1], trees[0][1]), (second[:, 0], trees[1][0])]
    separate, sampled = [], []
    for seed in range(RUNS):
        made = paper.HioJoin(((first, trees[0]), (second, trees[1])), 8.0, seed)
        joined.append(made.count(({1: (1, 1)}, {0: (5, 16)})))
        separate.append(paper.ScJoin(columns, 8.0, 100 * seed).count({0: (1, 1), 1: (5, 16)}))
        one_level = paper.ScJoin(columns, 8.0, 100 * seed, sampled=True)
        sampled.append(one_level.count({0: (1, 1), 1: (5, 16)}))
    for found in (joined, separate, sampled):
        assert_unbiased(found, truth)


@pytest.mark.parametrize("tau", [1, 2, 4])
def test_double_rounding_is_unbiased(tau: int) -> None:
    first, second = syn2_many(4, USERS, most=5)
    owner, a2 = np.repeat(np.arange(USERS), np.diff(second.ends)), second.places[:, 0]
    inside = (first[owner, 1] == 1) & (a2 >= 5) & (a2 <= 16)
    counts, sums = [], []
    for seed in range(RUNS):
        made = paper.DoubleRounding(
            first,
            (build_tree(25), build_flat_tree(20)),
            second.ends,
            second.places,
            25,
            10.0,
            100 * seed,
            most_rows=5,
            tau=tau,
        )
        count, total = made.answer({1: (1, 1)}, {0: (5, 16)})
        counts.append(count)
        sums.append(total)
    assert_unbiased(counts, float(inside.sum()))
    assert_unbiased(sums, float((a2[inside] + 1).sum()))
