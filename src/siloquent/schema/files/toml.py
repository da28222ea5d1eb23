"""Safe parsing of table files: TOML with exact numbers, size limits, readable errors and the editors' JSON Schema."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from pydantic import ValidationError

from siloquent.errors import SchemaError
from siloquent.foreign import DocumentTooLarge, TomlError, load_toml
from siloquent.foreign.numbers import is_plain_number
from siloquent.schema.files import models as file_models
from siloquent.schema.files.models import ColumnEntry, LinkedTableFile, TableFile
from siloquent.schema.files.trade_words import format_hint, suggest_key, suggest_value

MAX_BYTES = 4 * 2**20
MAX_LINES = 200_000
MAX_ENTRIES = 2_000
MAX_NESTING = 16
MAX_DIGITS = 40
MAX_SHOWN = 60

# tomllib needs n^2 steps for a dotted key of n parts and makes tables n deep: such keys are refused first. The
# pattern matches each part without backtracking and only from its start, so no text makes this search slow.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')[ \t]*+[.][ \t]*+"""
_DOTTED = re.compile(rf"""(?<![\w"'\\-])(?:{_PART}){{{MAX_NESTING}}}""")


def build_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of table files, for editors that complete and check TOML."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "siloquent table file",
        **TableFile.model_json_schema(by_alias=True, schema_generator=_build_generator()),
    }


def _build_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> dict[str, Any]:
            return {"type": "number"}

    return Generator


_FROM_A_FILE = 'read_schema(pathlib.Path("schemas/visits.toml").read_text(encoding="utf-8"))'


def read_toml(text: str) -> dict[str, Any]:
    """Parse ``text`` as TOML with decimal numbers, limited in size.

    Raises:
        SchemaError: too large or too deep, or not TOML; the message gives the line.
    """
    if not isinstance(text, str):
        raise SchemaError(f"A declaration must be TOML text, not {type(text).__name__}.", fix=_FROM_A_FILE)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SchemaError(f"A file of declarations can have at most {MAX_BYTES // 2**20} MiB.")
    if text.count("\n") > MAX_LINES:
        raise SchemaError(f"A file of declarations can have at most {MAX_LINES:,} lines.")
    if _DOTTED.search(text):
        raise _build_depth_error()
    try:
        raw = load_toml(text, most=MAX_BYTES, parse_float=parse_finite)
        _check_values(raw)
    except TomlError as wrong:
        is_path = "\n" not in text and text.strip().endswith(".toml")
        raise SchemaError(f"The text is not valid TOML: {wrong}.", fix=_FROM_A_FILE if is_path else "") from None
    except RecursionError:
        raise _build_depth_error() from None
    except DocumentTooLarge as wrong:
        raise SchemaError(f"The file of declarations is not valid: {wrong}.") from None
    except (ValueError, InvalidOperation):
        raise SchemaError("A number is out of range: bounds, grids and budgets must be finite.") from None
    return raw


def _build_depth_error() -> SchemaError:
    return SchemaError(f"The file is nested too deeply; the limit is {MAX_NESTING} levels.")


def _check_values(raw: dict[str, Any]) -> None:
    """Refuse excessive nesting, and numbers that later steps would need very long to write out."""
    level: list[Any] = [raw]
    for _ in range(MAX_NESTING):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if any(type(value) is int and abs(value) >= 10**MAX_DIGITS for value in level):
            raise ValueError("a whole number is too large")
        level = [value for value in level if isinstance(value, (dict, list))]
    if level:
        raise RecursionError


def parse_finite(text: str) -> Decimal:
    """Parse ``text`` as an exact number of ordinary size; raise ValueError or InvalidOperation otherwise."""
    if not is_plain_number(text):
        raise ValueError("digits are 0 to 9, with nothing between them")
    value = Decimal(text)
    # The digits are limited too: exact arithmetic with a million of them takes minutes.
    if not value.is_finite() or abs(value.adjusted()) > MAX_DIGITS or len(text) > 4 * MAX_DIGITS:
        raise ValueError("a number is too large, too small or too long")
    return value


def quote_short(text: object) -> str:
    """Return user input quoted and shortened to fit into a sentence."""
    whole = str(text)
    return repr(whole if len(whole) <= MAX_SHOWN else f"{whole[:MAX_SHOWN]}...")


