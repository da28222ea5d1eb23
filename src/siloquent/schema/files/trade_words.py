"""Words of databases and other libraries, and those of a table file: ``int`` is ``integer``, ``min`` is ``lo``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_KEYS = {
    **dict.fromkeys(("min", "minimum", "lower", "low", "lower_bound", "start"), "lo"),
    **dict.fromkeys(("max", "maximum", "upper", "high", "upper_bound", "end"), "hi"),
    **dict.fromkeys(("step", "precision", "resolution", "granularity"), "grid"),
    **dict.fromkeys(("categories", "levels", "enum", "options", "domain", "choices"), "values"),
    **dict.fromkeys(("nulls", "na", "missing", "nullable", "none"), "null"),
    **dict.fromkeys(("clip", "clamp", "out_of_range", "outliers"), "outside"),
    **dict.fromkeys(("dtype", "datatype", "data_type"), "type"),
    **dict.fromkeys(("eps", "budget"), "epsilon"),
    **dict.fromkeys(("max_ids", "max_contrib", "max_contributions", "max_rows_per_user"), "max_rows"),
    **dict.fromkeys(("rows", "row_count", "n", "size"), "size_hint"),
    **dict.fromkeys(("max_length", "length", "maxlen"), "max_bytes"),
    **dict.fromkeys(("neighbors", "neighbours", "neighboring"), "adjacency"),
    **dict.fromkeys(("attributes", "columns", "column", "fields"), "attribute"),
    "privacy_unit": "unit",
}
_TYPES = {
    **dict.fromkeys(
        ("int", "int2", "int4", "int8", "int32", "int64", "bigint", "smallint", "tinyint", "long"), "integer"
    ),
    **dict.fromkeys(("float", "float32", "float64", "double", "decimal", "numeric", "number", "money"), "real"),
    **dict.fromkeys(("enum", "factor", "categorical", "nominal", "ordinal", "code", "codes"), "category"),
    **dict.fromkeys(("varchar", "char", "string", "str", "object", "nvarchar"), "category or text"),
    **dict.fromkeys(("bool", "bit", "flag", "binary", "yes/no"), "boolean"),
    **dict.fromkeys(("timestamp", "timestamptz", "time", "datetime64", "moment"), "datetime"),
    **dict.fromkeys(("uuid", "key", "identifier", "serial", "user"), "id"),
    **dict.fromkeys(("note", "blob", "clob", "freetext"), "text"),
    "day": "date",
}
_VALUES = {
    "type": _TYPES,
    "outside": {
        **dict.fromkeys(("clip", "clamped", "cap", "bound", "winsorize"), "clamp"),
        **dict.fromkeys(("ignore", "exclude", "skip", "null", "dropped", "remove"), "drop"),
    },
    "null": {
        **dict.fromkeys(("group", "keep", "category", "own", "include"), "cell"),
        **dict.fromkeys(("ignore", "exclude", "skip", "remove", "dropped"), "drop"),
    },
    "other": {
        **dict.fromkeys(("group", "keep", "include", "other"), "cell"),
        **dict.fromkeys(("ignore", "exclude", "skip"), "drop"),
    },
    "adjacency": {
        **dict.fromkeys(("add/remove", "add_remove", "addremove", "unbounded", "zero-out"), "add-remove"),
        **dict.fromkeys(("replace", "bounded", "substitute", "swap", "replace_one", "change-one"), "replace-one"),
    },
    "accountant": {
        **dict.fromkeys(("epsilon", "laplace", "puredp", "basic", "eps"), "pure"),
        **dict.fromkeys(("gaussian", "rdp", "approx", "approximate", "cdp", "zero-concentrated", "rho"), "zcdp"),
    },
    "kind": {
        **dict.fromkeys(("person", "patient", "individual", "customer", "id", "people"), "user"),
        **dict.fromkeys(("record", "line", "event"), "row"),
    },
}


def suggest_key(word: str, known: Iterable[str]) -> str:
    """Return the key that ``word`` may stand for; "" if none is near.

    >>> suggest_key("min", ["lo", "hi"]), suggest_key("epsilom", ["epsilon"])
    ('lo', 'epsilon')
    """
    meant = _KEYS.get(word.casefold(), "")
    return meant or next(iter(get_close_matches(word[:40], list(known), n=1)), "")


def suggest_value(key: str, value: object, allowed: Iterable[str]) -> str:
    """Return the value that may be meant; "" if none is near. A number as text loses its quotes or its comma.

    >>> suggest_value("type", "VARCHAR(20)", []), suggest_value("epsilon", "2,0", []), suggest_value("lo", "17", [])
    ('category or text', '2.0', '17')
    """
    text = str(value)[:40].strip()
    word = re.sub(r"[(\\[].*", "", text.casefold()).strip()
    listed = list(allowed)
    meant = _VALUES.get(key, {}).get(word, "")
    if meant and (not listed or meant in listed or " or " in meant):
        return meant
    if word in listed:
        return word
    if not listed and re.fullmatch(r"-?[0-9]+([.,][0-9]+)?", text):
        return text.replace(",", ".")
    return next(iter(get_close_matches(word, listed, n=1)), "")


def format_hint(meant: str) -> str:
    """Return the question that follows a refusal; "" without a suggestion.

    >>> format_hint("category or text")
    " Did you mean 'category' or 'text'?"
    """
    return f" Did you mean {' or '.join(map(repr, meant.split(' or ')))}?" if meant else ""
