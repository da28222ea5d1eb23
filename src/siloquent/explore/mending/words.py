"""Words that a declared table explains: misspelt names, values without quotes, dates and constants of another type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches

from siloquent.errors import find_longer
from siloquent.explore.mending.masking import NAME, TEXT, Masked
from siloquent.explore.spec.language.expressions.functions import FOREIGN_FUNCTIONS
from siloquent.explore.spec.language.refusals import AGGREGATES, OTHER_AGGREGATES
from siloquent.explore.spec.language.render_conditions import render_constant, render_name
from siloquent.explore.spec.predicate import FUNCTIONS
from siloquent.schema import Attribute, TableSchema
from siloquent.schema.formats.value_formats import list_candidates

_LANGUAGE = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "AND",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "BETWEEN",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "AS",
    "ERROR",
    "BUDGET",
    "CONFIDENCE",
    "JOINT",
    "REUSE",
    "ANY",
    "NONE",
    "SIMULTANEOUS",
    "PREFER",
    "OPTIMISTIC",
    "EPSILON",
    "RHO",
    "DELTA",
    "ROWS",
    "PERCENT",
    "DESC",
    "ASC",
    "BIN",
    "ON",
    "PREFIX",
    "HISTOGRAM",
    "CUBE",
    "EXPLAIN",
    "PRIVACY",
    "FOR",
    "AT",
    "LEAST",
    "JOIN",
    "USING",
    "DATE",
    "TIMESTAMP",
]
_KNOWN = frozenset((*_LANGUAGE, *AGGREGATES, *(name.upper() for name in FUNCTIONS), "W"))
_FOREIGN = frozenset(word.casefold() for word in (*OTHER_AGGREGATES, "TOP", "OVER", "CASE", "UNION", "CAST", "EPS"))
_MAX_WORD = 40
MAX_CODES = 20
"""Of at most so many codes, an average is offered as that of their numbers."""
_FORMATS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d"),
    *("%b %d, %Y", "%d %b %Y", "%B %d, %Y", "%d.%m.%y", "%Y-%m-%d"),
)


def list_words(text: str, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield ``text`` with names, values or constants as they are declared."""
    masked = Masked(text)
    attributes = [attribute for schema in schemas for attribute in schema.domain]
    yield from _read_dates(masked)
    yield from _quote_values(masked, attributes)
    yield from _average_words(masked, attributes)
    yield from _spell(masked, schemas)
    yield from masked.replace_each(TEXT, lambda found: _unquote_name(masked.read(found[0]), attributes))
    yield from masked.replace_each(TEXT, lambda found: _spell_value(masked.read(found[0]), attributes))
    yield from masked.replace_each(
        rf"({NAME})\s*(=|==|!=|<>|<=|>=|<|>|LIKE\b|NOT\s+LIKE\b)\s*({TEXT}|-?[\d.]+|TRUE\b|FALSE\b|[?]|[$:@]\w+|{NAME})",
        lambda found: _read_constant(masked, found, attributes),
    )
    yield from masked.replace_each(
        rf"({NAME})\s*(<=|>=|<|>|=)\s*(?:now|current_date|today|getdate)\b.*?(?=\bAND\b|\bOR\b|\bGROUP\b|\bERROR\b|\bBUDGET\b|$)",
        lambda found: _read_constant(masked, found, attributes, always=True),
    )
    yield from masked.replace_each(
        rf"({NAME})\s+BETWEEN\s+(-?[\d.]+)\s+AND\s+(-?[\d.]+)", lambda found: _sort_bounds(masked, found, attributes)
    )
    yield from masked.replace_each(
        rf"\b(HISTOGRAM|PREFIX)\s*\(\s*({NAME})\s*,?\s*(-?[\d.]+)?\s*,?\s*(-?[\d.]+)?\s*,?\s*(-?[\d.]+)?\s*\)",
        lambda found: _order_ranges(masked, found, attributes),
    )


