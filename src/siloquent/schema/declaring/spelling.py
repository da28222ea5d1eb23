"""The spelling of days and numbers in a file of texts, from an example, as settings under ``[reading]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from siloquent.errors import RequestError
from siloquent.schema.files.toml import quote_short, quote_text
from siloquent.schema.formats.value_formats import BETWEEN_FORMATS, list_candidates

ISO_DAY, POINT = "2024-12-31", "12.50"
"""The spellings that need no setting."""
DAYS = (ISO_DAY, "31.12.2024", "31/12/2024", "12/31/2024", "20241231")
"""The last day of a year in the commonest spellings: no number can be both its day and its month."""


def read_day_format(text: str) -> str:
    """Return the format in which ``text``, the 31st of December of any year, is written; "" for ISO days.

    Raises:
        RequestError: it is neither such a day nor a format.

    >>> read_day_format("31.12.2024"), read_day_format("12/31/2024"), read_day_format("2024-12-31")
    ('%d.%m.%Y', '%m/%d/%Y', '')
    """
    if len(parts := [part for part in re.split(r"\s*(?:\||\bor\b)\s*", text) if part]) > 1 and "%" not in text:
        formats = [read_day_format(part) or "%Y-%m-%d" for part in parts]
        return f" {BETWEEN_FORMATS} ".join(dict.fromkeys(formats))
    if "%" in text or not text:
        return "" if text == "%Y-%m-%d" else text
    for form in ("%Y-%m-%d", *(one.date for one in list_candidates("date"))):
        with suppress(ValueError):
            day = datetime.strptime(text, form)
            if (day.month, day.day) == (12, 31):
                return "" if form == "%Y-%m-%d" else form
    raise RequestError(
        f"{quote_short(text)} does not say how days are written: write the 31st of December as the file would.",
        fix=", ".join(DAYS[1:4]),
    )


def read_decimal_signs(text: str) -> dict[str, str]:
    """Return the settings for numbers that are written as ``text``; none for a decimal point alone.

    Raises:
        RequestError: it is not a number with decimals.

    >>> read_decimal_signs("1.234,50"), read_decimal_signs("12,50"), read_decimal_signs("12.50")
    ({'decimal': ',', 'thousands': '.'}, {'decimal': ','}, {})
    """
    named = {"": POINT, ".": POINT, "point": POINT, ",": "12,50", "comma": "12,50"}.get(text.casefold(), text)
    found = re.fullmatch(r"[0-9]{1,3}(?:([., '])[0-9]{3})*([.,])[0-9]{1,2}|[0-9]+()([.,])[0-9]+", named)
    if found is None or found[1] == (found[2] or found[4]):
        raise RequestError(
            f"{quote_short(text)} does not say how numbers are written: write one with decimals as the file would.",
            fix="12.50, or 12,50, or 1.234,50",
        )
    told = {"decimal": found[2] or found[4], "thousands": found[1] or ""}
    return {key: value for key, value in told.items() if value not in ("", ".") or (key == "thousands" and value)}


def write_settings(lines: str, keys: tuple[str, ...], settings: Mapping[str, str]) -> str:
    """Return the lines under ``[reading]`` with ``settings`` in place of those named ``keys``.

    >>> write_settings('skip = 1', ("decimal",), {"decimal": ","})
    'skip = 1\\ndecimal = ","'
    """
    kept = [line for line in lines.splitlines() if line.partition("=")[0].strip() not in keys]
    return "\n".join([*kept, *(f"{key} = {quote_text(value)}" for key, value in settings.items())])


def has_setting(lines: str, key: str) -> bool:
    """Return whether a line under ``[reading]`` sets ``key``."""
    return any(line.partition("=")[0].strip() == key for line in lines.splitlines())
