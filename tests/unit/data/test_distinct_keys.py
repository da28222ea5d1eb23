"""Units by key, against plain Python: which keys of a unit count, and that nothing else has an influence."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.data import open_table
from siloquent.data.units import distinct_keys
from siloquent.data.units.distinct_keys import MAX_KEY_BYTES
from siloquent.schema import TableSchema
from siloquent.schema.workspace import Workspace
from unit.data.clinic import SALT, clinic_schema, ledger_for, opened, permit_of

USER = '{ kind = "user", column = "patient", max_rows = 2 }'
ROW = '{ kind = "row" }'
COLUMNS = '{ name = "patient", type = "id" }, { name = "note", type = "text", max_bytes = 2000 },'
Pair = tuple[str | None, str | None]
HOSTILE = ["", " ", "flu", "Flu", "flu ", " flu", "FLU", "fl\u00fc", "flu\u0308", "'", '"', "\\", "%", "\t", "a,b"]
HOSTILE += ["NULL", "nan", "1e5", "x" * MAX_KEY_BYTES, "x" * (MAX_KEY_BYTES + 1), "\u00fc" * 129]
HOSTILE += ["\x01", "\ufeff", "\U0001f637"]
pairs = st.lists(
    st.tuples(st.sampled_from([None, "ann", "Ann", "ann ", "bob", ""]), st.sampled_from([None, *HOSTILE])), max_size=30
)


def declared(unit: str = USER, source: str = "", columns: str = COLUMNS) -> TableSchema:
    return clinic_schema(unit=unit, attributes=columns, source=source)


def frame(rows: list[Pair]) -> pa.Table:
    columns = {"patient": [p for p, _ in rows], "note": [n for _, n in rows]}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def count(rows: object, unit: str, keys_each: int, **given: Any) -> Counter[str]:
    table, permit = opened(declared(unit, **given), rows)
    return collect(table.count_units_by_key("note", permit, keys_each=keys_each))


def collect(parts: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in parts:
        for key, units in zip(part.keys.to_pylist(), part.units.tolist(), strict=True):
            assert key not in found, "a key is in one part only"
            found[key] = units
    return found


def count_plainly(rows: list[Pair], unit: str, keys_each: int) -> Counter[str]:
    """Each unit's first keys by a salted hash, counted."""
    kept = [(p, n) for p, n in rows if n is not None and len(n.encode()) <= MAX_KEY_BYTES]
    if unit == ROW:
        return Counter(n for _, n in kept)

    def rank(person: str, key: str) -> tuple[str, bytes]:
        return hashlib.md5(f"{SALT}\x1f{person}\x1f{key}".encode()).hexdigest(), key.encode()

    people = {p for p, _ in kept if p is not None}
    own = {
        person: sorted({n for p, n in kept if p == person}, key=partial(rank, person))[:keys_each] for person in people
    }
    return Counter(key for keys in own.values() for key in keys)


@settings(max_examples=60)
@given(pairs, st.sampled_from([USER, ROW]), st.integers(1, 4))
def test_counts_are_those_of_plain_python(rows: list[Pair], unit: str, keys_each: int) -> None:
    assert count(frame(rows), unit, keys_each) == count_plainly(rows, unit, keys_each)


@settings(max_examples=60)
@given(pairs, st.lists(st.sampled_from([None, *HOSTILE]), max_size=8), st.integers(1, 3))
def test_a_unit_changes_few_counts_by_one(rows: list[Pair], own: list[str | None], keys_each: int) -> None:
    before = count(frame(rows), USER, keys_each)
    after = count(frame([*rows, *[("newcomer", key) for key in own]]), USER, keys_each)
    moves = [after[key] - before[key] for key in after.keys() | before.keys()]
    assert set(moves) <= {0, 1}
    assert sum(moves) <= keys_each


def test_keys_that_need_much_memory_are_counted_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Pair] = [(f"p{i % 97}", f"key{i % 211}") for i in range(2_000)]
    whole = {unit: count(frame(rows), unit, 3) for unit in (USER, ROW)}
    monkeypatch.setattr(distinct_keys, "MAX_HELD_BYTES", 800)
    for unit, found in whole.items():
        table, permit = opened(declared(unit), frame(rows))
        parts = list(table.count_units_by_key("note", permit, keys_each=3))
        assert len(parts) > 8
        assert collect(parts) == found == count_plainly(rows, unit, 3)


