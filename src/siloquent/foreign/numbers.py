"""Numbers in untrusted texts: ASCII digits, without separators."""

from __future__ import annotations


def is_plain_number(text: str) -> bool:
    """Return whether ``text`` has only characters of plain numbers; it need not be a valid number.

    Python also accepts ``1_000`` and digits of other scripts, so that an amount could have one value here and another,
    or none, in SQL, in TOML and in the engines.

    >>> is_plain_number("1e3"), is_plain_number("1_000"), is_plain_number("\N{ARABIC-INDIC DIGIT ONE}")
    (True, False, False)
    """
    return text.isascii() and "_" not in text


def parse_plain_float(text: str) -> float:
    """Return ``text`` as a double.

    Raises:
        ValueError: It is not a number, or has characters that plain numbers do not have.
    """
    return float(_require_plain(text))


def parse_plain_int(text: str) -> int:
    """Return ``text`` as a whole number.

    Raises:
        ValueError: as ``parse_plain_float``.
    """
    return int(_require_plain(text))


def _require_plain(text: str) -> str:
    if not is_plain_number(text):
        raise ValueError("digits are 0 to 9, with nothing between them")
    return text
