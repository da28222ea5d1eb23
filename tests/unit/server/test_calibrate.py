"""Slots are measured on invented rows: as many as declared, of every declared kind, and none of anybody's."""

from __future__ import annotations

import numpy as np
import pytest

from journeys.clinic import TOML
from siloquent.api import read_schema
from siloquent.errors import SchemaError
from siloquent.server.calibrate import SlotTiming, calibrate, invent_rows

NOWHERE = TOML.replace("SOURCE", "parquet:nowhere.parquet")


def test_invented_rows_are_as_many_as_asked_for_and_lie_in_the_declared_domain() -> None:
    schema = read_schema(NOWHERE)
    rows = invent_rows(schema, 1_000, np.random.default_rng(1))
    assert (rows.num_rows, rows.column_names) == (1_000, list(schema.domain.names))
    assert set(rows["ward"].to_pylist()) == {"A", "B", "=1+1", "icu"}
    assert 0 <= min(rows["age"].to_pylist()) <= max(rows["age"].to_pylist()) <= 120


def test_a_slot_is_four_times_what_was_timed_in_whole_steps() -> None:
    assert [SlotTiming("t", 1, 1, ms).slot_ms for ms in (0.1, 12.5, 12.6, 100)] == [50, 50, 100, 400]
    small = read_schema(NOWHERE.replace("size_hint = 3000", "size_hint = 200"))
    (found,) = calibrate([small], np.random.default_rng(1), answers=3)
    assert (found.table, found.rows, found.answers) == ("visits", 200, 3)
    assert found.p99_ms > 0


def test_without_a_declared_size_there_is_nothing_to_time() -> None:
    schema = read_schema(NOWHERE.replace("size_hint = 3000", ""))
    with pytest.raises(SchemaError, match="size_hint"):
        list(calibrate([schema], np.random.default_rng(1), answers=1))