def test_users_in_parts_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from siloquent.data.engines.duckdb import DuckDBEngine

    rows: list[Pair] = [(f"p{i % 97}", f"key{i % 211}") for i in range(2_000)]
    table, permit = opened(declared(), frame(rows))
    engine = table.open_for_owner()[0]
    assert isinstance(engine, DuckDBEngine)
    monkeypatch.setattr(engine, "_parts", 4)
    assert collect(table.count_units_by_key("note", permit, keys_each=2)) == count_plainly(rows, USER, 2)


def test_rows_in_parts_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Pair] = [(f"p{i % 97}", f"key{i % 211}") for i in range(2_000)]
    table, permit = opened(declared(ROW), frame(rows))
    engine = table.open_for_owner()[0]
    monkeypatch.setattr(engine, "_parts", 4)
    assert collect(table.count_units_by_key("note", permit, keys_each=1)) == count_plainly(rows, ROW, 1)


ROWS: list[Pair] = [(f"p{i % 7}", HOSTILE[(i * i) % 20]) for i in range(200)] + [(None, "flu"), ("p1", None)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "pandas", "polars"])
@pytest.mark.parametrize("unit", [USER, ROW])
def test_all_kinds_of_sources_count_the_same(kind: str, unit: str, tmp_path: Path) -> None:
    plain = [(p, n) for p, n in ROWS if n not in ("", "\x01", "\ufeff")]  # CSV has no empty text that is not NULL
    table = frame(plain)
    if kind in ("pandas", "polars"):
        given = table.to_pandas() if kind == "pandas" else pytest.importorskip("polars").from_arrow(table)
        assert count(given, unit, 2) == count_plainly(plain, unit, 2)
        return
    source = write(kind, table, plain, tmp_path)
    schema = declared(unit, source)
    ledger = ledger_for(schema)
    with_rows = open_table(schema, Workspace(tmp_path), ledger, salt=SALT)
    found = collect(with_rows.count_units_by_key("note", permit_of(ledger, schema.account), keys_each=2))
    assert found == count_plainly(plain, unit, 2)


def write(kind: str, table: pa.Table, rows: list[Pair], folder: Path) -> str:
    if kind == "parquet":
        pq.write_table(table, folder / "visits.parquet")
        return "parquet:visits.parquet"
    if kind == "duckdb":
        with duckdb.connect(str(folder / "visits.duckdb")) as made:
            made.register("given", table)
            made.execute("CREATE TABLE visits AS SELECT * FROM given")
        return "duckdb:visits.duckdb#visits"
    with (folder / "visits.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "note"])
        writer.writerows(["" if v is None else v for v in row] for row in rows)
    return "csv:visits.csv"


def test_bytes_that_are_not_utf_8_change_no_other_count(tmp_path: Path) -> None:
    lines = b"patient,note\np1,flu\np2,flu\np3,cough\n"
    found = []
    for more in (b"", b"p4,fl\xff\xfe\n", b"p4," + b"y" * 2**20 + b"\n"):
        (tmp_path / "visits.csv").write_bytes(lines + more)
        schema = declared(source="csv:visits.csv")
        ledger = ledger_for(schema)
        table = open_table(schema, Workspace(tmp_path), ledger, salt=SALT)
        found.append(collect(table.count_units_by_key("note", permit_of(ledger, schema.account), keys_each=1)))
    assert found == [{"flu": 2, "cough": 1}] * 3


def test_categories_are_counted_as_stored_with_values_that_nobody_declared() -> None:
    columns = COLUMNS.replace('type = "text", max_bytes = 2000', 'type = "category", values = ["1"], null = "drop"')
    codes = pa.table({"patient": ["a", "b", "c"], "note": pa.array([1, 2, 2], pa.int64())})
    assert count(codes, USER, 1, columns=columns) == {"1": 1, "2": 2}
