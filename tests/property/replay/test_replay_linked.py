"""Questions about linked tables and about persons, replayed on neighbours: each loss is paid for, faults are seen.

The large version: ``python -m benchmarks core --only replay``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp

from benchmarks.replay.linked import linked
from benchmarks.trials.linked_neighbours import Patch, plant_rank_of_a_key
from siloquent.data.sql.indices import quote_name
from siloquent.data.units import unit_rows, unit_table

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]


def test_no_question_about_linked_tables_tells_neighbours_apart_beyond_its_charge() -> None:
    found = list(linked(range(24)))
    faults = [f"{one.name} ({one.account}, {one.unit}, {one.adjacency}): {x}" for one in found for x in one.faults]
    assert not faults
    assert sum(one.status == "answered" for one in found) > 0.9 * len(found)
    assert max(one.ratio for one in found) > 1 - 1e-6


def plant_rows_of_visits(patch: Patch) -> None:
    """Plant: a person has a row for each number that it has, in place of one row."""
    build = unit_rows.build_unit_rows

    def build_finer(rows: Any, find: Any, user: Any) -> Any:
        query = build(rows, find, user)
        return query.group_by(*map(quote_name, query.find(exp.Subquery).this.named_selects))

    patch(unit_table, "build_unit_rows", build_finer)


@pytest.mark.parametrize("plant", [plant_rank_of_a_key, plant_rows_of_visits])
def test_a_planted_fault_is_seen(plant: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch.setattr)
    assert any(one.faults for one in linked(range(200)))
