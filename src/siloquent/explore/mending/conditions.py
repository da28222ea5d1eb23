"""The conditions of a question that a corrected one lacks: it says which, since its answer is about other rows."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from siloquent.charts.chart import remove_unprintable
from siloquent.explore.mending.masking import Masked

MAX_CONDITIONS, MAX_SHOWN = 24, 80
_END = r"(?=\s*\b(?:GROUP|HAVING|ORDER|LIMIT|ERROR|BUDGET|CONFIDENCE|FOR|REUSE|PREFER)\b|\)|;|$)"
_PARTS = re.compile(rf"\b(?:WHERE|HAVING)\b(?!\s*W\s*=)\s*(.*?){_END}", re.IGNORECASE | re.DOTALL)


def tell_lost_conditions(text: str, mended: str) -> str:
    """Return ``mended``, with a comment that names the conditions of ``text`` that it lacks.

    >>> tell_lost_conditions("SELECT COUNT(*) FROM v WHERE a > 1 AND b = 2 ERROR 5", "SELECT COUNT(*) FROM v ERROR 5")
    'SELECT COUNT(*) FROM v ERROR 5 /* left out: a > 1, b = 2 */'
    """
    before, after = _list_conditions(text), _list_conditions(mended)
    if not len(after) < len(before) <= MAX_CONDITIONS:
        return mended
    for kept in after:
        before.remove(max(before, key=lambda one: SequenceMatcher(None, one.casefold(), kept.casefold()).ratio()))
    told = remove_unprintable(", ".join(before)).replace("*/", "")
    return f"{mended} /* left out: {told if len(told) <= MAX_SHOWN else f'{told[:MAX_SHOWN]}...'} */"


def _list_conditions(text: str) -> list[str]:
    """Return what stands between AND and OR in WHERE and HAVING."""
    masked = Masked(text)
    found: list[str] = []
    for part in _PARTS.finditer(masked.text):
        between = re.sub(r"\b(BETWEEN\s+\S+\s+)AND\b", lambda one: one[1] + "&&&", part[1], flags=re.IGNORECASE)
        pieces = re.split(r"\b(?:AND|OR)\b", between, flags=re.IGNORECASE)
        found += [masked.unmask(one.replace("&&&", "AND")).strip() for one in pieces if one.strip()]
    return [re.sub(r"\s+", " ", one) for one in found]
