"""Nothing leaves a private table but what an open permit of its account pays for."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siloquent.data import PrivateTable, open_table
from siloquent.errors import DataError, NotAllowed, RequestError, UnknownName
from siloquent.ledger import MemoryLedger, Permit
from siloquent.privacy import FREE, Composed, Cost, DiscreteLaplace, Disjoint, Event
from siloquent.schema import Block
from unit.data.clinic import clinic_schema, full_block, ledger_for, opened, permit_of, visits

SECRET = "x" * 30


@pytest.fixture
def table_and_permit() -> tuple[PrivateTable, Permit]:
    return opened(clinic_schema(), visits(50))


def asks(table: PrivateTable, permit: Any) -> list[Any]:
    block = Block((), ())
    return [
        lambda: table.count_by_cell([block], permit),
        lambda: table.sum_by_cell([block], "age", permit),
        lambda: table.read_rows(["age"], permit),
        lambda: table.fold(lambda batch: np.zeros(1), np.add, ["age"], permit),
    ]


def test_a_settled_permit_opens_nothing() -> None:
    schema = clinic_schema()
    ledger = ledger_for(schema)
    permit = permit_of(ledger, schema.account)
    from siloquent.data import open_table

    table = open_table(schema, None, ledger, salt="00", frame=visits(50))
    ledger.settle(permit, permit.event, b"{}")
    for ask in asks(table, permit):
        with pytest.raises(NotAllowed):
            ask()


def test_a_permit_of_another_table_or_ledger_opens_nothing(table_and_permit: tuple[PrivateTable, Permit]) -> None:
    table, _ = table_and_permit
    others = MemoryLedger()
    others.open_account(table.schema.account, limit=Cost(10**12), accountant="pure", unit="row", adjacency="add-remove")
    foreign = others.reserve(table.schema.account, DiscreteLaplace(scale=1, l1=1), key=None, digest="1" * 64)
    for ask in asks(table, foreign):
        with pytest.raises(NotAllowed):
            ask()


def test_an_analysts_share_is_of_the_same_tree() -> None:
    schema = clinic_schema()
    ledger = ledger_for(schema)
    ledger.open_account(f"{schema.account}/ana", limit=Cost(10**11), parent=schema.account)
    from siloquent.data import open_table

    table = open_table(schema, None, ledger, salt="00", frame=visits(50))
    assert table.count_by_cell([Block((), ())], permit_of(ledger, f"{schema.account}/ana"))[0].tolist() == [50]


def test_a_private_table_shows_its_name_alone(table_and_permit: tuple[PrivateTable, Permit]) -> None:
    table, _ = table_and_permit
    assert repr(table) == str(table) == f"{table}" == "PrivateTable('visits')"
    for forbidden in (len, iter, list, bytes, np.asarray, vars):
        shown: object = None
        try:
            shown = forbidden(table)  # type: ignore[operator]
        except (TypeError, NotAllowed):
            continue
        assert isinstance(shown, np.ndarray), forbidden
        assert shown.shape == ()  # the object itself, and no row of it


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_private_table_is_neither_copied_nor_stored(table_and_permit: tuple[PrivateTable, Permit], take: Any) -> None:
    with pytest.raises(NotAllowed, match="cannot be copied or stored"):
        take(table_and_permit[0])


def test_shapes_and_types_of_results_never_depend_on_rows() -> None:
    schema = clinic_schema()
    blocks = [full_block(schema, "ward", "smoker"), full_block(schema, "day"), Block((), ())]
    seen = []
    for rows in (0, 1, 300):
        table, permit = opened(schema, visits(rows))
        counts = table.count_by_cell(blocks, permit)
        [sums] = table.sum_by_cell([blocks[0]], "weight", permit)
        batches = list(table.read_rows(["patient", "age", "note"], permit))
        names = [batch.schema.names for batch in batches[:1]] or [["patient", "age", "note"]]
        seen.append(([(c.shape, c.dtype) for c in counts], sums.index_sums.dtype, sums.counts.shape, names))
    assert seen[0] == seen[1] == seen[2]


def test_declared_order_is_row_major() -> None:
    schema = clinic_schema()
    rows = pa.table({name: visits(1).column(name).slice(0, 0) for name in visits(1).column_names})
    one = {"patient": 1, "age": 3, "weight": 1.0, "ward": "B", "smoker": True, "day": None, "note": None}
    rows = pa.concat_tables([rows, pa.Table.from_pylist([one], rows.schema)])
    table, permit = opened(schema, rows)
    [counts] = table.count_by_cell([full_block(schema, "ward", "smoker")], permit)
    assert counts.reshape(5, 2)[1].tolist() == [0, 1]


def test_rows_of_class_minus_one_are_left_out_and_classes_merge() -> None:
    schema = clinic_schema()
    table, permit = opened(schema, visits(200))
    wards = table.count_by_cell([full_block(schema, "ward")], permit)[0]
    merged = Block(("ward",), (np.array([0, 0, 1, -1, 0, -1]),))
    [counts] = table.count_by_cell([merged], permit)
    assert counts.tolist() == [wards[0] + wards[1] + wards[4], wards[2]]


@pytest.mark.parametrize(
    ("block", "error", "what"),
    [
        (Block(("patient",), (np.zeros(1, np.int64),)), RequestError, "has no cells"),
        (Block(("note",), (np.zeros(1, np.int64),)), RequestError, "has no cells"),
        (Block(("wart",), (np.zeros(1, np.int64),)), UnknownName, "Did you mean 'ward'"),
        (Block(("ward",), (np.zeros(3, np.int64),)), RequestError, "has 6 entries"),
    ],
)
def test_a_block_that_cannot_be_counted_is_refused_before_rows_are_read(
    table_and_permit: tuple[PrivateTable, Permit], block: Block, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        table_and_permit[0].count_by_cell([block], table_and_permit[1])


def test_only_numbers_are_summed(table_and_permit: tuple[PrivateTable, Permit]) -> None:
    table, permit = table_and_permit
    for attribute in ("ward", "day", "smoker", "note", "patient"):
        with pytest.raises(RequestError, match="is not a number"):
            table.sum_by_cell([Block((), ())], attribute, permit)


def test_sums_in_grid_steps_are_exact() -> None:
    schema = clinic_schema()
    rows = visits(300)
    table, permit = opened(schema, rows)
    [sums] = table.sum_by_cell([Block((), ())], "weight", permit)
    steps = [round(w * 10) for w in rows.column("weight").to_pylist() if w is not None and 0 <= w <= 300]
    # Half steps round up and not to even; numpy's normal draws hit none.
    assert (int(sums.index_sums[0]), int(sums.counts[0])) == (sum(steps), len(steps))


def test_rows_show_what_is_declared_and_nothing_else() -> None:
    schema = clinic_schema()
    rows = pa.table(
        {
            "patient": [1, 2],
            "age": [999, None],
            "weight": [70.26, 999.0],
            "ward": ["D", None],
            "smoker": [None, True],
            "day": [None, None],
            "note": [SECRET, "x" * 41],
        }
    )
    table, permit = opened(schema, rows)
    names = [a.name for a in schema.domain]
    found = [row for batch in table.read_rows(names, permit) for row in batch.to_pylist()]
    assert found == [
        {"patient": 1, "age": 120, "weight": 70.3, "ward": "(other)", "smoker": False, "day": None, "note": SECRET},
        {"patient": 2, "age": None, "weight": None, "ward": None, "smoker": True, "day": None, "note": None},
    ]
    encoded = [row for batch in table.read_rows(["age", "ward"], permit, encoded=True) for row in batch.to_pylist()]
    assert encoded == [{"age": 120, "ward": 3}, {"age": -1, "ward": 4}]
    with pytest.raises(RequestError, match="has no places"):
        table.read_rows(["note"], permit, encoded=True)


def test_derived_attributes_are_functions_of_what_stands_in_the_source() -> None:
    more = """derived = [
      { name = "size", from = ["note"], function = "length", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
      { name = "year", from = ["day"], function = "year", type = "integer", lo = 1, hi = 9999, outside = "clamp", null = "drop" },
      { name = "month", from = ["day"], function = "month", type = "integer", lo = 1, hi = 12, outside = "drop", null = "drop" },
      { name = "dom", from = ["day"], function = "day", type = "integer", lo = 1, hi = 31, outside = "drop", null = "drop" },
      { name = "weekday", from = ["day"], function = "dayofweek", type = "integer", lo = 0, hi = 6, outside = "drop", null = "drop" },
    ]"""  # noqa: E501
    import datetime

    schema = clinic_schema(more=more)
    days = [
        datetime.date(1, 1, 1),
        datetime.date(1969, 12, 28),
        datetime.date(2024, 2, 29),
        datetime.date(9999, 12, 31),
    ]
    rows = (
        visits(4)
        .set_column(5, "day", pa.array(days))
        .set_column(6, "note", pa.array(["", "\U0001f92f", None, "x" * 50]))
    )
    table, permit = opened(schema, rows)
    found = [
        list(r.values())
        for b in table.read_rows(["size", "year", "month", "dom", "weekday"], permit)
        for r in b.to_pylist()
    ]
    for row, day, size in zip(found, days, [0, 1, None, 50], strict=True):
        assert row == [size, day.year, day.month, day.day, day.isoweekday() % 7]  # 0 is Sunday


def test_a_failure_says_that_the_charge_stands_and_nothing_of_the_rows(
    tmp_path: Path, owner_log: list[logging.LogRecord]
) -> None:
    path = tmp_path / "visits.csv"
    path.write_text(f"patient,age,weight,ward,smoker,day,note\n1,2,3,A,1,2024-01-01,{SECRET}\n")
    table, permit = opened(clinic_schema(source=f"csv:{path}"))
    path.write_text("other")
    with pytest.raises(DataError) as caught:
        table.count_by_cell([Block((), ())], permit)
    error = caught.value
    assert str(error) == str(DataError(charged=True))
    assert error.__cause__ is error.__context__ is None
    assert owner_log


def test_the_owners_log_is_silent_unless_the_owner_listens(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger("siloquent.owner").error("a row says %s", SECRET)
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize("one_more", [0, 1])
@pytest.mark.parametrize("wide", [False, True])
def test_a_row_that_brings_a_sum_to_2_to_the_62_brings_no_error(wide: bool, one_more: int) -> None:
    largest, rows = 2**40 - 1, 2**22 + one_more  # a hair below 2^62, and one row more
    attribute = f'{{ name = "v", type = "integer", lo = 0, hi = {largest}, outside = "clamp", null = "drop" }}'
    age = '{ name = "a", type = "integer", lo = 0, hi = 2000000, outside = "clamp", null = "drop" }'
    table, permit = opened(
        clinic_schema(attributes=f"{attribute},\n{age}"),
        pa.table({"v": np.full(rows, 2**40), "a": np.zeros(rows, dtype=np.int32)}),
    )
    block = Block(("a",), (np.zeros(2_000_002, dtype=np.int64),)) if wide else Block((), ())
    [sums] = table.sum_by_cell([block], "v", permit)
    assert (sums.index_sums.tolist(), sums.counts.tolist()) == ([largest * rows], [rows])


def test_counting_from_many_threads_gives_the_same_numbers() -> None:
    from concurrent.futures import ThreadPoolExecutor

    schema = clinic_schema(unit='{ kind = "user", column = "patient", max_rows = 1 }')
    table, permit = opened(schema, visits(2_000))
    block = full_block(schema, "ward")
    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: tuple(table.count_by_cell([block], permit)[0].tolist()), range(40)))
    assert len(set(seen)) == 1


def test_a_stream_that_is_not_read_to_its_end_holds_up_nobody() -> None:
    schema = clinic_schema()
    table, permit = opened(schema, visits(2_000))
    half_read = table.read_rows(["note"], permit)
    next(half_read)
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [2_000]
    assert sum(batch.num_rows for batch in table.read_rows(["age"], permit)) == 2_000
    assert sum(batch.num_rows for batch in half_read) <= 2_000


@pytest.mark.parametrize("other", ["clinic@1", "visits@2", "visits@10", "visit@1"])
def test_a_permit_of_another_account_of_the_same_ledger_opens_nothing(other: str) -> None:
    schema = clinic_schema()
    ledger = ledger_for(schema)
    assert schema.account == "visits@1"
    ledger.open_account(other, limit=Cost(10**12), accountant="pure", unit="row", adjacency="add-remove")
    table = open_table(schema, None, ledger, salt="00", frame=visits(50))
    for ask in asks(table, permit_of(ledger, other)):
        with pytest.raises(NotAllowed, match="not to 'visits@1'"):
            ask()
    assert table.count_by_cell([Block((), ())], permit_of(ledger, schema.account))[0].tolist() == [50]


@pytest.mark.parametrize("event", [FREE, Composed((FREE, FREE)), Disjoint((FREE,))], ids=["free", "twice", "disjoint"])
def test_a_permit_that_paid_for_nothing_opens_nothing(event: Event) -> None:
    schema = clinic_schema()
    ledger = ledger_for(schema)
    table = open_table(schema, None, ledger, salt="00", frame=visits(50))
    permit = ledger.reserve(schema.account, event, key=None, digest="2" * 64)
    assert isinstance(permit, Permit)
    for ask in asks(table, permit):
        with pytest.raises(NotAllowed, match="reserved no cost"):
            ask()
