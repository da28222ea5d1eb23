"""The words of the language; and for unsupported SQL words, the reason and an alternative."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from siloquent.fixes import AskWith, FixLike

_RESERVED = "SELECT FROM WHERE GROUP HAVING ORDER LIMIT AND OR NOT IN LIKE BETWEEN IS NULL TRUE FALSE AS ERROR BUDGET"
RESERVED = frozenset(_RESERVED.split())
"""Words that are names only in double quotes; all others are distinguished from names by their position."""

CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "ERROR", "BUDGET")
TAIL = ("ERROR", "BUDGET", "CONFIDENCE", "FOR", "AT", "BY", "REUSE", "PREFER")
LIMITS = ("LIMIT", "OFFSET", "FETCH")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


class Refusal(NamedTuple):
    """The reason why a query is not supported, and an alternative."""

    reason: str
    fix: FixLike


_ROWS = Refusal(
    "Queries cannot return rows, only counts and sums.",
    AskWith("SELECT COUNT(*) FROM visits ERROR 200"),
)
_READS = Refusal("Queries can only read data.", "begin with SELECT, BIN or EXPLAIN PRIVACY")
_JOIN = Refusal("A query takes one table, or two tables joined on one key.", "FROM visits JOIN wards USING (ward)")
_NESTED = Refusal(
    "Subqueries are supported only in FROM and WITH, where they choose rows and columns of one table.",
    "write the condition with AND, OR and NOT over attributes",
)
_SETS = Refusal("UNION, INTERSECT and EXCEPT are not supported.", "run two queries")
_WINDOW = Refusal("Window functions are not supported: they return single rows.", "use COUNT(*) or SUM with GROUP BY")
_LIMIT = Refusal(
    "LIMIT, OFFSET and FETCH come after GROUP BY, HAVING and ORDER BY, and before ERROR or BUDGET.",
    AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 200"),
)
_PARAMETER = Refusal("Query parameters are not supported.", "write the value itself: age > 30")
_CAST = Refusal(
    "Casts are not supported: attributes have their declared type.", "write the constant in the attribute's type"
)
_SETTINGS = Refusal(
    "Only plain GROUP BY is supported.", AskWith("BIN visits ON COUNT(*) WHERE W = CUBE(ward, sex) ERROR 200")
)
_CONDITION = Refusal("This test is not supported.", "use =, <, BETWEEN, IN, LIKE, IS NULL with AND, OR, NOT")
_SAMPLE = Refusal("Sampling is not supported: answers cover all rows.", "remove the sampling clause")

_STATEMENTS = """INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE ATTACH DETACH COPY EXPORT IMPORT INSTALL LOAD
    PRAGMA SET CALL EXECUTE PREPARE VACUUM GRANT REVOKE BEGIN COMMIT ROLLBACK USE SHOW DESCRIBE SUMMARIZE VALUES"""

WHY_NOT: dict[str, Refusal] = {
    "*": _ROWS,
    "::": _CAST,
    "CAST": _CAST,
    "TRY_CAST": _CAST,
    "SELECT": _NESTED,
    "EXISTS": _NESTED,
    "WITH": _NESTED,
    "ANY": _NESTED,
    "SOME": _NESTED,
    **dict.fromkeys(("UNION", "INTERSECT", "EXCEPT", "MINUS"), _SETS),
    **dict.fromkeys(
        ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ASOF", "POSITIONAL", "LATERAL"), _JOIN
    ),
    **dict.fromkeys(("OVER", "WINDOW", "QUALIFY", "PARTITION"), _WINDOW),
    **dict.fromkeys(LIMITS, _LIMIT),
    **dict.fromkeys(("TABLESAMPLE", "USING", "SAMPLE"), _SAMPLE),
    **dict.fromkeys(("?", "$", "@", ":"), _PARAMETER),
    **dict.fromkeys(("ROLLUP", "GROUPING", "SETS"), _SETTINGS),
    **dict.fromkeys(("SIMILAR", "GLOB", "REGEXP", "RLIKE", "MATCH", "~", "ESCAPE"), _CONDITION),
    **dict.fromkeys(_STATEMENTS.split(), _READS),
    "DISTINCT": Refusal(
        "DISTINCT is supported only in COUNT(DISTINCT attribute), and with all keys of GROUP BY: which values occur is "
        "private.",
        AskWith("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 50"),
    ),
    "FILTER": Refusal("FILTER follows an aggregate.", "COUNT(*) FILTER (WHERE ward IS NOT NULL)"),
    "RELATIVE": Refusal(
        "An error relative to the true count would reveal that count.", "ERROR 200, or ERROR 2 PERCENT of size_hint"
    ),
    "NULLS": Refusal("NULLS FIRST and NULLS LAST follow a key of ORDER BY.", "ORDER BY ward DESC NULLS LAST"),
    "KEYS": Refusal(
        "Groups of undeclared values are not supported: the list of values would itself reveal data.",
        "declare the attribute's values, then GROUP BY it",
    ),
    "INTERVAL": Refusal("An INTERVAL is added to a date.", "day >= DATE '2024-01-31' - INTERVAL '3' MONTH"),
    ";": Refusal("Only one query at a time is supported.", "run the queries one after another"),
}
"""Refusals for words at positions where nothing in the language fits; as column names, the words are allowed."""

_BOUNDS = Refusal("MIN and MAX are not supported: they reveal values of single people.", "QUANTILE(cost, 0.99)")
_PAIRS = Refusal(
    "Aggregates take exactly one attribute.", AskWith("BIN visits ON COUNT(*) WHERE W = CUBE(ward, sex) ERROR 200")
)
_MODE = Refusal(
    "MODE is not supported; rank the groups by their counts.", "GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1"
)


def quote_name(name: str) -> str:
    """Return ``name`` as written in a query: in double quotes if needed, and shortened if it is very long."""
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,39}", name) and name.upper() not in RESERVED
    return name if is_plain else '"{}"'.format(name[:40].replace('"', '""'))


def suggest_bounds(attribute: str, *, largest: bool) -> str:
    """Return the alternative to querying the first or last value of ``attribute``."""
    return f"QUANTILE({quote_name(attribute)}, {'0.99' if largest else '0.01'}) with an ERROR in rows"


def replace_names(example: str, own: Mapping[str, str]) -> str:
    """Return ``example`` with visits, ward and cost replaced by the names in the user's own query.

    >>> replace_names("SELECT ward, COUNT(*) FROM visits GROUP BY ward", {"ward": "station", "visits": "stays"})
    'SELECT station, COUNT(*) FROM stays GROUP BY station'
    """
    return _EXAMPLE.sub(lambda found: quote_name(own.get(found[0], found[0])), example)


_EXAMPLE = re.compile(r"\b(visits|ward|cost)\b")


OTHER_AGGREGATES: dict[str, Refusal] = {
    **dict.fromkeys(("MIN", "MAX", "ARG_MIN", "ARG_MAX"), _BOUNDS),
    **dict.fromkeys(("CORR", "COVAR_POP", "COVAR_SAMP"), _PAIRS),
    "MODE": _MODE,
    **dict.fromkeys(("FIRST", "LAST", "ANY_VALUE", "ARRAY_AGG", "LIST", "STRING_AGG", "GROUP_CONCAT"), _ROWS),
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD"), _WINDOW),
}
"""SQL functions over many rows that are not supported, or not yet."""

AGGREGATES = (
    "COUNT",
    "APPROX_COUNT_DISTINCT",
    "COUNT_IF",
    "COUNTIF",
    "SUM",
    "AVG",
    "VAR",
    "VAR_POP",
    "VAR_SAMP",
    "VARIANCE",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "MEDIAN",
    "QUANTILE",
    "MEAN",
    "QUANTILE_CONT",
    "QUANTILE_DISC",
    "APPROX_QUANTILE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
)
SPELLINGS = {
    "MEAN": "AVG",
    **dict.fromkeys(("VARIANCE", "VAR_SAMP"), "VAR"),
    "STDDEV_SAMP": "STDDEV",
    **dict.fromkeys(("QUANTILE_CONT", "QUANTILE_DISC", "APPROX_QUANTILE"), "QUANTILE"),
}
"""Other names of aggregates; a quantile is always a declared value, so there is nothing to interpolate."""
