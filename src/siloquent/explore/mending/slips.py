"""Slips of syntax that are the same for every table: words of other dialects, quotes, brackets, numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from siloquent.explore.mending.masking import NAME, TEXT, Masked
from siloquent.explore.spec.language.render_conditions import render_name

_CLAUSE = (
    r"(?=\s*(?:\bFROM\b|\bWHERE\b|\bGROUP\b|\bHAVING\b|\bORDER\b|\bLIMIT\b|\bERROR\b|\bBUDGET\b|\bCONFIDENCE\b|;|$))"
)
_TAIL = r"(?=\s*(?:\bERROR\b|\bBUDGET\b|\bCONFIDENCE\b|\bFOR\b|\bREUSE\b|\bPREFER\b|;|$))"
_TYPE = r"[A-Za-z]\w*(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?"
_AFTER_TABLE = (
    "WHERE|GROUP|HAVING|ORDER|LIMIT|JOIN|ERROR|BUDGET|CONFIDENCE|FOR|REUSE|PREFER|ON|USING|LEFT|RIGHT|INNER|CROSS"
)
_QUOTES = str.maketrans({"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"'})

_OTHER_TABLES = (
    r"\s*(?:(?:LEFT|RIGHT|FULL|INNER|OUTER|CROSS|NATURAL|JOIN|,)\s*)+"
    rf"{NAME}(?:\s+ON\s+\S+\s*=\s*\S+|\s+USING\s*\([^)]*\))?"
)

REPLACEMENTS: tuple[tuple[str, str], ...] = (
    # numbers and accuracy
    (r"(?<=\d)[_'](?=\d)", ""),
    (r"\b(\d{1,3})\.(\d{3}),(\d+)\b", r"\1\2.\3"),
    (r"\b(?:WITHIN|ERR|ACCURACY|TOLERANCE|MARGIN)\s*[=:]?\s*(?=[\d.])", "ERROR "),
    (r"\bERROR\s*(?:[=:]|\+\s*-|±)\s*", "ERROR "),
    (r"\b(ERROR\s+[\d.]+)\s*%", r"\1 PERCENT"),
    (r"\s*\bRELATIVE\b", ""),
    (r"\bCONFIDENCE\s+0,(\d+)", r"CONFIDENCE 0.\1"),
    (r"\bCONFIDENCE\s+(?:[-+]?[\d.]+)?\s*%?", "CONFIDENCE 0.9995 "),
    (r"\bBUDGET\s+(\d+),(\d+)", r"BUDGET \1.\2"),
    (r"\bBUDGET\s+([\d.]+(?:e-?\d+)?)(?:\s*(?:EPS|E))?(?!\s*(?:EPSILON|RHO|[\d.,]))\b", r"BUDGET \1 EPSILON"),
    (r"(?<!\d )\b(?:EPSILON|EPS)\s*=?\s*([\d.]+)", r"BUDGET \1 EPSILON"),
    (r"\bRHO\s+DELTA\s+\S+", "RHO"),
    (r"\b(?:RHO|EPSILON)\b(?:\s+DELTA\s+\S+)?", "EPSILON"),
    # NULL and conditions
    (r"(?:!=|<>)\s*NULL\b", "IS NOT NULL"),
    (r"(?:==?|\bIS\s*=)\s*NULL\b", "IS NULL"),
    (r"\bISNULL\b", "IS NULL"),
    (r"\bNOTNULL\b", "IS NOT NULL"),
    (r"\bIS\s+(?:TRUE|NOT\s+FALSE)\b", "= TRUE"),
    (r"\bIS\s+(?:FALSE|NOT\s+TRUE)\b", "= FALSE"),
    (r"\bIN\s*\((.*?),\s*NULL\s*\)", r"IN (\1)"),
    (r"&&", "AND"),
    (r"\|\|", "OR"),
    (r"=>", ">="),
    (r"=<", "<="),
    (r"(?<=[\w)\s])/(?=[\w(\s])", "//"),
    (r"\bILIKE\b|~~?\*?|\bSIMILAR\s+TO\b|\bREGEXP\b|\bRLIKE\b|\bGLOB\b", "LIKE"),
    (rf"((?:{NAME}|{TEXT}|[\d.]+))\s*::\s*{_TYPE}", r"\1"),
    (rf"\b(?:TRY_)?CAST\s*\(\s*([^()]+?)\s+AS\s+{_TYPE}\s*\)", r"\1"),
    (r"\b(?:floor|ceil|ceiling|trunc|int|round)\s*\(\s*([^()]+?)\s*/+\s*(\d+)\s*\)", r"\1 // \2"),
    (r"\b(?:floor|ceil|ceiling|trunc|int)\s*\(([^()]*)\)", r"\1"),
    (r"\bBETWEEN\s+(\S+?)\s*,\s*(\S+)", r"BETWEEN \1 AND \2"),
    (r"\bBETWEEN\s+([^\s,]+)\s+(?!AND\b)([^\s,]+)", r"BETWEEN \1 AND \2"),
    (rf"\bIN\s+({TEXT}|[\d.]+)(?!\s*,)", r"IN (\1)"),
    (rf"({NAME})\s+IN\s*\(\s*(-?[\d.]*\d)\s*\.\.\s*(-?[\d.]+)\s*\)", r"\1 BETWEEN \2 AND \3"),
    (rf"(-?\b[\d.]+)\s*(<=?|>=?)\s*({NAME})\s*(<=?|>=?)\s*(-?[\d.]+)", r"\1 \2 \3 AND \3 \4 \5"),
    (rf"({NAME})\s*=\s*({TEXT}|[\d.]+)\s+OR\s+({TEXT}|[\d.]+)(?!\s*[=<>])", r"\1 = \2 OR \1 = \3"),
    # aggregates
    (r"\b(?:MEAN|AVERAGE)\s*\(", "AVG("),
    (r"\bTOTAL\s*\(", "SUM("),
    (r"\b(?:STDDEV_SAMP|STDEV|STD|SD)\s*\(", "STDDEV("),
    (r"\b(?:VARIANCE|VAR_SAMP)\s*\(", "VAR("),
    (rf"\bMAX\s*\(\s*({NAME})\s*\)", r"QUANTILE(\1, 0.99)"),
    (rf"\bMIN\s*\(\s*({NAME})\s*\)", r"QUANTILE(\1, 0.01)"),
    (
        rf"\bPERCENTILE_(?:CONT|DISC)\s*\(\s*([\d.]+)\s*\)\s*WITHIN\s+GROUP\s*\(\s*ORDER\s+BY\s+({NAME})[^()]*\)",
        r"QUANTILE(\2, \1)",
    ),
    (r"\bQUANTILE_(?:CONT|DISC)\b", "QUANTILE"),
    (
        rf"\bSELECT\s+MODE\s*\(\s*({NAME})\s*\)\s+FROM\s+({NAME})(.*?){_TAIL}",
        r"SELECT \1 FROM \2\3 GROUP BY \1 ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        rf"\bSELECT\s+DISTINCT\s+({NAME})\s+FROM\s+({NAME})([^;]*?){_TAIL}",
        r"SELECT \1, COUNT(*) FROM \2\3 GROUP BY \1",
    ),
    (
        rf"\bSELECT\s+COUNT\s*\(\s*DISTINCT\s+({NAME})\s*\)\s+FROM\s+({NAME})([^;]*?){_TAIL}",
        r"SELECT \1, COUNT(*) FROM \2\3 GROUP BY \1",
    ),
    (rf"\b(?:SUM|AVG|MEDIAN|VAR|STDDEV)\s*\(\s*({NAME})\s*\)", "COUNT(*)"),
    (
        r"\b(?:FIRST|LAST|ANY_VALUE|ARRAY_AGG|LIST|STRING_AGG|GROUP_CONCAT|CORR|COVAR\w*|MODE|MIN|MAX|AVG|SUM|MEDIAN|"
        r"APPROX_COUNT_DISTINCT|COUNT_IF|COUNTIF|STDDEV\w*|VAR\w*|QUANTILE\w*)\s*\([^()]*\)",
        "COUNT(*)",
    ),
    (r"\bCOUNT\s*\(\s*(?:DISTINCT\b)?[^()]*\)?(?=\s|,|$)", "COUNT(*)"),
    (r"\bCOUNT\b(?!\s*\()\s*(?:\*\s*\)?)?", "COUNT(*) "),
    (r"\s*\b(?:OVER|FILTER)\s*\([^()]*\)", ""),
    (r"\bCOUNT\(\*\)\s*,\s*COUNT\(\*\)", "COUNT(*)"),
    (rf"\b(SUM|AVG|VAR|STDDEV|MEDIAN)\s*\(\s*({NAME})\s*(?:[-+*%]|//?)\s*{NAME}\s*\)", r"\1(\2)"),
    (rf"\b(SUM|AVG|VAR|STDDEV|MEDIAN)\s*\(\s*{NAME}\s*(?:[-+*%]|//?)\s*({NAME})\s*\)", r"\1(\2)"),
    # items, tables, groups and order
    (r"\bSELECT\s+(?:TOP\s+\d+\s+)?\*", "SELECT COUNT(*)"),
    (r"\bSELECT\s+(?:TOP\s+\d+|ALL|DISTINCT)\s+", "SELECT "),
    (rf"\b(FROM|BIN)\s+({NAME})\s+(?:AS\s+)?(?!(?:{_AFTER_TABLE})\b){NAME}\b", r"\1 \2"),
    (rf"\b{NAME}\s*\.\s*({NAME})", r"\1"),
    (rf"\s+AS\s+{NAME}", ""),
    (rf"({NAME})\s+(?!(?:FROM|AS)\b){NAME}(?=\s*,|\s+FROM\b)", r"\1"),
    (rf"\b(FROM\s+{NAME}){_OTHER_TABLES}", r"\1"),
    (rf"\bFROM\s+({NAME})\s*,\s*{NAME}", r"FROM \1"),
    (r"\bGROUPBY\b", "GROUP BY"),
    (r"\bGROUP\s+(?!BY\b)", "GROUP BY "),
    (r"(?<!GROUP )(?<!ORDER )\bBY\b", "GROUP BY"),
    (r"\b(?:ROLLUP|CUBE|GROUPING\s+SETS)\s*\(\s*\(?([^()]*)\)?\s*\)", r"\1"),
    (r",\s*(?=\))", ""),
    (rf",{_CLAUSE}", ""),
    (r"\bSELECT\s*,", "SELECT "),
    (r"\s*\b(?:OFFSET|FETCH)\b\s+\S+(?:\s+ROWS?)?(?:\s+ONLY)?", ""),
    (r"\bLIMIT\s+(?:-?\d*\.?\d+)\s*(?:%|PERCENT\b)?", "LIMIT 3"),
    (r"\s*\bLIMIT\s+\S+(?:\s+OFFSET\s+\S+)?", ""),
    (r"\b(ORDER\s+BY\s+COUNT\(\*\)(?:\s+(?:DESC|ASC))?)(?!\s+(?:LIMIT|DESC|ASC))", r"\1 LIMIT 3"),
    (rf"\s*\bORDER\s+BY\b.*?{_TAIL}", ""),
    (r"\s*\bHAVING\b.*?(?=\s*\bORDER\b|\s*\bLIMIT\b)", ""),
    (rf"\s*\bHAVING\b.*?{_TAIL}", ""),
    (rf"\s*\bHAVING\b.*?\bORDER\b.*?{_TAIL}", ""),
    (r"\s*\bFOR\s+AT\s+LEAST\b(?:\s+\S+)?(?:\s+ROWS)?", ""),
    (r"\s*\b(?:REUSE|PREFER)\b(?:\s+\S+)?", ""),
    (r"\s*(?:;|\bUNION\b|\bINTERSECT\b|\bEXCEPT\b).*", ""),
    (r".*?\bFROM\s*\(\s*(SELECT\b[^()]*(?:\([^()]*\)[^()]*)*)\).*", r"\1"),
    (r"\bWITH\s+\S+\s+AS\s*\(\s*(SELECT\b[^()]*(?:\([^()]*\)[^()]*)*)\).*", r"\1"),
    (r"\bEXPLAIN\b(?:\s+\w+)?\s+(?=SELECT|BIN)", ""),
    (r"\bWHERE\s+(?:AND|OR)\b", "WHERE"),
    (rf"\b(?:AND|OR|WHERE|NOT){_CLAUSE}", ""),
    (r"\b(AND|OR)\s+(?:AND|OR)\b", r"\1"),
    (r"\b(SELECT\b.*?)(?<!FROM )\bWHERE\b(.*?)\bFROM\s+(\S+)", r"\1 FROM \3 WHERE\2"),
)
"""Patterns over masked text, with what is meant; specific ones first, those that leave something out last."""


def list_slips(text: str, *, position: int | None) -> Iterator[str]:
    """Yield ``text`` with one slip corrected at a time."""
    straight = text.translate(_QUOTES)
    if straight != text:
        yield straight
        yield straight.replace('"', "'")
    yield from _double_apostrophes(text)
    yield from _close_quotes(text)
    masked = Masked(text)
    yield from masked.replace_each(
        rf"`([^`]+)`|\[({NAME}(?: {NAME})*)\]",
        lambda found: render_name(masked.unmask(found[1] or found[2]).strip('"')),
    )
    yield from _join_thousands(masked)
    yield from masked.replace_each(r"\bCONFIDENCE\s+(\d{2}(?:\.\d+)?)\s*(?:%|PERCENT\b)?", _read_percent)
    yield from masked.replace_each(rf"\bERROR\s+({TEXT})", lambda found: f"ERROR {masked.read(found[1])}")
    for pattern, meant in REPLACEMENTS:
        yield from masked.replace_each(pattern, meant)
    yield from _balance(masked)
    yield from _order_clauses(masked)
    if position is not None and position < len(text):
        word = re.match(r"\S+\s*", text[position:])
        if word:
            yield text[:position] + text[position + word.end() :]


def _double_apostrophes(text: str) -> Iterator[str]:
    """Yield ``text`` with an apostrophe inside a word, as in ``St Mary's``, written twice."""
    if text.count("'") % 2 and len(text) < 4_096:
        places = [found.start() for found in re.finditer(r"(?<=\w)'(?=\w)", text)][:4]
        yield from (text[:at] + "'" + text[at:] for at in places)


