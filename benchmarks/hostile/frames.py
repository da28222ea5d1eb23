"""Frames of pandas and their neighbours with one hostile value, joined in the ways in which pandas changes types."""

from __future__ import annotations

import datetime as dt
import uuid
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import numpy as np
from sqlglot import exp

from benchmarks.hostile.kinds import LONG
from siloquent.data import PrivateTable, open_table
from siloquent.data.sql.indices import SourceColumn
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.errors import SiloquentError
from siloquent.ledger import MemoryLedger
from siloquent.schema import TableSchema, Unit
from siloquent.schema.build import parse_schema

ATTRIBUTES = {
    "i": 'type = "id"',
    "c": 'type = "category", values = ["1", "2", "a", "true", "1.5"], other = "cell", null = "cell"',
    "t": 'type = "text"',
    "w": 'type = "integer", lo = 0, hi = 9, outside = "clamp", null = "cell"',
    "r": 'type = "real", lo = -4, hi = 4, grid = 0.5, outside = "drop", null = "cell"',
    "b": 'type = "boolean", null = "cell"',
    "d": 'type = "date", lo = 2024-01-01, hi = 2024-01-09, outside = "drop", null = "cell"',
    "m": 'type = "datetime", lo = 2024-01-01, hi = 2024-01-09, grid = "hour", outside = "clamp", null = "cell"',
}
GROUPS = ("ict", "wrbdm")
"""Attributes of one frame, in columns that are all the same."""
Rows = dict[int, tuple[str, ...]]


@cache
def declaration(names: str) -> TableSchema:
    """The declaration of a frame with these attributes, and a number for each row."""
    listed = "".join(f'  {{ name = "{name}", {ATTRIBUTES[name]} }},\n' for name in names)
    return parse_schema(f"""
format = 1
attribute = [
  {{ name = "n", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }},
{listed}]
[table]
name = "frame"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1"
""")


