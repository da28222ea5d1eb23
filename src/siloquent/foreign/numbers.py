"""Numbers in texts that people and other machines write: ASCII digits, and nothing between them."""

from __future__ import annotations


def is_plain_number(text: str) -> bool:
    """Whether ``text`` has only characters that numbers are written with; what it says is for its reader to find out.

    Python also reads ``1_000`` and digits of other scripts, so that one amount would be one thing here and another, or
    nothing, in SQL, in TOML and in the engines.

    >>> is_plain_number("1e3"), is_plain_number("1_000"), is_plain_number("\N{ARABIC-INDIC DIGIT ONE}")
    (True, False, False)
    """
    return text.isascii() and "_" not in text


def parse_plain_float(text: str) -> float:
    """``text`` as a double.

    Raises:
        ValueError: it is no number, or has other characters than numbers are written with.
    """
    return float(_require_plain(text))


def parse_plain_int(text: str) -> int:
    """``text`` as a whole number.

    Raises:
        ValueError: as ``parse_plain_float``.
    """
    return int(_require_plain(text))


def _require_plain(text: str) -> str:
    if not is_plain_number(text):
        raise ValueError("digits are 0 to 9, with nothing between them")
    return text
