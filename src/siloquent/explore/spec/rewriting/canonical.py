"""One text per meaning: the input of a request's digest, the same from every interface."""

from __future__ import annotations

import json
from dataclasses import Field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from siloquent.explore.spec.language.render_conditions import render_constant
from siloquent.explore.spec.numbers import format_number
from siloquent.explore.spec.predicate import Branch, InList, Value, get_constant_type
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.rewriting.members import list_fields


def format_canonical(query: Query) -> str:
    """Return ``query`` as JSON with sorted keys and explicit types; EXPLAIN PRIVACY gives the same text.

    Ledgers keep digests of this text for years: a class, field or word in it never changes, and a field that
    is added later must be left out if it has its default value.

    >>> from siloquent.explore.spec import parse
    >>> one = parse("SELECT COUNT(*) FROM visits WHERE 30 < age ERROR 200")
    >>> other = parse("EXPLAIN PRIVACY select count(*) from visits where age > 30.0 error 2e2 confidence .9995")
    >>> format_canonical(one) == format_canonical(other)
    True
    """
    # Ledgers treat a query without REUSE as one with REUSE ANY, the default of their versions.
    reuse = "any" if query.reuse == "declared" else query.reuse
    document = build_document(replace(query, explain=False, reuse=reuse, default_share=None))
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def build_document(value: Any) -> Any:
    """Return a query or a part of one as JSON values."""
    if isinstance(value, Value):
        return _build_constant(value.value)
    if isinstance(value, InList):
        return {
            "is": "in",
            "expression": build_document(value.expression),
            "values": [_build_constant(one) for one in value.values],
        }
    own = list_fields(type(value))
    if own is not None:
        parts = {part.name: build_document(getattr(value, part.name)) for part in own if not _is_later(value, part)}
        return {"is": type(value).__name__.lower(), **parts}
    if isinstance(value, tuple):
        return [build_document(part) for part in value]
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return format_number(value) if isinstance(value, Decimal) else value


_LATER = frozenset(
    (
        *("others", "join", "more", "at_least", "of", "presentation", "renamed", "order", "limit", "offset"),
        *("descending", "nulls_first", "test", "shown", "kept", "groups_each", "computed", "hidden"),
        *("default_share", "sets", "joins", "on", "per_unit", "related", "is_outer", "publics", "compared"),
    )
)
"""Fields added after the first ledgers."""


def _is_later(value: Any, part: Field[Any]) -> bool:
    """Return whether ``part`` is left out, so that queries of earlier versions keep their digests."""
    if part.name == "test" and isinstance(value, Branch):
        return False
    is_computed_later = part.name == "sample"  # the measurement is the same
    return is_computed_later or (part.name in _LATER and getattr(value, part.name) == part.default)


def _build_constant(value: Any) -> dict[str, str]:
    text = value if isinstance(value, str) else render_constant(value)
    return {"is": get_constant_type(value), "value": text}