def _close_quotes(text: str) -> Iterator[str]:
    """Yield ``text`` with the quote that nothing closes left out, or closed before a later word."""
    if text.count("'") % 2 and len(text) < 4_096:
        at = text.rindex("'")
        words = [found.end() for found in re.finditer(r"[\w%]+", text[at:])][:4]
        yield from (text[: at + end] + "'" + text[at + end :] for end in words)
        before = [found.start() for found in re.finditer(r"[\w%]+", text[:at])][-3:]
        yield from (text[:start] + "'" + text[start:] for start in reversed(before))
        yield text[:at] + text[at + 1 :]
    if text.count('"') % 2:
        at = text.rindex('"')
        yield text[:at] + text[at + 1 :]


def _join_thousands(masked: Masked) -> Iterator[str]:
    yield from masked.replace_each(r"\b\d{1,3}(?:,\d{3})+(?![\d.])", lambda found: found[0].replace(",", ""))


def _read_percent(found: re.Match[str]) -> str | None:
    share = Decimal(found[1]) / 100
    return f"CONFIDENCE {share.normalize():f}" if 0 < share < 1 else None


_END = re.compile(r"\s*\b(?:FROM|WHERE|GROUP|HAVING|ORDER|ERROR|BUDGET|AND|OR)\b|,|\s*$", re.IGNORECASE)


