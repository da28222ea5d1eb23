"""No unit moves counts of rows with related ones further than its bound; a planted fault does, and is caught."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.trials.linked_neighbours import Tree, declare_tree
from benchmarks.trials.related_neighbours import KEYS, find_worst_move, look_up, measure, plant_keys_of_anybody

PLACES = [(0, 1, False), (1, 0, False), (2, 0, False), (2, 2, False), *((*pair, True) for pair in KEYS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "replaced"), [*((one, False) for one in PLACES), (PLACES[1], True), (PLACES[-1], True)]
)
def test_one_unit_moves_counts_no_further_than_the_bound(
    tmp_path: Path, places: tuple[int, int, bool], replaced: bool
) -> None:
    place, other, keyed = places
    worst = find_worst_move(tmp_path, trees=4, place=place, other=other, keyed=keyed, replaced=replaced)
    assert worst.l1 <= (4 if replaced else 2)
    assert worst.units <= 1
    assert not worst.wrong


@pytest.mark.slow
@pytest.mark.parametrize("places", PLACES)
def test_one_unit_moves_counts_of_compared_rows_no_further(tmp_path: Path, places: tuple[int, int, bool]) -> None:
    place, other, keyed = places
    worst = find_worst_move(tmp_path, trees=4, place=place, other=other, keyed=keyed, compares=True)
    assert worst.l1 <= 2
    assert worst.units <= 1
    assert not worst.wrong


@pytest.mark.parametrize("planted", [False, True])
def test_keys_of_anybody_would_be_seen_where_rows_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """Of one order that two persons claim, only one of them has a row with another number than the lines."""
    if planted:
        plant_keys_of_anybody(monkeypatch.setattr)
    declared = declare_tree(tmp_path, most=2)
    schema = look_up(declared[1], declared[0], ("above", "own"), compares=True)
    lines = [("a", "k1", "0"), ("b", "k1", "0")]
    both = measure(schema, tmp_path, Tree(([("k1", "u", "0"), ("k1", "v", "1")], lines, [])))
    one = measure(schema, tmp_path, Tree(([("k1", "u", "0")], lines, [])))
    moved = abs(both[1:3] - one[1:3]).sum()
    assert moved == (6 if planted else 2)


def test_one_unit_moves_counts_by_the_bound_in_a_few_trees(tmp_path: Path) -> None:
    worst = find_worst_move(tmp_path, trees=3, place=1, other=0, keyed=False)
    assert (worst.l1, worst.units, worst.wrong) == (2, 1, [])


def test_keys_of_anybody_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_keys_of_anybody(monkeypatch.setattr)
    worst = find_worst_move(tmp_path, trees=4, place=1, other=0, keyed=True)
    assert worst.l1 > 2
