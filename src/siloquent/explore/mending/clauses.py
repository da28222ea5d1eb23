"""Clauses that a declared table explains: what is grouped, which table is meant, and an error that means something."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from siloquent.explore.mending.masking import NAME, Masked
from siloquent.explore.mending.words import find_attribute
from siloquent.explore.plan.cells.keys import MAX_DATES, choose_width
from siloquent.explore.spec.language.refusals import AGGREGATES, OTHER_AGGREGATES
from siloquent.explore.spec.language.render_conditions import render_name
from siloquent.schema import Attribute, TableSchema

MAX_ATOMS = 12
DEFAULT_ROWS = 10_000
"""The size of a table that declares none, for proposed errors."""
_AGGREGATE = re.compile(rf"\s*(?:{'|'.join((*AGGREGATES, *OTHER_AGGREGATES))})\s*\(", re.IGNORECASE)
_SELECT = re.compile(
    r"(?P<head>.*?\bSELECT\b)\s*(?P<items>.*?)\s*\bFROM\s+(?P<middle>.*?)"
    r"(?:\s*\bGROUP\s+BY\b\s*(?P<keys>.*?))?\s*(?P<choice>\b(?:HAVING|ORDER)\b.*?)?\s*(?P<tail>\b(?:ERROR|BUDGET|CONFIDENCE|FOR|REUSE|PREFER)\b.*)?$",
    re.IGNORECASE | re.DOTALL,
)
_BOUNDS = re.compile(
    r"\bERROR\b\s*[^A-Za-z]*(?:\s*(?:PERCENT|ROWS)\b\s*(?:,[^A-Za-z]*)?)*|\bBUDGET\b[^A-Z]*(?:\b(?:EPSILON|EPS|RHO)\b)?(?:\s*DELTA\s*\S+)?",
    re.IGNORECASE,
)
_CLAUSE_WORDS = r"WHERE|GROUP|HAVING|ORDER|LIMIT|ERROR|BUDGET|CONFIDENCE|FOR|REUSE|PREFER"


def list_clauses(text: str, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield ``text`` with another table, other keys, another promise, or one condition less."""
    masked = Masked(text)
    for made in (
        *_name_table(masked, schemas),
        *_list_promises(masked, schemas),
        *_list_keys(masked, schemas),
        *_list_commas(masked),
    ):
        yield masked.unmask(made)
    for made in _drop_conditions(masked):
        yield masked.unmask(made)


def _get_schema(text: str, masked: Masked, schemas: Sequence[TableSchema]) -> TableSchema | None:
    found = re.search(rf"\b(?:FROM|BIN)\s+({NAME})", text, re.IGNORECASE)
    name = masked.read(found[1]).casefold() if found else ""
    return next((schema for schema in schemas if schema.name.casefold() == name), None)


