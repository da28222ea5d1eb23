"""The conditions of a question that a corrected one lacks: it says which, since its answer is about other rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from siloquent.charts.chart import remove_unprintable
from siloquent.explore.mending.masking import Masked

MAX_CONDITIONS, MAX_SHOWN = 24, 80
_BEGIN = re.compile(r"\b(?:WHERE|HAVING)\b(?!\s*W\s*=)", re.IGNORECASE)
_SIGNS = re.compile(r"[()]|;|\b(?:GROUP|HAVING|ORDER|LIMIT|ERROR|BUDGET|CONFIDENCE|FOR|REUSE|PREFER)\b", re.IGNORECASE)


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
    for part in _iter_parts(masked.text):
        between = re.sub(r"\b(BETWEEN\s+\S+\s+)AND\b", lambda one: one[1] + "&&&", part, flags=re.IGNORECASE)
        pieces = re.split(r"\b(?:AND|OR)\b", between, flags=re.IGNORECASE)
        found += [masked.unmask(one.replace("&&&", "AND")).strip() for one in pieces if one.strip()]
    return [_balance(re.sub(r"\s+", " ", one)) for one in found]


def _iter_parts(text: str) -> Iterator[str]:
    """Yield what follows each WHERE and HAVING, up to the next clause or the parenthesis around both."""
    end = 0
    while (begin := _BEGIN.search(text, end)) is not None:
        depth, end = 0, len(text)
        for sign in _SIGNS.finditer(text, begin.end()):
            if depth == 0 and sign[0] != "(":
                end = sign.start()
                break
            depth += {"(": 1, ")": -1}.get(sign[0], 0)
        yield text[begin.end() : end]


def _balance(piece: str) -> str:
    """Return ``piece`` without the parentheses at its ends whose partners stand in another piece."""
    while piece.startswith("(") and piece.count("(") > piece.count(")"):
        piece = piece[1:].lstrip()
    while piece.endswith(")") and piece.count(")") > piece.count("("):
        piece = piece[:-1].rstrip()
    return piece
