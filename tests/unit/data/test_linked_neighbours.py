"""No unit moves the exact answers about linked tables further than its bound; planted faults do, and are caught."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from benchmarks.trials.linked_neighbours import (
    LARGEST,
    find_worst_move,
    plant_budget_a_table,
)
from siloquent.errors import BudgetExceeded
from unit.linked_shop import UNIT, write_shop


@pytest.mark.slow
@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("replaced", [False, True])
def test_one_unit_moves_answers_by_the_bound_and_no_further(tmp_path: Path, place: int, replaced: bool) -> None:
    worst = find_worst_move(tmp_path, trees=60, most=2, place=place, replaced=replaced)
    assert (worst.l1, worst.total, worst.units) == (4 if replaced else 2, 2 * LARGEST, 1)
    assert not worst.wrong


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
