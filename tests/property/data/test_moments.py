"""A moment beyond what an engine holds is the first or the last one, in its own row alone, in every source."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

from siloquent.data import open_table
from siloquent.data.sources import frames, milliseconds
from siloquent.data.units.contribution_bounding import select_as_read, select_bounded_rows
from siloquent.errors import SiloquentError
from siloquent.ledger import MemoryLedger
from siloquent.schema.build import parse_schema
from siloquent.schema.files.coercion import EARLIEST, LATEST, count_microseconds
from siloquent.schema.workspace import Workspace

EPOCH = datetime(1970, 1, 1)
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""In nanoseconds."""
DAYS = "lo = 2024-01-01, hi = 2024-01-09"
SOURCES = ("arrow", "dictionary", "runs", "polars", "parquet", "duckdb")
MISSING = {
    **dict.fromkeys(("parquet", "polars"), ("s None", "s UTC")),
    "duckdb": ("s UTC", "ms UTC"),
}
"""Types that a source does not have."""


def declared(source: str) -> Any:
    address = {"parquet": 'source = "parquet:rows"', "duckdb": 'source = "duckdb:rows#moments"'}.get(source, "")
    return parse_schema(f"""
format = 1
attribute = [
  {{ name = "n", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" }},
  {{ name = "m", type = "datetime", {DAYS}, grid = "hour", outside = "clamp", null = "cell" }},
  {{ name = "d", type = "date", {DAYS}, outside = "drop", null = "cell" }},
  {{ name = "who", type = "id" }},
]
[table]
name = "moments"
{address}
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1"
""")


def written(source: str, rows: pa.Table, folder: Path) -> Any:
    (folder / "rows").unlink(missing_ok=True)
    if source == "parquet":
        pq.write_table(rows, folder / "rows", version="2.6", row_group_size=7)
    elif source == "duckdb":
        with duckdb.connect(str(folder / "rows")) as connection:
            connection.register("given", rows)
            connection.execute("SET TimeZone = 'UTC'; CREATE TABLE moments AS SELECT * FROM given")
    elif source == "polars":
        return pl.DataFrame(rows)
    elif source in ("dictionary", "runs"):
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        for name in ("m", "d", "who"):
            one = columns[name]
            ends = pa.array(range(1, len(one) + 1), pa.int32())
            runs = source == "runs"
            columns[name] = pa.RunEndEncodedArray.from_arrays(ends, one) if runs else one.dictionary_encode()
        return pa.table(columns)
    return None if source in ("parquet", "duckdb") else rows


def read(source: str, rows: pa.Table, folder: Path) -> tuple[list[tuple[int, int]], int]:
    """The places of both attributes of each row, and how many ids there are."""
    frame, schema = written(source, rows, folder), declared(source)
    table = open_table(schema, Workspace(folder), MemoryLedger(), salt="5a17", frame=frame)
    try:
        engine, columns, _ = table.open_for_owner()
        query = select_bounded_rows(columns, schema.unit, salt="5a17", wanted=columns[:3])
        found = [
            row for batch in engine.read_batches(query) for row in zip(*(c.to_pylist() for c in batch), strict=True)
        ]
        who = exp.func("COUNT", exp.Distinct(expressions=[exp.column(columns[3].read_name)]))
        distinct = engine.aggregate(exp.select(exp.alias_(who, "n")).from_(select_as_read([columns[3]]).subquery("r")))
        return [row[1:] for row in sorted(found)], int(distinct.column("n")[0].as_py())
    finally:
        table.close()


def expected(numbers: list[int | None], unit: int) -> list[tuple[int, int]]:
    """By exact arithmetic on whole numbers."""
    attributes = declared("").domain
    found = []
    for number in numbers:
        moment = None
        if number is not None:
            micro = min(max(number * unit // 1_000, count_microseconds(EARLIEST)), count_microseconds(LATEST))
            moment = EPOCH + timedelta(microseconds=micro)
        found.append((attributes["m"].index(moment), attributes["d"].index(moment)))
    return found


def numbers_of(unit: int, seed: int) -> list[int | None]:
    """Moments of all sizes around 1970 and 2024, and the ends of what 64 bits hold."""
    rng = np.random.default_rng(seed)
    day = 86_400_000_000_000 // unit
    ends = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2, 2**62, -(2**62), 0, None, 19_724 * day]
    sizes = [
        int(sign * 2.0**size) for sign, size in zip(rng.choice([-1, 1], 12), rng.uniform(0, 62.9, 12), strict=True)
    ]
    # In whole microseconds: engines round the rest of the nanoseconds in their own ways.
    return [
        *ends,
        *(size // 1_000 * 1_000 for size in sizes),
        *(19_723 * day + int(x) for x in rng.integers(0, 9, 3) * day),
    ]


def tables(seed: int) -> Any:
    for unit, nanoseconds in UNITS.items():
        for zone in (None, "UTC"):
            numbers = numbers_of(nanoseconds, seed)
            yield f"{unit} {zone}", numbers, nanoseconds, pa.array(numbers, pa.int64()).view(pa.timestamp(unit, zone))
    days: list[int | None] = [
        -(2**31),
        -(2**31) + 1,
        2**31 - 1,
        2**31 - 2,
        0,
        None,
        19_724,
        2_932_896,
        2_932_897,
        -719_163,
    ]
    yield "date32", days, 86_400 * 10**9, pa.array(days, pa.int32()).view(pa.date32())


@pytest.mark.parametrize("source", SOURCES)
def test_a_moment_beyond_all_years_is_the_first_or_the_last(source: str, tmp_path: Path) -> None:
    for name, numbers, unit, moments in tables(SOURCES.index(source)):
        if name in MISSING.get(source, ()):
            continue
        rows = pa.table({"n": range(len(moments)), "m": moments, "d": moments, "who": moments})
        places, ids = read(source, rows, tmp_path)
        assert places == expected(numbers, unit), name
        assert ids == len(set(numbers) - {None}), name


@pytest.mark.parametrize(("place", "source"), [(frames, "arrow"), (milliseconds, "parquet")])
def test_moments_that_are_not_bounded_are_seen(place: Any, source: str, tmp_path: Path) -> None:
    moments = next(found for name, _, _, found in tables(0) if name == "ms UTC")
    rows = pa.table({"n": range(len(moments)), "m": moments, "d": moments, "who": moments})
    with patch.object(place, "bound_moments", lambda moments, is_id: moments), pytest.raises(SiloquentError):
        read(source, rows, tmp_path)