def _average_words(masked: Masked, attributes: Sequence[Attribute]) -> Iterator[str]:
    """Yield the text with sums and averages of codes, booleans and conditions as those of numbers."""

    def count(found: re.Match[str]) -> str | None:
        attribute = find_attribute(masked.read(found[2]), attributes)
        if attribute is None or attribute.is_numeric:
            return None
        name = render_name(attribute.name)
        if attribute.kind == "boolean":
            return f"{found[1]}({_count_truth(name)})"
        if attribute.labels or not 1 <= len(attribute.values) <= MAX_CODES:
            return None
        if not all(re.fullmatch(r"-?\d{1,9}", one) for one in attribute.values):
            return None
        numbers = " ".join(f"WHEN {render_constant(one)} THEN {int(one)}" for one in attribute.values)
        return f"{found[1]}(CASE {name} {numbers} END)"

    yield from masked.replace_each(rf"\b(SUM|AVG)\s*\(\s*({NAME})\s*\)", count)
    if re.search(r"\b(?:SUM|AVG)\s*\(\s*CASE\b", masked.text, re.IGNORECASE):
        counted = re.sub(r"\b(THEN|ELSE)\s+TRUE\b", r"\1 1", masked.text, flags=re.IGNORECASE)
        yield masked.unmask(re.sub(r"\b(THEN|ELSE)\s+FALSE\b", r"\1 0", counted, flags=re.IGNORECASE))
    yield from masked.replace_each(
        r"\b(SUM|AVG)\s*\(\s*([^()*]*?(?:=|<|>|\bIN\b|\bLIKE\b)(?:[^()]|\([^()]*\))*)\)",
        lambda found: None if "CASE" in found[2].upper() else f"{found[1]}({_count_truth(found[2].strip())})",
    )


def _count_truth(condition: str) -> str:
    """Return 1 where ``condition`` is TRUE, 0 where it is FALSE, and NULL where it is not known."""
    negated = condition if condition.isidentifier() else f"({condition})"
    return f"CASE WHEN {condition} THEN 1 WHEN NOT {negated} THEN 0 END"


def find_attribute(name: str, attributes: Sequence[Attribute]) -> Attribute | None:
    """Return the attribute of that name, in any case."""
    return next((one for one in attributes if one.name.casefold() == name.casefold()), None)


