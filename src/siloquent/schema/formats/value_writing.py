"""Typed values as texts in a declared format, so that one column of a workbook may hold numbers, dates and texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from siloquent.schema.files.coercion import count_microseconds, read_datetime
from siloquent.schema.formats.value_formats import BETWEEN_FORMATS, MONTHS, Family, ValueFormat

DAY_US = 86_400_000_000
_FULL = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
         "December")  # fmt: skip


def write_number(text: str, form: ValueFormat, family: Family) -> str:
    """Return a number such as ``1234.5`` as a column of that format holds it.

    >>> write_number("1234.5", ValueFormat(decimal=","), "number")
    '1234,5'
    """
    return text.replace(".", form.decimal) if family == "number" else text


def write_moment(moment: datetime, form: ValueFormat, family: Family) -> str:
    """Return a moment as a column of that format holds it; ISO 8601, which such a column does not read, if it cannot.

    >>> write_moment(datetime(2024, 2, 1), ValueFormat(date="%d.%m.%Y"), "date")
    '01.02.2024'
    >>> write_moment(datetime(1934, 2, 1), ValueFormat(date="%d.%m.%y"), "date")
    '1934-02-01'
    """
    iso = _write_iso(moment)
    declared = form.get_date_format(family)
    for one in declared.split(BETWEEN_FORMATS) if declared else ():
        written = re.sub("%(.)", lambda field: _write_field(field[1], moment, form.time_zone), one.strip(" "))
        read, meant = read_datetime(form.rewrite(written, family)), count_microseconds(moment)
        if read is not None and (read == meant or (family == "date" and read == meant - meant % DAY_US)):
            return written
    return iso


def _write_iso(moment: datetime) -> str:
    if moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")


def _write_field(letter: str, moment: datetime, time_zone: str) -> str:
    numbers = {
        "Y": f"{moment.year:04}",
        "y": f"{moment.year % 100:02}",
        "m": f"{moment.month:02}",
        "d": f"{moment.day:02}",
        "H": f"{moment.hour:02}",
        "I": f"{(moment.hour - 1) % 12 + 1:02}",
        "M": f"{moment.minute:02}",
        "S": f"{moment.second:02}",
        "f": f"{moment.microsecond:06}",
        "p": "AM" if moment.hour < 12 else "PM",
        "b": MONTHS[moment.month - 1].title(),
        "B": _FULL[moment.month - 1],
    }
    return numbers[letter] if letter in numbers else _write_offset(moment, time_zone)


def _write_offset(moment: datetime, time_zone: str) -> str:
    from zoneinfo import ZoneInfo

    local = moment.replace(tzinfo=ZoneInfo(time_zone) if time_zone else UTC)
    return f"{local:%z}"[:5]
