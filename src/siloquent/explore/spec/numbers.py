"""Numbers in user input, kept exactly: a query's meaning never depends on a float."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.foreign.numbers import is_plain_number

MAX_DIGITS = 60
_MAX_TEXT_LENGTH = 3 * MAX_DIGITS


def parse_decimal(value: object, what: str) -> Decimal:
    """Parse ``value`` as a decimal: an int, a Decimal, text, or a float as Python prints it (0.1 is one tenth).

    Raises:
        RequestError: it is not a finite number, or has more than 60 digits before or after the point.
    """
    try:
        text = str(value).strip()
        if isinstance(value, bool) or len(text) > _MAX_TEXT_LENGTH or not is_plain_number(text):
            raise ValueError
        number = Decimal(text)
    except (ValueError, InvalidOperation):
        raise RequestError(f"{what} must be a number such as 200, 0.5 or 1e-6.") from None
    check_number(number, what)
    return number


def read_number(text: str) -> Decimal | None:
    """Return the number that ``text`` spells; None if it spells none.

    >>> read_number("1.5e3"), read_number("12 May")
    (Decimal('1.5E+3'), None)
    """
    try:
        return parse_decimal(text, "A constant")
    except RequestError:
        return None


def check_number(number: Decimal | int, what: str, *, before: int = MAX_DIGITS, after: int = MAX_DIGITS) -> None:
    """Refuse a number that is not finite or has more than ``before`` or ``after`` digits around the point.

    Without a limit, exact arithmetic with a number such as 1e999999999 would never end.
    """
    if isinstance(number, int):
        fits = abs(number) < 10**before
    elif not number.is_finite():
        raise RequestError(f"{what} must be a finite number, not {number}.")
    else:
        # The tuple is cheap for any exponent; the number itself must not be written out.
        fits = -after <= int(number.as_tuple().exponent) < before and number.adjusted() < before
    if not fits:
        raise RequestError(f"{what} can have at most {before} digits before and {after} after the decimal point.")


def format_number(number: Decimal | int) -> str:
    """Return the shortest decimal text of ``number``, without exponent: equal numbers have equal texts.

    >>> format_number(Decimal("2.50")), format_number(Decimal("1E+3"))
    ('2.5', '1000')
    """
    text = format(number, "f") if isinstance(number, Decimal) else str(number)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def format_share(share: Fraction) -> str:
    """Return a number in (0, 1) as decimal text if it has one of at most 60 places, else as ``a/b``.

    >>> format_share(Fraction(1999, 2000)), format_share(Fraction(2, 3))
    ('0.9995', '2/3')
    """
    for places in range(1, MAX_DIGITS + 1):
        if 10**places % share.denominator == 0:
            digits = share.numerator * 10**places // share.denominator
            return f"0.{digits:0{places}d}"
    return f"{share.numerator}/{share.denominator}"
