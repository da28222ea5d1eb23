"""What text, number, moment and truth mean, value by value."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from siloquent.schema.files.coercion import (
    EARLIEST,
    LATEST,
    count_microseconds,
    read_boolean,
    read_datetime,
    read_number,
    read_text,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (True, 1.0),
        (np.int8(-4), -4.0),
        (np.float32(0.5), 0.5),
        (Decimal("0.1"), 0.1),
        (Fraction(1, 4), 0.25),
        (10**400, math.inf),
        (-(10**400), -math.inf),
        (2**53 + 1, 2.0**53),
        ("12", 12.0),
        ("  -1.5e2 ", -150.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e400", math.inf),
        ("1e-400", 0.0),
        ("-INF", -math.inf),
        ("Infinity", math.inf),
    ],
)
def test_numbers_are_read(value: object, expected: float) -> None:
    assert read_number(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            "",
            " ",
            "nan",
            "NaN",
            "1_000",
            "0x10",
            "1,5",
            "1.5d",
            "1 2",
            "--1",
            "1e",
            ".",
            "\u0661",
            "12\n",
            "1\t",
        ),
        *(math.nan, np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), 1j, b"1", [1], {}, object(), pd.NA, pd.NaT),
        *(date(2024, 1, 1), np.datetime64("2024-01-01"), np.array([1.0])),
    ],
)
def test_what_is_no_number_is_none(value: object) -> None:
    assert read_number(value) is None


@pytest.mark.parametrize(("value", "expected"), [("true", True), (" T", True), ("NO", False), ("0", False), (1, True)])
def test_truths_are_read(value: object, expected: bool) -> None:
    assert read_boolean(value) is expected


@pytest.mark.parametrize("value", ["on", "1.0", "", None, 2, 0.5, math.nan, "tr\u00fce", b"true", [True]])
def test_what_is_no_truth_is_none(value: object) -> None:
    assert read_boolean(value) is None


@pytest.mark.parametrize(("value", "expected"), [("A", "A"), ("", ""), (7, "7"), (np.int64(-7), "-7"), (True, "true")])
def test_texts_are_read(value: object, expected: str) -> None:
    assert read_text(value) == expected


@pytest.mark.parametrize("value", [None, 1.0, math.nan, Decimal(1), date(2024, 1, 1), b"A", ["A"], np.array(["A"])])
def test_what_has_no_text_of_its_own_is_none(value: object) -> None:
    assert read_text(value) is None


NOON = count_microseconds(datetime(2024, 1, 31, 12))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2024, 1, 31, 12), NOON),
        (datetime(2024, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
        (date(2024, 1, 31), NOON - 12 * 3_600_000_000),
        (np.datetime64("2024-01-31T12"), NOON),
        (np.datetime64("2024-01-31T12:00:00.000000001"), NOON),
        (np.datetime64("2999999", "Y"), count_microseconds(LATEST)),
        (np.datetime64("-2999999", "Y"), count_microseconds(EARLIEST)),
        (pd.Timestamp("2024-01-31 12:00"), NOON),
        ("2024-01-31 12:00", NOON),
        ("2024-01-31T12:00:00.000000", NOON),
        (" 2024-01-31T12:00Z ", NOON),
        ("2024-01-31 12:00:00+00", NOON),
        ("2024-01-31 12:00:00+00:00", NOON),
        ("0001-01-01", count_microseconds(EARLIEST)),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), count_microseconds(EARLIEST)),
    ],
)
def test_moments_are_read(value: object, expected: int) -> None:
    assert read_datetime(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("2024-02-30", "2024-13-01", "0000-01-01", "10000-01-01", "20240131", "2024-1-1", "2024-01-31 24:00"),
        *("2024-01-31T12:00+02:00", "2024-01-31\n", "today", "", "2024-01-31 12", "2024-01-31 12:60"),
        *(None, 0, 1.5, pd.NaT, np.datetime64("NaT"), timedelta(1), b"2024-01-31"),
    ],
)
def test_what_is_no_moment_is_none(value: object) -> None:
    assert read_datetime(value) is None
