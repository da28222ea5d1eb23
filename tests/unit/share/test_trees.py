"""Private trees: what a path costs, that rows end where boxes say, and the paper's rules by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.errors import ReleaseError, RequestError
from siloquent.privacy import get_accountant
from siloquent.share import TreeSpec, plan
from siloquent.share.estimate.vote import compute_majority, draw_tree_rows, fill_leaves, rebuild_tree
from siloquent.share.measure.tree import grow_on_rows
from siloquent.share.plan import SharePlan
from siloquent.share.spec.release import ShareRelease
from siloquent.share.task import build_release
from siloquent.share.trees import DecisionTreePlan, grow_tree, join_seed, regrow_tree, split_seed
from unit.share.tables import PURE, USER, ZCDP, random_places, schema, spec

SMALL = TreeSpec(h=5, t=4, p=3)


def planned(
    tree: TreeSpec = SMALL, epsilon: str = "1", seed: int = 7, label: str = "sick", **declared: Any
) -> SharePlan:
    from siloquent.share import Budget

    asked = spec(method="tree", tree=tree, label=label, budget=Budget(epsilon=epsilon))
    return plan(asked, schema(**{"budget": PURE, **declared}), seed=seed)


def tree_of(found: SharePlan) -> DecisionTreePlan:
    assert found.tree is not None
    return found.tree


def best(utilities: np.ndarray, rate: Fraction) -> np.ndarray:
    return utilities.argmax(axis=1)


def no_noise(counts: np.ndarray, scale: Fraction) -> np.ndarray:
    return counts


def exact_release(found: SharePlan, places: np.ndarray) -> ShareRelease:
    return build_release(found, grow_on_rows(found.encoding, tree_of(found), places, select=best, add=no_noise))


def inside(found: SharePlan, count: int, seed: int = 0) -> np.ndarray:
    places = random_places(found.encoding, count, seed)
    return places[found.encoding.find_inside(places)]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("variant", ["ours", "aamas-2019"])
def test_every_path_spends_half_of_epsilon_and_levels_the_other_half(variant: Any, adjacency: str) -> None:
    epsilon = Fraction(1)
    found = planned(TreeSpec(h=8, t=3, p=4, variant=variant), adjacency=adjacency)
    tree = tree_of(found)
    twice = 2 if adjacency == "replace-one" else 1
    for splits in range(8):
        leaf = twice / tree.compute_leaf_scale(splits)
        if variant == "ours":
            assert splits * tree.split + leaf <= epsilon / 2
            assert splits * tree.split + leaf > epsilon / 2 * Fraction(99, 100)
        else:
            assert leaf <= epsilon / 16
    levels = 3 if twice == 1 else 4  # p - 1 levels; or all but the root's, twice
    assert levels / tree.level_scale <= epsilon / 2
    assert get_accountant("pure").compute_price(found.event).amount <= epsilon
    assert get_accountant("pure").compute_price(found.event).amount > epsilon * Fraction(99, 100)


def test_rates_follow_the_utilities() -> None:
    assert tree_of(planned()).rate == tree_of(planned()).split == Fraction(1, 10)
    assert tree_of(planned(adjacency="replace-one")).rate == Fraction(1, 20)
    assert tree_of(planned(TreeSpec(h=5, t=4, p=3, variant="aamas-2019"))).rate == Fraction(1, 20)
    assert tree_of(planned(unit=USER)).rate == Fraction(1, 30)


def test_a_tree_is_priced_in_epsilon_alone() -> None:
    with pytest.raises(RequestError, match="zcdp"):
        planned(budget=ZCDP)


def test_the_skeleton_is_the_seeds_and_rows_decide_nothing_but_cuts() -> None:
    found = planned()
    one, other = (exact_release(found, inside(found, 300, seed=s)) for s in (1, 2))
    a, b = (rebuild_tree(r, found.encoding).skeleton for r in (one, other))
    for left, right in zip(a.levels, b.levels, strict=True):
        assert np.array_equal(left.attribute, right.attribute)
        assert np.array_equal(left.children, right.children)
    assert not np.array_equal(a.list_cuts(), b.list_cuts())
    c = rebuild_tree(exact_release(planned(seed=8), inside(found, 300, seed=1)), found.encoding).skeleton
    assert not np.array_equal(a.levels[1].attribute, c.levels[1].attribute) or a.leaves.nodes != c.leaves.nodes


def test_every_row_lies_in_one_leaf_whose_box_holds_it() -> None:
    found = planned()
    places = inside(found, 500)
    tree = rebuild_tree(exact_release(found, places), found.encoding)
    leaf = tree.skeleton.find_node(places[:, :-1], 4)
    leaves = tree.skeleton.leaves
    assert (leaves.low[leaf] <= places[:, :-1]).all()
    assert (places[:, :-1] <= leaves.high[leaf]).all()


def test_a_grown_tree_keeps_the_boxes_of_its_leaves_alone() -> None:
    """A hundred trees of 60,000 leaves fit into memory: rows find their way by cuts."""
    found = planned()
    skeleton = rebuild_tree(exact_release(found, inside(found, 50)), found.encoding).skeleton
    assert [level.low.size for level in skeleton.levels[:-1]] == [0] * 4
    assert skeleton.leaves.low.shape == (skeleton.leaves.nodes, len(found.encoding.features))


def test_trees_that_are_tied_speak_for_no_class() -> None:
    """Of two trees that disagree, neither wins."""
    found = planned()
    one = rebuild_tree(exact_release(found, inside(found, 50)), found.encoding)
    ones = [replace(one, labels=np.full_like(one.labels, label)) for label in (0, 1)]
    places = inside(found, 400)
    chosen = compute_majority(ones, places[:, :-1], 2, np.random.default_rng(0))
    assert abs(chosen.mean() - 0.5) < 0.15


def test_without_noise_leaves_and_levels_count_the_rows() -> None:
    found = planned()
    places = inside(found, 400)
    made = exact_release(found, places)
    tree = rebuild_tree(made, found.encoding)
    leaf = tree.skeleton.find_node(places[:, :-1], 4)
    counted = np.zeros((tree.skeleton.leaves.nodes, 2), dtype=np.int64)
    np.add.at(counted, (leaf, places[:, -1]), 1)
    assert np.array_equal(made.values["leaves"], counted.ravel())
    assert made.values["levels"][0] == len(places)
    assert tree.rows.sum() == pytest.approx(len(places))
    assert np.array_equal(tree.labels, counted.argmax(axis=1))
    drawn = fill_leaves(tree, None, np.random.default_rng(0))
    assert len(drawn) == len(places)
    assert np.array_equal(np.bincount(tree.skeleton.find_node(drawn, 4), minlength=len(counted)), counted.sum(axis=1))


def test_the_best_of_seven_rows_cuts_by_hand() -> None:
    """Ages 0 1 2 3 sick, 50 60 70 healthy: a cut between 4 and 50 counts 4 + 3, any other less."""
    from siloquent.share.measure.tree import _Rows
    from siloquent.share.trees import _build_level

    features = np.array([[0], [1], [2], [3], [50], [60], [70]])
    rows = _Rows(features, np.array([1, 1, 1, 1, 0, 0, 0]), 2)
    level = _build_level(np.zeros((1, 1), dtype=np.int64), np.array([[99]]), np.zeros(1, dtype=np.int64))
    level.attribute[:] = 0
    found = rows.compute_utilities(np.array([0]), np.array([[2, 4, 50, 51, 80, 1]]), level)
    assert found.tolist() == [[2 + 3, 4 + 3, 4 + 3, 4 + 2, 4 + 0, 1 + 3]]


def test_a_level_never_has_more_nodes_than_allowed() -> None:
    for most in (2, 6, 20):
        tree = TreeSpec(h=7, t=2, p=3, max_nodes=most)
        skeleton = grow_tree(planned().encoding, tree, 3, lambda level, at, candidates: candidates[:, 0])
        assert max(level.nodes for level in skeleton.levels) <= most


def test_a_category_branches_once_on_a_path() -> None:
    skeleton = grow_tree(planned().encoding, TreeSpec(h=6, t=2, p=3), 5, lambda level, at, candidates: candidates[:, 0])
    for depth in range(5):
        above = skeleton.levels[depth]
        for earlier in range(depth):
            parent = skeleton.find_ancestors(earlier, depth)
            same = above.attribute == skeleton.levels[earlier].attribute[parent]
            assert not (same & np.isin(above.attribute, [2, 3])).any()


def test_a_tree_is_read_back_from_its_cuts_and_no_other() -> None:
    found = planned()
    made = exact_release(found, inside(found, 200))
    tree, seed = found.spec.tree, join_seed(made.values["seed"])
    again = regrow_tree(found.encoding, tree, seed, made.values["splits"])
    assert np.array_equal(again.list_cuts(), made.values["splits"])
    for wrong in (made.values["splits"][:-1], made.values["splits"] + 1000, np.append(made.values["splits"], 1)):
        with pytest.raises(ValueError, match="splits"):
            regrow_tree(found.encoding, tree, seed, wrong)
    made.values["splits"] = made.values["splits"][:-1]
    with pytest.raises(ReleaseError, match="truncated or altered"):
        rebuild_tree(made, found.encoding)


def test_seeds_survive_being_taken_apart() -> None:
    for seed in (0, 1, 2**32, 2**256 - 1):
        assert join_seed(split_seed(seed)) == seed


def test_most_trees_decide_and_rows_get_their_label() -> None:
    found = planned()
    places = inside(found, 600)
    places[:, -1] = places[:, 0] > 50
    releases = [exact_release(planned(seed=s), places) for s in range(5)]
    trees = [rebuild_tree(r, found.encoding) for r in releases]
    votes = sum(tree.predict_labels(places[:, :-1]) for tree in trees)
    assert np.array_equal(
        compute_majority(trees, places[:, :-1], 2, np.random.default_rng(0)), (votes > 2.5).astype(int)
    )
    rows = draw_tree_rows(releases, np.random.default_rng(0))
    assert len(rows) == 5 * len(places)
    assert np.mean((rows[:, 0] > 50) == rows[:, -1]) > 0.85


def test_a_number_is_voted_on_in_buckets() -> None:
    found = planned(label="cost")
    places = inside(found, 300)
    rows = draw_tree_rows([exact_release(found, places)], np.random.default_rng(0), 50)
    assert rows.shape == (50, 5)
    assert (rows[:, -1] >= 0).all()
    assert (rows[:, -1] <= 1000).all()
