"""Reading table files safely: TOML with exact numbers, size limits, problems in words, and the editors' JSON Schema."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from siloquent.errors import SchemaError
from siloquent.schema import entries
from siloquent.schema.entries import TableFile

MOST_BYTES = 4 * 2**20


def json_schema() -> dict[str, Any]:
    """The JSON Schema of table files, for editors that complete and check TOML."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "siloquent table file",
        **TableFile.model_json_schema(by_alias=True, schema_generator=_decimal_as_number()),
    }


def _decimal_as_number() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            return {"type": "number"}

    return Generator


def read_toml(text: str) -> dict[str, Any]:
    """``text`` as TOML with decimal numbers, limited in size.

    Raises:
        SchemaError: too large, or not TOML; it says the line.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise SchemaError(f"A file of declarations is at most {MOST_BYTES // 2**20} MiB.")
    try:
        return tomllib.loads(text, parse_float=finite)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise SchemaError(f"This is not TOML: {str(wrong) or 'nested too deeply'}.") from None
    except (ValueError, InvalidOperation):
        raise SchemaError("A number is out of range: bounds, grids and budgets are finite.") from None


def finite(text: str) -> Decimal:
    """``text`` as an exact number of ordinary size; ValueError otherwise."""
    value = Decimal(text)
    if not value.is_finite() or abs(value.adjusted()) > 40:
        raise ValueError(text)
    return value


def digest_of(raw: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a parsed file: comments, order of keys and white space do not count."""
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def validated(raw: Mapping[str, Any]) -> TableFile:
    """``raw`` as a table file.

    Raises:
        SchemaError: unknown keys, missing or wrong values; one sentence each, with the place.
    """
    try:
        return TableFile.model_validate(raw)
    except ValidationError as wrong:
        raise SchemaError(" ".join(_problems(wrong, raw))) from None


def _keys() -> set[str]:
    models = [kind for kind in vars(entries).values() if isinstance(kind, type) and issubclass(kind, entries.Strict)]
    return {name.rstrip("_") for model in models for name in model.model_fields}


_AMOUNT = 'an amount as text, such as "0.1"'
_WANTED = {
    **dict.fromkeys(("epsilon", "rho", "delta", "delta_events", "analysts"), _AMOUNT),
    **dict.fromkeys(("lo", "hi"), "a number, or a date such as 2024-01-31"),
    **dict.fromkeys(("width", "edges"), "a number"),
    "grid": 'a number, or "day", "hour", "minute" or "second" for dates',
    "null": '"drop", "cell" or { value = .. }',
}
"""What stands behind a key that takes more than one type, in words."""


def _problems(wrong: ValidationError, raw: Mapping[str, Any]) -> Iterator[str]:
    """One sentence a problem: place, what, did you mean. A key of several types is one problem, not one a type."""
    found: dict[tuple[Any, ...], Any] = {}
    for error in wrong.errors(include_url=False, include_context=False):
        known = _inside(error["loc"], raw)
        found.setdefault(error["loc"] if error["type"] == "missing" else known, error)
    for path, error in list(found.items())[:5]:
        *place, last = path or ("file",)
        where = _place(place, raw)
        key = next((part for part in reversed(path) if part in _WANTED), None)
        if error["type"] == "extra_forbidden":
            near = get_close_matches(str(last), _keys(), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            yield f"Unknown key {str(last)!r}{where}.{hint}"
        elif error["type"] == "missing":
            yield f"Missing {str(last)!r}{where}: add `{last} = ..`."
        elif key is not None:
            yield f"{str(last)!r}{where} is {_WANTED[key]}, not {_shown(error['input'])}."
        else:
            yield f"{str(last)!r}{where}: {error['msg']}, not {_shown(error['input'])}."
    if len(found) > 5:
        yield f"And {len(found) - 5} more."


def _shown(value: object) -> str:
    return str(value)[:60] if isinstance(value, Decimal) else repr(str(value)[:60])


def _inside(place: tuple[Any, ...], raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """The part of ``place`` that is in the file; behind it stand the names of the types that were tried."""
    here: Any = raw
    for depth, part in enumerate(place):
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return place[:depth]
    return place


def _place(parts: list[Any], raw: Mapping[str, Any]) -> str:
    names, here = [], raw
    for part in parts:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            break
        named = here.get("name") if isinstance(here, dict) else None
        names.append(repr(named) if isinstance(part, int) and named else str(part))
    return f" in [{' '.join(names)}]" if names else ""
