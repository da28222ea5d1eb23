"""No unit moves the exact answers about linked tables further than its bound; planted faults do, and are caught."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.trials.linked_batches import find_worst_move_in_batches
from benchmarks.trials.linked_neighbours import (
    LARGEST,
    Patch,
    Tree,
    WorstMove,
    declare_tree,
    find_worst_move,
    measure,
    plant_budget_a_table,
    plant_rank_of_a_key,
    plant_smallest_owner,
)
from siloquent.errors import BudgetExceeded
from unit.linked_shop import UNIT, write_shop


@pytest.mark.slow
@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("joined", [False, True])
def test_one_unit_moves_answers_no_further_than_the_bound(
    tmp_path: Path, place: int, replaced: bool, joined: bool
) -> None:
    worst = find_worst_move(tmp_path, trees=12, most=2, place=place, replaced=replaced, joined=joined)
    bounds = (4 if replaced else 2, 2 * LARGEST, 1)
    assert all(seen <= bound for seen, bound in zip((worst.l1, worst.total, worst.units), bounds, strict=True))
    assert not worst.wrong


def test_many_trees_at_once_move_no_further_than_the_bound(tmp_path: Path) -> None:
    worst = find_worst_move_in_batches(tmp_path, trees=60, most=2, place=2)
    assert (worst.l1, worst.total, worst.units) == (2, 2 * LARGEST, 1)
    assert not worst.wrong


@pytest.mark.parametrize("plant", [plant_smallest_owner, plant_rank_of_a_key])
def test_a_fault_is_seen_among_many_trees_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Patch], None]
) -> None:
    plant(monkeypatch.setattr)
    worst = find_worst_move_in_batches(tmp_path, trees=120, most=2, place=1)
    assert worst.l1 > 2 or worst.units > 1 or worst.wrong


def test_one_unit_moves_answers_about_a_join_by_the_bound(tmp_path: Path) -> None:
    worst = find_worst_move(tmp_path, trees=3, most=2, place=2, joined=True)
    assert (worst.l1, worst.units) == (2, 1)
    assert worst.total <= 2 * LARGEST
    assert not worst.wrong


def test_one_unit_replaced_by_another_moves_answers_twice_as_far(tmp_path: Path) -> None:
    worst = find_worst_move(tmp_path, trees=1, first=32, most=2, place=1, replaced=True)
    assert (worst.l1, worst.total) == (4, 2 * LARGEST)


def test_rows_chosen_before_the_join_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_rank_of_a_key(monkeypatch.setattr)
    worst = find_worst_move(tmp_path, trees=1, first=2, most=2, place=1)
    assert (worst.l1, worst.total) == (3, 3 * LARGEST)


CONTESTED = Tree(
    (
        (("k0", "a", "0"), ("k0", "b", "0"), ("k1", "a", "0"), ("k2", "b", "0")),
        (("", "k1", "4"), ("", "k1", "4"), ("", "k1", "4"), ("", "k0", "1"), ("", "k2", "0"), ("", "k2", "0")),
        (),
    )
)
"""Courses of a (k1), of b (k2) and of both (k0)."""


def measure_without_a(folder: Path) -> int:
    """How far the counts of courses move if a is removed, at the most of several choices of the rows that count."""
    schema = declare_tree(folder, most=2)[1]
    worst = WorstMove()
    for salt in ("aa", "bb", "cc", "dd"):
        worst.see(*(measure(schema, folder, tree, salt=salt) for tree in (CONTESTED, CONTESTED.remove("a"))))
    return worst.l1


def test_an_owner_who_leaves_takes_nothing_from_another_one(tmp_path: Path) -> None:
    assert measure_without_a(tmp_path) == 2


def test_a_key_given_to_its_smallest_owner_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_smallest_owner(monkeypatch.setattr)
    assert measure_without_a(tmp_path) > 2


def test_one_unit_moves_answers_by_the_bound_in_a_few_trees(tmp_path: Path) -> None:
    worst = find_worst_move(tmp_path, trees=6, most=2, place=1)
    assert (worst.l1, worst.total, worst.units) == (2, 2 * LARGEST, 1)
    assert not worst.wrong


def pay_twice(folder: Path) -> None:
    """Ask two tables of one unit for four fifths of its budget each."""
    write_shop(folder)
    (folder / "units" / "customer.toml").write_text(UNIT.replace("100000", "1"))
    with sq.open(folder) as session:
        for table in ("l", "o"):
            session.ask(f"SELECT COUNT(*) FROM {table} BUDGET 0.8 EPSILON")


def test_the_budget_is_one_for_all_tables(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        pay_twice(tmp_path / "w")


def test_a_budget_of_each_table_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_budget_a_table(monkeypatch.setattr)
    pay_twice(tmp_path / "w")