def _spell(masked: Masked, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield the text with the words that nothing declares replaced by the nearest ones: all, then one at a time."""
    tables = {schema.name.casefold(): render_name(schema.name) for schema in schemas}
    named = {
        attribute.name.casefold(): render_name(attribute.name) for schema in schemas for attribute in schema.domain
    }
    known = {word.casefold(): word for word in _KNOWN} | {name: name for name in FUNCTIONS} | tables | named
    parts = {part for name in (*named, *tables) for part in re.findall(r"\w+", name)}

    def meant(found: re.Match[str]) -> str | None:
        word = masked.read(found[0])
        folded = word.casefold()
        if folded in known or folded in parts or folded in _FOREIGN or not 2 <= len(word) <= _MAX_WORD:
            return None
        is_table = re.search(r"\b(?:FROM|BIN|JOIN)\s+$", masked.text[: found.start()], re.IGNORECASE)
        calls = masked.text[found.end() :].lstrip().startswith("(")
        choices = tables if is_table else known
        if calls:
            choices = {word.casefold(): word for word in (*AGGREGATES, "CUBE", "HISTOGRAM", "PREFIX")} | {
                one: one for one in FUNCTIONS
            }
        # Letters in another order are the commonest slip: FORM is FROM, although FOR is nearer by its letters.
        if calls and folded in FOREIGN_FUNCTIONS:
            return FOREIGN_FUNCTIONS[folded]
        near = (
            [one for one in choices if len(one) > 2 and sorted(one) == sorted(folded)][:1]
            or get_close_matches(folded, choices, n=1, cutoff=0.6)
            or get_close_matches(folded, known, n=1, cutoff=0.7)
        )
        return (choices.get(near[0]) or known[near[0]]) if near else None

    yield from masked.replace_each(NAME, meant)


def _unquote_name(text: str, attributes: Sequence[Attribute]) -> str | None:
    found = find_attribute(text, attributes)
    return None if found is None else render_name(found.name)


def _spell_value(text: str, attributes: Sequence[Attribute]) -> str | None:
    """Return the declared value or label that a misspelt text stands for."""
    values = {
        value.casefold(): value for one in attributes for value in (*one.values, *(label for _, label in one.labels))
    }
    if text in values.values() or len(text) > _MAX_WORD:
        return None
    near = get_close_matches(text.casefold(), values, n=1, cutoff=0.6) or find_longer(text, values)
    return render_constant(values[near[0]]) if near else None


def _quote_values(masked: Masked, attributes: Sequence[Attribute]) -> Iterator[str]:
    """Yield the text with declared values in single quotes, where they stand bare or in double quotes."""
    names = {attribute.name.casefold() for attribute in attributes}
    listed = [value for one in attributes for value in (*one.values, *(label for _, label in one.labels))][:1_000]
    values = {value.casefold(): value for value in listed if value.casefold() not in names}
    spaced = [
        value
        for value in values.values()
        if not value.isidentifier() and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", masked.text, re.IGNORECASE)
    ]
    for value in spaced[:8]:
        yield from masked.replace_each(rf"(?<!\w){re.escape(value)}(?!\w)", render_constant(value).replace("\\", r"\\"))
    yield from masked.replace_each(
        NAME,
        lambda found: render_constant(values[name]) if (name := masked.read(found[0]).casefold()) in values else None,
    )


def _read_dates(masked: Masked) -> Iterator[str]:
    """Yield the text with dates of other formats as dates of the language."""

    def of(text: str) -> str | None:
        for form in _FORMATS:
            with suppress(ValueError):
                return f"DATE '{datetime.strptime(text.strip(), form).date().isoformat()}'"
        return None

    yield from masked.replace_each(rf"(?:\b(?:DATE|TIMESTAMP)\s*)?({TEXT})", lambda found: of(masked.read(found[1])))
    yield from masked.replace_each(
        r"(?:\bDATE\s*)?\b(\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{4}|(?:19|20)\d{6})\b", lambda found: of(found[1])
    )


def _read_constant(
    masked: Masked, found: re.Match[str], attributes: Sequence[Attribute], *, always: bool = False
) -> str | None:
    """Return a comparison whose constant is of the attribute's type and inside its bounds; None if it already is."""
    attribute, op = find_attribute(masked.read(found[1]), attributes), found[2].upper()
    if attribute is None or not attribute.is_countable:
        return None
    name, constant = render_name(attribute.name), "" if always else masked.read(found[3])
    if constant.upper() in ("NULL", "DATE", "TIMESTAMP", "NOT") or find_attribute(constant, attributes) is not None:
        return None
    is_text = not always and found[3] != constant
    if attribute.kind == "boolean":
        if op not in ("=", "==", "!=", "<>"):
            return name
        return None if constant.upper() in ("TRUE", "FALSE", "0", "1") else f"{name} {op} {_read_truth(constant)}"
    if attribute.kind == "category":
        if "LIKE" in op or (is_text and constant in attribute.values):
            return None
        near = get_close_matches(constant.casefold(), [value.casefold() for value in attribute.values], n=1)
        value = next((one for one in attribute.values if near and one.casefold() == near[0]), None)
        return f"{name} {op} {render_constant(value)}" if value else None
    if "LIKE" in op:
        return None
    if attribute.is_numeric:
        return None if always else _clamp(attribute, name, op, constant)
    return f"{name} {op} CURRENT_DATE" if always else None


def _read_truth(word: str) -> str:
    """Return FALSE for a word that means it in some language, otherwise TRUE."""
    folded = word.strip().casefold()
    false = {one.casefold() for form in list_candidates("boolean") for one in form.false} | {"false", "f", "no", "n"}
    return "FALSE" if folded in false else "TRUE"


def _clamp(attribute: Attribute, name: str, op: str, constant: str) -> str | None:
    """Return a comparison with a number, moved to the nearest bound if no declared value fulfils it.

    No number is made up for a word: that would be a question which nobody asked.
    """
    try:
        number = float(constant)
    except ValueError:
        return None
    lo, hi = float(attribute.lo), float(attribute.hi)  # type: ignore[arg-type]
    if lo <= number <= hi:
        return f"{name} {op} {constant}"
    bound = f"{attribute.lo if number < lo else attribute.hi}"
    return f"{name} {op if op in ('=', '!=', '<>') else op.rstrip('=') + '='} {bound}"


def _sort_bounds(masked: Masked, found: re.Match[str], attributes: Sequence[Attribute]) -> str | None:
    attribute = find_attribute(masked.read(found[1]), attributes)
    if attribute is None or not attribute.is_numeric:
        return None
    low, high = sorted((float(found[2]), float(found[3])))
    lo, hi = float(attribute.lo), float(attribute.hi)  # type: ignore[arg-type]
    if high < lo or low > hi:
        low, high = lo, lo + (hi - lo) / 2
    low, high = max(low, lo), min(high, hi)
    return f"{render_name(attribute.name)} BETWEEN {low:g} AND {high:g}"


def _order_ranges(masked: Masked, found: re.Match[str], attributes: Sequence[Attribute]) -> str | None:
    attribute = find_attribute(masked.read(found[2]), attributes)
    numbers = [float(one) for one in found.groups()[2:] if one and one.count(".") < 2 and one != "-"]
    if attribute is None or not attribute.is_numeric:
        return None
    lo, hi = float(attribute.lo), float(attribute.hi)  # type: ignore[arg-type]
    low, high = (min(numbers[:2]), max(numbers[:2])) if len(numbers) > 1 else (lo, hi)
    if low == high:
        low, high = lo, hi
    width = numbers[2] if len(numbers) > 2 and numbers[2] > 0 else max((high - low) / 10, float(attribute.grid or 1))
    return f"{found[1].upper()}({render_name(attribute.name)}, {low:g}, {high:g}, {width:g})"
