"""Releases for sharing as black boxes: one record in a cell, at a split, at a leaf; and the faults that they invite."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.privacy import convert_zcdp_to_epsilon, get_accountant
from siloquent.privacy.noise import add_laplace
from siloquent.share import Budget, TreeSpec, plan
from siloquent.share.measure.counting import add_count_noise, add_noise_shares, count_exactly
from siloquent.share.measure.tree import add_leaf_noise, grow_on_rows, select_candidates
from siloquent.share.plan import SharePlan
from unit.share.tables import PURE, ROW, USER, ZCDP, schema, spec

pytestmark = pytest.mark.statistical
MANY, FEW, DELTA = 30_000, 2_000, 0.01
Records = NDArray[np.int64]
BASE = np.array([[10, 0, 0, 0], [90, 6, 1, 1], [50, 3, 1, 0]])
ONE, OTHER = np.array([[30, 2, 0, 1]]), np.array([[80, 5, 1, 0]])
PAIRS = {
    ("row", "add-remove"): (BASE, np.vstack([BASE, ONE])),
    ("row", "replace-one"): (np.vstack([BASE, ONE]), np.vstack([BASE, OTHER])),
    ("user", "add-remove"): (BASE, np.vstack([BASE, *[ONE] * 3])),
    ("user", "replace-one"): (np.vstack([BASE, *[ONE] * 3]), np.vstack([BASE, *[OTHER] * 3])),
}
UNITS = {"row": ROW, "user": USER}


def smokers(unit: str, adjacency: str) -> tuple[Records, Records]:
    """The same neighbours, known by their smoking and label alone: few numbers, in which faults show early."""
    one, other = PAIRS[unit, adjacency]
    return np.ascontiguousarray(one[:, 2:]), np.ascontiguousarray(other[:, 2:])


FEATURES = ("age", "dose", "smoker")


def planned(
    method: str, account: str = PURE, unit: str = "row", adjacency: str = "add-remove", **given: Any
) -> SharePlan:
    budget = Budget(epsilon="1") if account == PURE else Budget(epsilon="1", delta="0.01")
    asked = spec(**{"method": method, "features": FEATURES, "budget": budget, **given})
    return plan(asked, schema(budget=account, unit=UNITS[unit], adjacency=adjacency), seed=3)


def claim(found: SharePlan) -> dict[str, float]:
    name = found.schema.budget.accountant
    price = float(get_accountant(name).compute_price(found.event).amount)
    return {"epsilon": price} if name == "pure" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}


def counted(
    found: SharePlan, records: Records, n: int, noise: Callable[..., Any] = add_count_noise
) -> NDArray[np.int64]:
    """Releases side by side: every number of a run gets noise of its own."""
    assert found.layout is not None
    exact = count_exactly(found.layout, records)
    outputs, start = np.empty((n, exact.size), dtype=np.int64), 0
    for run in found.runs:
        from dataclasses import replace

        many = replace(found, runs=(replace(run, length=run.length * n),))
        part = np.tile(exact[start : start + run.length], n)
        outputs[:, start : start + run.length] = noise(many, part).reshape(n, -1)
        start += run.length
    return outputs


def release(found: SharePlan, **given: Any) -> Callable[[Records, int], NDArray[np.int64]]:
    return lambda records, n: counted(found, records, n, **given)


@pytest.mark.parametrize(("unit", "adjacency"), PAIRS)
@pytest.mark.parametrize("account", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("method", ["marginals", "gram", "moments"])
def test_counts_keep_their_claim(method: str, account: str, unit: str, adjacency: str) -> None:
    found = planned(method, account, unit, adjacency)
    assert_private(release(found), PAIRS[unit, adjacency], n=FEW, **claim(found))


TREE = TreeSpec(h=3, t=3, p=2)


def trees(
    found: SharePlan,
    *,
    select: Callable[..., Any] = select_candidates,
    add: Callable[..., Any] = add_leaf_noise,
    prepare: Any = None,
) -> Callable[[Records, int], NDArray[np.int64]]:
    """Cuts, leaves and levels of whole trees; trees of other shapes are padded with -1."""
    assert found.tree is not None
    tree = found.tree

    def run(records: Records, n: int) -> NDArray[np.int64]:
        outputs = []
        for _ in range(n):
            made = grow_on_rows(found.encoding, tree, records, select=select, add=add)
            outputs.append(np.concatenate([made["splits"], made["leaves"], made["levels"]]))
        return np.stack(outputs)

    return run


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("variant", ["ours", "aamas-2019"])
def test_a_tree_keeps_its_claim(variant: Any, adjacency: str) -> None:
    found = planned("tree", adjacency=adjacency, tree=TreeSpec(h=3, t=3, p=2, variant=variant))
    assert_private(trees(found), PAIRS["row", adjacency], n=300, **claim(found))


def test_a_choice_of_cuts_keeps_its_claim() -> None:
    """One split, where a record at the split decides which candidate is best; many draws."""
    from siloquent.privacy.noise.selection import draw_selections

    rate, one, other = Fraction(1), np.array([4, 4, 4]), np.array([5, 4, 5])
    assert_private(
        lambda u, n: draw_selections(u, rate=rate, rule="exponential", times=n)[:, None],
        (one, other),
        n=MANY,
        epsilon=1.0,
    )


# Planted faults.


@pytest.mark.slow
def test_the_intercept_row_released_again_for_nothing_is_caught() -> None:
    """Each bin's count once more, with the noise that was priced without them."""
    found = planned("gram", features=("smoker",))

    def run(records: Records, n: int) -> NDArray[np.int64]:
        exact = found.layout.count(records)  # type: ignore[union-attr]
        again = np.concatenate([exact, exact[:2], exact[:2]])
        return add_laplace(np.tile(again, (n, 1)), scale=found.runs[0].parameter)

    pair = smokers("row", "add-remove")
    assert_private(release(found), pair, n=MANY, **claim(found))
    assert_caught(run, pair, n=8 * MANY, **claim(found))


