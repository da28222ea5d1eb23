"""Numbers stay what was written."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import RequestError
from siloquent.explore.spec.numbers import check_number, format_number, format_share, parse_decimal


@pytest.mark.parametrize(
    ("given", "read"), [(5, "5"), (0.1, "0.1"), (" 1e-3 ", "0.001"), (Decimal("2.50"), "2.5"), ("-7", "-7")]
)
def test_a_number_is_read_exactly(given: object, read: str) -> None:
    assert parse_decimal(given, "it") == Decimal(read)


@pytest.mark.parametrize(
    "given", [True, None, "", "x", "1_000", "nan", "inf", "1e60", "1e-61", pytest.param(10**5_000, id="huge"), [5]]
)
def test_what_is_no_finite_number_of_sane_length_is_refused(given: object) -> None:
    with pytest.raises(RequestError, match="it "):
        parse_decimal(given, "it")


@pytest.mark.parametrize("number", [Decimal("0e999999999"), Decimal("1e-999999999"), Decimal("9" * 61), 10**60])
def test_a_number_that_cannot_be_written_out_is_refused_at_once(number: Decimal | int) -> None:
    with pytest.raises(RequestError, match="60 after the decimal point"):
        check_number(number, "it")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Decimal("2.500"), "2.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.0"), "0"),
        (Decimal("1e-6"), "0.000001"),
        (-5, "-5"),
    ],
)
def test_equal_numbers_have_equal_texts(number: Decimal | int, text: str) -> None:
    assert format_number(number) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Fraction(1, 2), "0.5"),
        (Fraction(1999, 2000), "0.9995"),
        (Fraction(2, 3), "2/3"),
        (Fraction(1, 10**60), f"0.{'0' * 59}1"),
    ],
)
def test_a_share_is_a_decimal_where_it_has_one(share: Fraction, text: str) -> None:
    assert format_share(share) == text