def quote_text(value: str) -> str:
    """Return ``value`` as a TOML text; JSON's escapes are TOML's, except for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def hash_declaration(raw: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of a parsed file; labels, comments, key order and space do not count."""
    text = json.dumps(_leave_labels_out(raw), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _leave_labels_out(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``raw`` without labels: they are only shown, so they may change at any time."""
    return {
        key: [{name: one[name] for name in one if name != "labels"} if isinstance(one, dict) else one for one in listed]
        if key in ("attribute", "derived") and isinstance(listed, list)
        else listed
        for key, listed in raw.items()
    }


def validate_table_file(
    raw: Mapping[str, Any], find_others: Callable[[], list[str]] = list, *, is_linked: bool = False
) -> TableFile | LinkedTableFile:
    """Validate ``raw`` as a table file; ``is_linked``: of a table that shares its unit with others.

    Args:
        find_others: Returns faults of well-formed entries, which are told as well.
    Raises:
        SchemaError: unknown keys, missing or wrong values; one sentence each, with the location.
    """
    for key, kind in (("attribute", "attributes"), ("derived", "attributes"), ("constraint", "constraints")):
        listed = raw.get(key)
        if isinstance(listed, list) and len(listed) > MAX_ENTRIES:  # each invalid value would be described
            raise SchemaError(f"A table can have at most {MAX_ENTRIES:,} {kind}.")
    try:
        return (LinkedTableFile if is_linked else TableFile).model_validate(raw)
    except ValidationError as wrong:
        problems = _find_problems(wrong, raw)
        told = [*_describe_problems(problems, raw), *find_others()]
        raise SchemaError(number_faults(told, untold=max(len(problems) - MAX_TOLD, 0))) from None


def describe_faults(wrong: ValidationError, raw: Mapping[str, Any]) -> list[str]:
    """Return a sentence about each fault of a file that is not a table file."""
    return list(_describe_problems(_find_problems(wrong, raw), raw))


def number_faults(told: Sequence[str], *, untold: int = 0) -> str:
    """Return sentences about faults as one text; several are counted and numbered. ``untold``: how many more there are.

    >>> number_faults(["A is wrong.", "B is missing."])
    '2 faults: (1) A is wrong. (2) B is missing.'
    """
    if len(told) + untold < 2:
        return " ".join(told)
    numbered = " ".join(f"({place}) {one}" for place, one in enumerate(told, 1))
    return f"{len(told) + untold:,} faults: {numbered}{f' And {untold:,} more.' if untold else ''}"


def validate_column(raw: Mapping[str, Any]) -> ColumnEntry:
    """Validate ``raw`` as the entry of one attribute, outside a table file.

    Raises:
        SchemaError: unknown keys, missing or wrong values; one sentence each.
    """
    try:
        return ColumnEntry.model_validate(raw)
    except ValidationError as wrong:
        raise SchemaError(" ".join(_describe_problems(_find_problems(wrong, raw), raw))) from None


_PLACES: dict[str, tuple[type[file_models.Strict], str]] = {
    "": (file_models.TableFile, "at the top of the file, above the first [section]"),
    "table": (file_models.TableEntry, "under [table]"),
    "unit": (file_models.UnitEntry, "in unit = { ... } under [table]"),
    "budget": (file_models.BudgetEntry, "under [budget]"),
    "reading": (file_models.ReadingEntry, "under [reading]"),
    "attribute": (file_models.ColumnEntry, "in an attribute"),
    "derived": (file_models.DerivedEntry, "in a derived attribute"),
    "constraint": (file_models.ConstraintEntry, "in a constraint"),
}
"""The entries of a table file, and where their keys stand, by the last name of the place."""


def _list_keys(model: type[file_models.Strict]) -> list[str]:
    return [name.rstrip("_") for name in model.model_fields]


def _place_key(key: str, place: Sequence[Any], raw: Mapping[str, Any]) -> str:
    """Return what an unknown key may be meant as: another one there, or one that belongs elsewhere."""
    names = [part for part in place if isinstance(part, str)]
    here = next((_PLACES[name][0] for name in reversed(names) if name in _PLACES), file_models.TableFile)
    if names[:1] == ["reading"] and len(names) > 1:
        here = file_models.ColumnReadingEntry
    if names[-1:] == ["unit"]:
        here = _choose_unit_entry(raw)
    known = _list_keys(here)
    homes = [where for model, where in _PLACES.values() if model is not here and key in _list_keys(model)]
    if homes:
        return f" It belongs {homes[0]}."
    meant = suggest_key(key, known)
    homes = [] if meant in known else [where for model, where in _PLACES.values() if meant in _list_keys(model)]
    hint = format_hint(meant) if meant in known or homes else ""
    return f"{hint}{f' It belongs {homes[0]}.' if homes else ''}" or f" Known there: {', '.join(known)}."


def _choose_unit_entry(raw: Mapping[str, Any]) -> type[file_models.Strict]:
    """Return the entry that ``unit`` is in ``raw``: of a table file, of a linked table's, or of a unit's own file."""
    if "unit" in raw:
        return file_models.UnitNameEntry
    unit = raw["table"]["unit"]
    is_shared = isinstance(unit, dict) and unit.keys() & {"of", "via", "on"}
    return file_models.SharedUnitEntry if is_shared else file_models.UnitEntry


MAX_TOLD = 20
_AMOUNT = 'an amount as text, such as "0.1"'
_WANTED = {
    **dict.fromkeys(("epsilon", "rho", "delta", "delta_events", "analysts"), _AMOUNT),
    **dict.fromkeys(("lo", "hi"), "a number, or a date such as 2024-01-31"),
    **dict.fromkeys(("width", "edges"), "a number"),
    "grid": 'a number, or "day", "hour", "minute" or "second" for dates',
    "null": '"drop", "cell" or { value = ... }',
    "values": 'a list of texts or whole numbers, or { released = "NAME" }',
    "labels": 'texts by value, such as { 1 = "female", 2 = "male" }',
}
"""Descriptions of the values accepted by keys of more than one type."""


def _find_problems(wrong: ValidationError, raw: Mapping[str, Any]) -> dict[tuple[Any, ...], Any]:
    """Return the error at each location; a key of several types is one problem."""
    found: dict[tuple[Any, ...], Any] = {}
    for error in wrong.errors(include_url=False):
        known = _trim_location(error["loc"], raw)
        found.setdefault(error["loc"] if error["type"] == "missing" else known, error)
    return found


def _describe_problems(problems: Mapping[tuple[Any, ...], Any], raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about each of the first ``MAX_TOLD`` problems: location, error and suggestion.

    The keys known at a place are told once.
    """
    listed = set()
    for path, error in islice(problems.items(), MAX_TOLD):
        *place, last = path or ("file",)
        where = _format_location(place, raw)
        key = next((part for part in reversed(path) if part in _WANTED), None)
        if error["type"] == "extra_forbidden":
            meant = _place_key(str(last), place, raw)
            yield f"Unknown key {quote_short(last)}{where}.{'' if meant in listed else meant}"
            listed.add(meant)
        elif error["type"] == "missing":
            yield f"Missing {str(last)!r}{where}: add `{last} = ...`."
        elif key is not None:
            hint = format_hint(suggest_value(str(key), error["input"], ()))
            yield f"{quote_short(last)}{where} must be {_WANTED[key]}, not {_format_value(error['input'])}.{hint}"
        else:
            expected = re.findall("'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
            hint = format_hint(suggest_value(str(last), error["input"], expected))
            yield f"{quote_short(last)}{where}: {error['msg']}, not {_format_value(error['input'])}.{hint}"


def _format_value(value: object) -> str:
    return str(value)[:MAX_SHOWN] if isinstance(value, Decimal) else quote_short(value)


def _trim_location(place: tuple[Any, ...], raw: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the part of ``place`` that is in the file, without the names of the attempted types that follow it."""
    here: Any = raw
    for depth, part in enumerate(place):
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            return place[:depth]
    return place


def _format_location(parts: list[Any], raw: Mapping[str, Any]) -> str:
    names, here = [], raw
    for part in parts:
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            break
        named = here.get("name") if isinstance(here, dict) else None
        names.append(quote_short(named) if isinstance(part, int) and named else str(part)[:MAX_SHOWN])
    return f" in [{' '.join(names)}]" if names else ""