def _name_table(masked: Masked, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield the text with a table: where none is named, or the one that has the names that the question uses."""
    text = masked.text
    names = {masked.read(found[0]).casefold() for found in re.finditer(NAME, text)}

    def count_names(schema: TableSchema) -> int:
        return len(names & {name.casefold() for name in schema.domain.names})

    for schema in sorted(schemas, key=count_names, reverse=True):
        table = render_name(schema.name)
        yield re.sub(rf"\b(FROM|BIN)\s+(?={_CLAUSE_WORDS}|ON\b|$)", rf"\1 {table} ", text, count=1, flags=re.IGNORECASE)
        if not re.search(r"\bFROM\b|\bBIN\b", text, re.IGNORECASE):
            yield re.sub(rf"\s+(?=(?:{_CLAUSE_WORDS})\b)", f" FROM {table} ", text, count=1, flags=re.IGNORECASE)
            yield re.sub(
                rf"\s+({NAME})(?=\s+(?:{_CLAUSE_WORDS})\b)", f" FROM {table}", text, count=1, flags=re.IGNORECASE
            )
            yield re.sub(rf"\s+(?={re.escape(table)}\b)", " FROM ", text, count=1, flags=re.IGNORECASE)
        if count_names(schema):
            yield re.sub(rf"\b(FROM|BIN)\s+{NAME}", rf"\1 {table}", text, count=1, flags=re.IGNORECASE)
    if not re.search(r"\bSELECT\b|\bBIN\b", text, re.IGNORECASE):
        yield f"SELECT {text}"
        yield re.sub(r"^\s*\w+", "SELECT", text, count=1)
    yield re.sub(r"^.*?\b(?=SELECT\b|BIN\b)", "", text, count=1, flags=re.IGNORECASE | re.DOTALL)
    yield re.sub(r"\bSELECT\s+(?=FROM\b)", "SELECT COUNT(*) ", text, count=1, flags=re.IGNORECASE)
    yield re.sub(rf"\bBIN\s+({NAME})\s+(?:ON\s+)?(?=WHERE)", r"BIN \1 ON COUNT(*) ", text, count=1, flags=re.IGNORECASE)
    yield re.sub(rf"\bBIN\s+({NAME})\s+(?=[A-Z]+\s*\()", r"BIN \1 ON ", text, count=1, flags=re.IGNORECASE)
    yield re.sub(
        r"\bWHERE\s+(?:W\s*)?=?\s*(?=\{|HISTOGRAM|PREFIX|CUBE)", "WHERE W = ", text, count=1, flags=re.IGNORECASE
    )
    yield re.sub(r"(?<=\))\s*(?=W\s*=)", " WHERE ", text, count=1, flags=re.IGNORECASE)


def split_items(text: str) -> list[str]:
    """Split a list at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "({") - (sign in ")}")
        if sign == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _list_keys(masked: Masked, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield the text with other keys: those of the SELECT list, coarser ones, fewer, or none."""
    found, schema = _SELECT.match(masked.text), _get_schema(masked.text, masked, schemas)
    if found is None or schema is None:
        return
    items = [one for one in split_items(found["items"]) if one not in ("*",)]
    shown = list(dict.fromkeys(one for one in items if _AGGREGATE.match(one)))
    keys = [
        re.sub(rf"\s+(?:AS\s+)?{NAME}$", "", one) if " " in one and "//" not in one else one
        for one in items
        if one not in shown
    ]
    grouped = [one for one in split_items(found["keys"] or "") if one]
    attributes = list(schema.domain)

    def compose(keys: Sequence[str], *, shown: Sequence[str] = shown, choice: str = found["choice"] or "") -> str:
        listed = [*keys, *(shown if shown or choice else ["COUNT(*)"])] or ["COUNT(*)"]
        parts = [
            found["head"],
            ", ".join(listed),
            "FROM",
            found["middle"],
            f"GROUP BY {', '.join(keys)}" if keys else "",
            choice,
            found["tail"] or "",
        ]
        return " ".join(part.strip() for part in parts if part.strip())

    named = [one for one in grouped if not _AGGREGATE.match(one) and not re.fullmatch(r"\d+|ALL", one, re.IGNORECASE)]
    for chosen in (keys, named, [*keys, *(one for one in named if one not in keys)]):
        if not chosen:
            continue
        yield compose(chosen)
        coarse = [_make_coarser(one, masked, attributes) for one in chosen]
        yield compose([one for one in coarse if one])
        for count in range(len(coarse) - 1, 0, -1):
            yield compose([one for one in coarse[:count] if one])
            yield compose([one for one in coarse[-count:] if one])
        yield compose([one for one in coarse if one], choice="")
    if named or keys or grouped:
        known = [render_name(one.name) for one in attributes if one.has_groups and one.kind == "category"][:1]
        yield compose(known) if not (keys or named) and known else compose([], choice="")
    yield compose(keys or named, shown=[*shown, "COUNT(*)"], choice="")
    yield compose(keys or named, shown=shown or ["COUNT(*)"], choice="")
    yield compose([], shown=shown or ["COUNT(*)"], choice="")


def _make_coarser(key: str, masked: Masked, attributes: Sequence[Attribute]) -> str:
    """Return ``key`` as groups that it can have; empty if it has none."""
    attribute = find_attribute(masked.read(key), attributes)
    if attribute is None:
        return key
    if not attribute.is_countable:
        return ""
    name = render_name(attribute.name)
    if attribute.is_temporal and attribute.steps > MAX_DATES:
        return f"year({name})"
    return name if attribute.has_groups or attribute.is_temporal else f"{name} // {choose_width(attribute)}"


def _list_commas(masked: Masked) -> Iterator[str]:
    """Yield the text with commas between two items of the SELECT list, of keys, of values or of ranges."""
    for found in re.finditer(rf"(?<=[\w)\ue000-\uf8ff])\s+(?=(?:{NAME}|[\uf000-\uf7ff]|-?\d))", masked.text):
        yield masked.text[: found.start()] + ", " + masked.text[found.end() :]
    yield re.sub(r"(?<=\d)\s+(?=-?\d)", ", ", masked.text)


def _drop_conditions(masked: Masked) -> Iterator[str]:
    """Yield the text with one of the conditions after WHERE left out, then all of them."""
    found = re.search(
        r"\bWHERE\b(?!\s*W\s*=)\s*(.*?)(?=\s*\b(?:GROUP|HAVING|ORDER|LIMIT|ERROR|BUDGET|CONFIDENCE)\b|$)",
        masked.text,
        re.IGNORECASE | re.DOTALL,
    )
    if found is None:
        return
    between = re.sub(r"\b(BETWEEN\s+\S+\s+)AND\b", lambda one: one[1] + "&&&", found[1], flags=re.IGNORECASE)
    pieces = re.split(r"\b(AND|OR)\b", between, flags=re.IGNORECASE)
    atoms = pieces[::2]
    for place in range(len(atoms)) if 1 < len(atoms) <= MAX_ATOMS else ():
        kept = [one for at, one in enumerate(atoms) if at != place]
        joins = [one for at, one in enumerate(pieces[1::2]) if at != max(place - 1, 0)]
        text = kept[0] + "".join(join + atom for join, atom in zip(joins, kept[1:], strict=True))
        yield masked.text[: found.start(1)] + text.replace("&&&", "AND").strip() + masked.text[found.end(1) :]
    yield masked.text[: found.start()].rstrip() + masked.text[found.end() :]


def _list_promises(masked: Masked, schemas: Sequence[TableSchema]) -> Iterator[str]:
    """Yield the text with an error for each aggregate that is neither too small to pay nor too large to be of use."""
    schema = _get_schema(masked.text, masked, schemas)
    if schema is None:
        return
    text = re.sub(r"[\s;]+$", "", masked.text)
    errors, averages = _propose_errors(text, masked, schema)
    least = f" FOR AT LEAST {max((schema.size_hint or DEFAULT_ROWS) // 10, 1)} ROWS" if averages else ""
    joined = ", ".join(errors)
    bare = _BOUNDS.sub(" ", text).rstrip()
    without = re.sub(r"\s*\bFOR\s+AT\s+LEAST\b(?:\s+[\d.-]+)?(?:\s+ROWS)?", "", bare, flags=re.IGNORECASE)
    confidence = re.search(r"\s*\b(?:CONFIDENCE|REUSE|PREFER)\b.*$", without, re.IGNORECASE)
    end = confidence.start() if confidence else len(without)
    budget = schema.budget.epsilon or schema.budget.rho or Fraction(1)
    symbol = "EPSILON" if schema.budget.epsilon is not None else "RHO"
    part = _round(budget / 20)
    if re.search(r"\bBUDGET\b|\bEPSILON\b", text, re.IGNORECASE):
        yield f"{without[:end].rstrip()} BUDGET {part} {symbol}{without[end:]}"
    if kept := _keep_errors(text, len(errors)):
        yield f"{without[:end].rstrip()} ERROR {kept}{without[end:]}"
        yield f"{without[:end].rstrip()} ERROR {kept}{least}{without[end:]}"
    yield f"{without[:end].rstrip()} ERROR {joined}{without[end:]}"
    yield f"{without[:end].rstrip()} ERROR {joined}{least}{without[end:]}"
    yield f"{without[:end].rstrip()} ERROR {joined}{least}"
    yield f"{without[:end].rstrip()} BUDGET {part} {symbol}"


def _keep_errors(text: str, count: int) -> str:
    """Return the asker's own errors, as many as there are aggregates; "" if one of them cannot be an error."""
    found = re.search(r"\bERROR\b\s*([\d.,\s]+)(PERCENT)?", text, re.IGNORECASE)
    numbers = re.findall(r"\d+(?:\.\d+)?", found[1]) if found else []
    if found is None or not numbers or not all(float(one) for one in numbers):
        return ""
    unit = " PERCENT" if found[2] else ""
    return ", ".join(f"{numbers[min(place, len(numbers) - 1)]}{unit}" for place in range(count))


def _propose_errors(text: str, masked: Masked, schema: TableSchema) -> tuple[list[str], bool]:
    """Return an error for each aggregate of the question, and whether one of them is an average or a variance."""
    head = re.split(r"\b(?:ERROR|BUDGET)\b", text, flags=re.IGNORECASE)[0]
    rows = Fraction(schema.size_hint or DEFAULT_ROWS)
    errors, averages, seen = [], False, set()
    for found in re.finditer(rf"\b({'|'.join(AGGREGATES)})\s*\(\s*({NAME}|\*)?", head, re.IGNORECASE):
        function = found[1].upper()
        if (function, found[2]) in seen and not re.search(r"\bFROM\b|\bON\b", head[found.start() :], re.IGNORECASE):
            continue  # HAVING and ORDER BY name the aggregate again
        seen.add((function, found[2]))
        attribute = find_attribute(masked.read(found[2] or "*"), list(schema.domain))
        errors.append(_round(_choose_error(function, attribute, rows)))
        averages |= function in ("AVG", "VAR", "VAR_POP", "STDDEV", "STDDEV_POP")
    return errors or [_round(rows / 50)], averages


def _choose_error(function: str, attribute: Attribute | None, rows: Fraction) -> Fraction:
    if attribute is None or not attribute.is_numeric or function in ("COUNT", "MEDIAN", "QUANTILE"):
        return rows / 50
    lo, hi = Fraction(attribute.lo), Fraction(attribute.hi)  # type: ignore[arg-type]
    if function == "SUM":
        return rows * max(abs(lo), abs(hi), Fraction(1)) / 50
    return max(hi - lo, Fraction(1)) / 10 if function == "AVG" else max(hi - lo, Fraction(1)) ** 2 / 10


def _round(value: Fraction) -> str:
    """Return ``value`` with one significant digit.

    >>> _round(Fraction(2000)), _round(Fraction(1, 40))
    ('2000', '0.02')
    """
    digits = math.floor(math.log10(float(value)))
    step = Decimal(10) ** digits
    return f"{max(int(float(value) / 10**digits), 1) * step:f}"