def columns() -> dict[str, Any]:
    """Columns of every type that pandas has, by name."""
    import pandas as pd
    import pyarrow as pa

    days = pd.Series(pd.to_datetime(["2024-01-02", "2024-01-03 05:06:07.123456", None, "1800-01-01"], format="mixed"))
    whole, texts = [1, 2, 2**53 + 1, 2**53], ["a", "1", "z", "2024-01-02"]
    found: dict[str, Any] = {
        name: pd.Series([1, 2, 3, 7], dtype=name) for name in ("int8", "uint16", "int32", "float16")
    }
    found |= {name: pd.Series(whole, dtype=name) for name in ("int64", "uint64", "Int64", "UInt64", "int64[pyarrow]")}
    found |= {name: pd.Series([1, 1.5, -2, 1e300], dtype=name) for name in ("float64", "Float64", "double[pyarrow]")}
    found["float32"] = pd.Series([1, 1.5, -2, np.nan], dtype="float32")
    found["bool"] = pd.Series([True, False, True, True])
    found |= {name: pd.Series([True, None, True, False], dtype=name) for name in ("boolean", "bool[pyarrow]")}
    found |= {name: pd.Series(texts, dtype=name) for name in ("str", "string", "object", "category", "string[pyarrow]")}
    found["string of Python"] = pd.Series(texts, dtype=pd.StringDtype("python"))
    found["categories of numbers"] = pd.Series([1, 2, 1, None]).astype("category")
    found["categories of floats"] = pd.Series([1.0, 1.5, 2.0**60, None]).astype("category")
    found["mixed categories"] = pd.Series(pd.Categorical(["a", 1, 1.5, True]))
    found |= {f"datetime64[{unit}]": days.astype(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")}
    found["nanoseconds"] = days.astype("datetime64[ns]") + pd.Timedelta(1, "ns")
    found["far years"] = pd.Series(np.array(["20000-01-01", "2024-01-02", "-300-01-01", "NaT"], dtype="datetime64[s]"))
    found["in UTC"] = days.dt.tz_localize("UTC")
    found["in Berlin"] = days.dt.tz_localize("Europe/Berlin")
    found["moments in two zones"] = pd.Series([*found["in UTC"][:2], *found["in Berlin"][:2]], dtype=object)
    found["timestamp[us][pyarrow]"] = days.astype("timestamp[us][pyarrow]")
    found["date32[pyarrow]"] = pd.Series(pd.array([dt.date(2024, 1, 2), None, dt.date(1, 1, 1), dt.date(9999, 1, 1)],
                                                  dtype=pd.ArrowDtype(pa.date32())))  # fmt: skip
    found["decimals"] = pd.Series(pd.array([Decimal("1.50"), None, Decimal(2), Decimal(3)],
                                           dtype=pd.ArrowDtype(pa.decimal128(9, 2))))  # fmt: skip
    found["timedelta"] = pd.Series(pd.to_timedelta([1, 2, None, 3], unit="D"))
    found["period"] = pd.Series(pd.PeriodIndex(["2024-01", "2024-02", "2024-03", None], freq="M"))
    found["interval"] = pd.Series(pd.interval_range(0, 4))
    found["sparse"] = pd.Series([1.0, np.nan, 2.0, 1.0]).astype("Sparse[float]")
    found["complex"] = pd.Series([1 + 0j, 2 + 1j, 3 + 0j, complex("nan")])
    found["all missing"] = pd.Series([np.nan] * 4)
    found["all None"] = pd.Series([None] * 4)
    return found


class Odd:
    """A value whose every method fails."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("secret")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise ValueError("secret")


def values() -> dict[str, Any]:
    """Values that make pandas change the type of a column, or that no type holds."""
    import pandas as pd

    return {
        "None": None, "nan": np.nan, "NA": pd.NA, "NaT": pd.NaT, "1": 1, "-1": -1, "1.5": 1.5, "inf": np.inf,
        "2^53 + 1": 2**53 + 1, "2^64": 2**64, "2^4000": 2**4000, "True": True, "text": "x", "number in a text": "7",
        "half a character": "\ud800", "NUL": "\0", "long": "x" * LONG, "bytes": b"\xff", "decimal": Decimal("1.50"),
        "signalling": Decimal("sNaN"), "day": dt.date(2024, 1, 2), "moment": dt.datetime(2024, 1, 2, 3),
        "nanosecond": pd.Timestamp("2024-01-02 00:00:00.000000001"), "UTC": pd.Timestamp("2024-01-02", tz="UTC"),
        "Tokyo": pd.Timestamp("2024-01-02", tz="Asia/Tokyo"),
        "year 20000": np.datetime64("20000-01-01"), "duration": pd.Timedelta(days=1), "period": pd.Period("2024-01"),
        "complex": 1j, "list": [1], "uuid": uuid.UUID(int=7), "float32": np.float32(0.1), "odd": Odd(),
    }  # fmt: skip


def added(frame: Any, value: Any) -> dict[str, Callable[[], tuple[Any, int]]]:
    """The ways in which one row comes to others: the frame with it, and the number of the row that is new."""
    import pandas as pd

    names, last = [name for name in frame.columns if name != "n"], len(frame)

    def one(**types: Any) -> Any:
        return pd.DataFrame({"n": [last]} | {name: pd.Series([value], **types) for name in names})

    def located() -> Any:
        copied = frame.copy()
        copied.loc[last] = [last, *([value] * len(names))]
        return copied

    def replaced() -> Any:
        copied = frame.copy()
        for name in names:
            copied.loc[1, name] = value
        return copied

    def rebuilt() -> Any:
        return pd.DataFrame({"n": [*frame["n"], last]} | {name: pd.Series([*frame[name], value]) for name in names})

    return {
        "concat": lambda: (pd.concat([frame, one()], ignore_index=True), last),
        "concat of objects": lambda: (pd.concat([frame, one(dtype=object)], ignore_index=True), last),
        "loc": lambda: (located(), last),
        "replaced": lambda: (replaced(), 1),
        "built anew": lambda: (rebuilt(), last),
    }


@lru_cache(maxsize=1_000)
def _query(held: tuple[SourceColumn, ...]) -> exp.Query:
    return select_bounded_rows(held, Unit(), salt="5a17", wanted=held)


def rows_of(frame: Any, names: str) -> Rows:
    """By number, what each row of ``frame`` is read as: places of countable attributes, texts and ids as they are."""
    schema = declaration(names)
    table: PrivateTable = open_table(schema, None, MemoryLedger(), salt="5a17", frame=frame)
    try:
        engine, held, _ = table.open_for_owner()
        shown = [column.index_name if column.attribute.is_countable else column.read_name for column in held]
        query = select_bounded_rows(held, schema.unit, salt="5a17", wanted=held)
        found = [
            zip(*(batch.column(name).to_pylist() for name in shown), strict=True)
            for batch in engine.read_batches(query)
        ]
        return {int(row[0]): tuple(map(_as_text, row[1:])) for batch in found for row in batch}
    finally:
        table.close()


def _as_text(value: object) -> str:
    """Ids are told apart by their texts, whatever the type of their column."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def neighbours(step: int = 1, start: int = 0) -> Iterator[tuple[str, str]]:
    """Every ``step``-th combination of a column, a value and a way: its name, and what is wrong, if anything."""
    import pandas as pd

    number = -1
    for name, column in columns().items():
        for names in GROUPS:
            frame = pd.DataFrame({"n": range(len(column))} | dict.fromkeys(names, column))
            for text, value in values().items():
                for way, join in added(frame, value).items():
                    number += 1
                    if number % step == start:
                        yield f"{name} + {text} by {way} as {names}", fault(frame, join, names)


def fault(frame: Any, join: Callable[[], tuple[Any, int]], names: str) -> str:
    """What becomes of other rows of ``frame`` by a new one; empty if nothing does, or it was refused for its types."""
    try:
        first = rows_of(frame, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            joined, new = join()
    except Exception:  # allowed: it is refused, or pandas has no such frame
        return ""
    try:
        second = rows_of(joined, names)
    except SiloquentError as refused:
        # A column without values takes the type of the first one, and other zones are refused by type.
        is_known = "time zone" in str(refused) and frame[names[0]].isna().all()
        return "" if is_known else f"refused: {refused}"
    changed = {n: (row, second.get(n)) for n, row in first.items() if n != new and second.get(n) != row}
    return f"other rows: {changed}" if changed else ""
