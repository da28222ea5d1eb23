"""Whoever is added, removed or replaced moves exact answers by no more than is declared, and by that much."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from sqlglot import exp

from benchmarks.trials.neighbours import LARGEST, SPAN, answers, stays, worst_of
from siloquent.data.sql.indices import SourceColumn
from siloquent.data.units import contribution_bounding


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1, 2])
def test_adding_or_removing_a_unit_moves_answers_by_what_is_declared(most: int) -> None:
    worst, m = worst_of(stays(most), tables=25, replace=False), max(most, 1)
    assert worst.all == (m, m * m, m, m * LARGEST)


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1, 2])
def test_replacing_a_unit_moves_answers_by_what_is_declared(most: int) -> None:
    worst, m = worst_of(stays(most), tables=40, replace=True), max(most, 1)
    assert (worst.l1, worst.l2_squared, worst.linf) == (2 * m, 2 * m * m, m)
    assert m * LARGEST < worst.total <= m * SPAN


def test_replacing_a_row_can_move_a_sum_further_than_from_lo_to_hi() -> None:
    schema = stays(0, lo=2)  # a row that is left out adds 0: the sum moves by 6, and not by 6 - 2
    assert answers(schema, [(None, 6, "A")])[1] - answers(schema, [(None, None, "A")])[1] == LARGEST


@pytest.mark.slow
def test_a_window_that_forgets_the_user_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = contribution_bounding._rank

    def wrong(columns: Sequence[SourceColumn], salt: str, joined: Collection[str] = ()) -> exp.Window:
        window = right(columns, salt, joined)
        window.set("partition_by", [])
        return window

    monkeypatch.setattr(contribution_bounding, "_rank", wrong)
    assert worst_of(stays(1), tables=15, replace=False).l1 == 2


@pytest.mark.slow
def test_a_limit_that_is_not_kept_is_caught() -> None:
    assert worst_of(stays(5), tables=15, replace=False).l1 > 2