def _balance(masked: Masked) -> Iterator[str]:
    """Yield the text with a missing bracket added, or one too many left out."""
    text = masked.text
    for opening, closing in ("()", "{}"):
        over = text.count(opening) - text.count(closing)
        for found in _END.finditer(text) if over > 0 else ():
            yield masked.unmask(text[: found.start()] + closing * over + text[found.start() :])
        for found in re.finditer(re.escape(closing), text) if over < 0 else ():
            yield masked.unmask(text[: found.start()] + text[found.end() :])
        for found in re.finditer(r"(?<=[A-Za-z=])\s?(?=[\w*])", text) if over < 0 else ():
            yield masked.unmask(text[: found.start()] + opening + text[found.end() :])


_WORDS = (
    *("SELECT", "BIN", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY"),
    *("ERROR", "BUDGET", "CONFIDENCE", "FOR AT LEAST", "REUSE", "PREFER"),
)


def _order_clauses(masked: Masked) -> Iterator[str]:
    """Yield the text with its clauses in order; of clauses that stand there twice, the first."""
    pattern = "|".join(r"\b" + word.replace(" ", r"\s+") + r"\b" for word in _WORDS)
    found = list(re.finditer(pattern, masked.text, re.IGNORECASE))
    if len(found) < 2:
        return
    ends = [one.start() for one in found[1:]] + [len(masked.text)]
    parts: dict[str, str] = {}
    for one, end in zip(found, ends, strict=True):
        parts.setdefault(re.sub(r"\s+", " ", one[0].upper()), masked.text[one.start() : end].strip())
    yield masked.unmask(
        " ".join([masked.text[: found[0].start()].strip(), *(parts[word] for word in _WORDS if word in parts)]).strip()
    )