def test_the_price_of_a_row_charged_for_a_user_is_caught() -> None:
    found = planned("marginals")
    assert_caught(release(found), PAIRS["user", "add-remove"], n=MANY, **claim(found))


def test_noise_for_added_rows_under_replacement_is_caught() -> None:
    found = planned("marginals", features=("smoker",))
    assert_caught(release(found), smokers("row", "replace-one"), n=2 * MANY, **claim(found))


@pytest.mark.slow
def test_l2_instead_of_l1_is_caught() -> None:
    from dataclasses import replace

    found = planned("marginals")
    root = Fraction(round(3**0.5 * 1024), 1024)
    wrong = replace(found, runs=tuple(replace(run, parameter=root) for run in found.runs))
    assert_caught(release(wrong), PAIRS["row", "add-remove"], n=4 * MANY, **claim(found))


def test_a_share_of_the_noise_released_alone_is_caught() -> None:
    found = planned("marginals", trust="sum", agents=6, honest=5)
    assert_caught(release(found, noise=add_noise_shares), PAIRS["row", "add-remove"], n=4_000, **claim(found))


def test_full_noise_counted_as_one_of_five_shares_is_caught() -> None:
    """One silo's own noise, charged as if four others had added theirs."""
    found = planned("marginals", features=("smoker",))
    fifth = {name: value / 5 for name, value in claim(found).items()}
    assert_private(release(found), smokers("row", "add-remove"), n=FEW, **claim(found))
    assert_caught(release(found), smokers("row", "add-remove"), n=2 * MANY, **fifth)


def test_a_silo_that_is_in_a_sum_under_two_names_is_caught() -> None:
    """Its rows move the sum twice as far as its one charge says."""
    found = planned("marginals", features=("smoker",))
    twice = tuple(np.vstack([records, records]) for records in smokers("row", "add-remove"))
    assert_caught(release(found), twice, n=2 * MANY, **claim(found))  # type: ignore[arg-type]


def branch(found: SharePlan, records: Records, n: int, less: int) -> NDArray[np.int64]:
    """A tree of one category, n times: its shape is fixed, so counts get their noise side by side."""
    assert found.tree is not None
    exact = grow_on_rows(
        found.encoding, found.tree, records, select=select_candidates, add=lambda counts, scale: counts
    )
    leaves = add_laplace(np.tile(exact["leaves"], (n, 1)), scale=found.tree.compute_leaf_scale(0) / less)
    return np.hstack([leaves, add_laplace(np.tile(exact["levels"], (n, 1)), scale=found.tree.level_scale / less)])


def test_the_whole_budget_in_every_query_of_a_tree_is_caught() -> None:
    """Leaves and levels with noise for epsilon each, charged as one."""
    found = planned("tree", tree=TreeSpec(h=2, t=1, p=2), features=("smoker",))
    pair = smokers("row", "add-remove")
    assert_caught(lambda records, n: branch(found, records, n, 2), pair, n=2 * MANY, **claim(found))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_leaves_and_levels_keep_their_claim(adjacency: str) -> None:
    found = planned("tree", tree=TreeSpec(h=2, t=1, p=2), adjacency=adjacency, features=("smoker",))
    pair = smokers("row", adjacency)
    assert_private(lambda records, n: branch(found, records, n, 1), pair, n=MANY, **claim(found))  # type: ignore[arg-type]


def test_noise_of_sensitivity_1_under_replacement_is_caught() -> None:
    """Sensitivity 1 is add-remove only: under replacement a record leaves one leaf and enters another."""
    found = planned("tree", tree=TreeSpec(h=2, t=1, p=2), adjacency="replace-one", features=("smoker",))
    one, other = np.array([[0, 0], [1, 1]]), np.array([[0, 0], [0, 0]])
    assert_private(lambda records, n: branch(found, records, n, 1), (one, other), n=MANY, **claim(found))
    assert_caught(lambda records, n: branch(found, records, n, 4), (one, other), n=2 * MANY, **claim(found))


def test_candidates_from_the_values_that_are_there_are_caught() -> None:
    """The paper draws candidates from "active" values: an age that nobody else has is then published as it is."""
    found = planned("tree", tree=TREE)
    assert found.tree is not None
    tree = found.tree

    def run(records: Records, n: int) -> NDArray[np.int64]:
        random, outputs = np.random.default_rng(len(records)), []
        for _ in range(n):
            active = random.choice(np.unique(records[:, 0]), size=(1, tree.spec.t))
            rows = np.array([[(records[:, 0] < v).sum(), (records[:, 0] >= v).sum()] for v in active[0]])
            chosen = select_candidates(rows.max(axis=1)[None, :].astype(np.int64), tree.rate)
            outputs.append(active[0, chosen])
        return np.stack(outputs)

    assert_caught(run, PAIRS["row", "add-remove"], n=2_000, **claim(found))
