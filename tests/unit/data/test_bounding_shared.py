"""The rows that count are those of the definition, although only users who have more are ranked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import cast

import pytest

from siloquent.data import open_source
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.units import contribution_bounding
from siloquent.schema import TableSchema, Unit
from unit.data.clinic import clinic_schema, full_block, on_engine, visits

COLUMNS = ["patient", "age", "weight", "ward", "smoker", "day", "note"]


def count_chosen(schema: TableSchema, *, seed: int, parts: int = 1) -> Counter[str]:
    """The rows that count, each with how often."""
    engine = cast(DuckDBEngine, open_source(schema, None, frame=visits(300, seed=seed)))
    engine._parts = parts  # as if the users' rows did not fit into memory together
    table, permit = on_engine(schema, engine)
    rows = Counter(repr(row) for batch in table.read_rows(COLUMNS, permit) for row in batch.to_pylist())
    counted = sum(int(one.sum()) for one in table.count_by_cell([full_block(schema, "ward")], permit))
    assert counted <= sum(rows.values())
    table.close()
    return rows


@pytest.mark.parametrize("most", [1, 2, 5, 100])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_rows_that_count_are_those_of_the_definition(most: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    user = clinic_schema(unit=f'{{ kind = "user", column = "patient", max_rows = {most} }}')
    shared = replace(user, unit=Unit("shared", "patient", most, "patient"))
    found = [count_chosen(schema, seed=seed, parts=parts) for schema in (user, shared) for parts in (1, 4)]
    monkeypatch.setattr(contribution_bounding, "_rank_only_many", contribution_bounding._rank_all)
    defined = count_chosen(user, seed=seed)
    assert found == [defined] * 4
