"""Amounts as they are typed elsewhere: 2,0 and 1_000 and 5 %."""

from __future__ import annotations

import re
from decimal import Decimal


def mend_amount(value: object) -> str:
    """Return an amount as text with a decimal point; "" if it is none, or not above 0.

    >>> mend_amount("2,0"), mend_amount("1_000"), mend_amount("5 %"), mend_amount("one")
    ('2.0', '1000', '0.05', '')
    """
    text = str(value).strip().replace("_", "").replace(" ", "")
    share = text.endswith("%")
    text = re.sub(r"^(-?\d+),(\d+)", r"\1.\2", text.rstrip("%"))
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,30}(\.\d{1,30})?([eE]-?\d{1,2})?", text):
        return ""
    number = Decimal(text) / 100 if share else Decimal(text)
    return "" if not number else f"{number:f}" if share else text
