"""Ranges as few nodes: the paper's figures, brute force, and the range that it prints the wrong way round."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benchmarks.baselines.decomposition import (
    Signed,
    average_decompositions,
    build_root_weights,
    build_weights,
    cross_weights,
    decompose_canonical,
    find_cheapest,
    iter_layers,
    mirror_range,
)
from siloquent.maths.local.hierarchy import Tree, build_tree

M125 = build_tree(125)


def covers(one: Tree, nodes: Signed) -> np.ndarray:
    """How often each bin is counted."""
    found = np.zeros(one.bins, dtype=int)
    for (level, node), sign in nodes.items():
        width = one.bins // one.count_nodes(level)
        found[node * width : (node + 1) * width] += sign
    return found


def interval(one: Tree, low: int, high: int) -> np.ndarray:
    found = np.zeros(one.bins, dtype=int)
    found[low : high + 1] = 1
    return found


@pytest.mark.parametrize(("low", "high"), list(combinations(range(25), 2)))
def test_every_decomposition_is_its_range_and_the_first_is_the_cheapest_of_all(low: int, high: int) -> None:
    one = build_tree(25)
    found = find_cheapest(one, low, high, k=4)
    assert all((covers(one, nodes) == interval(one, low, high)).all() for nodes in found)
    assert [len(nodes) for nodes in found] == sorted(len(nodes) for nodes in found)
    assert len(found[0]) == fewest(one, low, high)


def fewest(one: Tree, low: int, high: int) -> int:
    """Brute force over which inner nodes are taken whole: the leaves then mend what differs."""
    wanted = interval(one, low, high)
    best = len(wanted)
    for root in (0, 1):
        for taken in range(2 ** one.count_nodes(1)):
            whole = np.array([(taken >> node) & 1 for node in range(one.count_nodes(1))])
            for sign in (1, -1):
                counted = root + np.repeat(sign * whole, one.bins // one.count_nodes(1))
                if np.abs(wanted - counted).max() <= 1:
                    best = min(best, root + int(whole.sum()) + int(np.abs(wanted - counted).sum()))
    return best


def test_the_papers_example_costs_three_in_two_ways() -> None:
    found = find_cheapest(M125, 11 - 1, 25 - 1, k=2)  # the paper counts values from 1
    assert [len(nodes) for nodes in found] == [3, 3]
    assert found[0] != found[1]


@pytest.mark.slow
def test_signs_halve_the_worst_range_of_125_values() -> None:
    plain, signed = [], []
    for low in range(125):
        for high in range(low, 125):
            signed.append(len(find_cheapest(M125, low, high, k=1)[0]))
            plain.append(sum(int(part.sum()) for part in decompose_canonical(M125, low, high)))
    assert (max(plain), max(signed)) == (19, 11)
    lengths = [len(find_cheapest(M125, low, low + 18, k=1)[0]) for low in range(107)]
    usual = [sum(int(part.sum()) for part in decompose_canonical(M125, low, low + 18)) for low in range(107)]
    assert np.mean(usual) == pytest.approx(7.0, abs=0.1)
    assert np.mean(lengths) == pytest.approx(5.5, abs=0.1)


@pytest.mark.parametrize("k", [1, 2, 8])
def test_several_decompositions_together_are_still_the_range(k: int) -> None:
    weights = average_decompositions(M125, find_cheapest(M125, 10, 77, k=k))
    found = sum(np.repeat(part, 125 // part.size) for part in weights)
    assert np.allclose(found, interval(M125, 10, 77))


def test_the_joint_weights_of_a_layer_are_products() -> None:
    one, other = decompose_canonical(M125, 3, 20), build_root_weights(build_tree(25))
    assert cross_weights([one, other], (3, 1)) is None
    found = cross_weights([one, other], (3, 0))
    assert found is not None
    assert found.sum() == one[3].sum()
    assert len(list(iter_layers([M125, M125]))) == 16
    assert build_weights(M125, {(0, 0): 1})[0].sum() == 1


def test_the_mirrored_range_holds_exactly_the_mirrored_values() -> None:
    least = 3
    for low, high in ((3, 3), (3, 9), (5, 8)):
        first, last = mirror_range(low, high, least=least)
        mapped = {2 * least - t - 1 for t in range(low, high + 1)}
        assert mapped == set(range(first, last + 1))


def test_the_range_as_printed_holds_nothing() -> None:
    least, low, high = 3, 5, 8
    printed = range(2 * least - low - 1, 2 * least - high - 1 + 1)
    assert {2 * least - t - 1 for t in range(low, high + 1)} != set(printed)
