"""The lines of a table file that are written anew so that it is read: only those that change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from siloquent.errors import SchemaError
from siloquent.fixes import NO_FIX, Fix, WriteLines, build_fix
from siloquent.schema.files.toml import quote_text, read_toml
from siloquent.schema.files.trade_words import suggest_key
from siloquent.schema.linked.links import is_linked
from siloquent.schema.mending.columns import Entry, list_made_up, mend_column, rename_keys
from siloquent.schema.mending.sections import CONSTRAINT_KEYS, mend_budget, mend_table
from siloquent.schema.mending.syntax import find_corrected_line

MAX_TEXT = 2**16
_SECTIONS = ("format", "attribute", "derived", "constraint", "table", "reading", "budget")
Read = Callable[[str], object]
IsValid = Callable[[str, object], bool]
"""Whether an entry of a section is valid by itself."""


def mend_declaration(text: str, read: Read, is_valid: IsValid) -> Fix:
    """Return the lines to write so that ``read`` takes the declaration ``text``; without a fix if none are found.

    Args:
        read: Reads a declaration, and raises SchemaError if it is invalid.
        is_valid: Whether an entry of a section is valid by itself, so that it is not written anew.
    """
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return NO_FIX
    try:
        raw = read_toml(text)
    except SchemaError as wrong:
        return _mend_syntax(text, wrong, read)
    if is_linked(raw):  # its unit and budget are in other files, and cannot be made up here
        return NO_FIX
    try:
        writes = list(_write_entries(text, raw, is_valid))
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return NO_FIX  # a file may hold anything anywhere; what it was refused for is told in any case
    for chosen in (writes, writes[:1]):
        if chosen and _is_read(_apply(text, chosen), read):
            return _join(chosen)
    return _join(writes) if writes and _reads_differently(text, _apply(text, writes), read) else NO_FIX


def _join(writes: Sequence[WriteLines]) -> Fix:
    first, *others = writes
    return build_fix(first, *(part for one in others for part in ("\n", one)))


def _apply(text: str, writes: Sequence[WriteLines]) -> str:
    for one in writes:
        text = one.apply(text)
    return text


def _is_read(text: str, read: Read) -> bool:
    try:
        read(text)
    except SchemaError:
        return False
    return True


def _reads_differently(text: str, changed: str, read: Read) -> bool:
    """Return whether ``changed`` is refused for another reason than ``text``."""
    reasons = []
    for one in (text, changed):
        try:
            read(one)
        except SchemaError as wrong:
            reasons.append(wrong.detail)
    return len(set(reasons)) == 2


def _mend_syntax(text: str, wrong: SchemaError, read: Read) -> Fix:
    corrected = find_corrected_line(
        text,
        _read_line(wrong),
        lambda changed: _is_read(changed, read),
        lambda changed: _find_fault(changed, wrong.detail),
    )
    if corrected is None:
        return NO_FIX
    _, old, new = corrected
    return build_fix(WriteLines(new, old) if text.count(old) == 1 else _widen(text, old, new, corrected[0]))


def _read_line(wrong: SchemaError) -> int | None:
    found = re.search(r"at line (\d+)", wrong.detail)
    return int(found[1]) if found else None


def _find_fault(text: str, reason: str) -> int | None:
    """Return the line of the first fault of TOML, 0 if it is not known, None if there is none but in a value.

    Args:
        reason: The refusal that is to be mended: where it stays, nothing is.
    """
    try:
        read_toml(text)
    except SchemaError as wrong:
        line = _read_line(wrong)
        return line or (0 if "not valid TOML" in wrong.detail or wrong.detail == reason else None)
    return None


def _widen(text: str, old: str, new: str, changed: str) -> WriteLines:
    """Return the change with the lines before it, so that its place is the only one."""
    lines, after = text.split("\n"), changed.split("\n")
    place = next(at for at, (one, two) in enumerate(zip(lines, after, strict=True)) if one != two)
    for start in range(place, -1, -1):
        block = "\n".join(lines[start : place + 1])
        if text.count(block) == 1:
            return WriteLines("\n".join(after[start : place + 1]), block)
    return WriteLines(new, old)


@dataclass(frozen=True, slots=True)
class _Span:
    """An entry's text in the file; ``inline``: whether it is a table in braces."""

    text: str
    inline: bool
    header: str = ""


def _write_entries(text: str, raw: Mapping[str, Any], is_valid: IsValid) -> Iterator[WriteLines]:
    """Yield the changed entries of the file, as they are meant; those that are valid by themselves stay as they are."""
    raw = dict(raw)
    renamed = {key: _guess_section(key, raw[key]) for key in raw if key not in _SECTIONS}
    for key, meant in renamed.items():
        if meant in _SECTIONS and meant not in raw:
            raw[meant] = raw[key]
    taken: set[str] = set()
    types: dict[str, str] = {}
    columns = []
    for place, one in enumerate(_list_dicts(raw.get("attribute"))):
        mended = dict(one) if is_valid("attribute", one) else mend_column(one, place)
        if str(mended["name"]).casefold() in taken:
            mended["name"] = f"{mended['name']}_{place + 1}"
        taken.add(str(mended["name"]).casefold())
        columns.append(mended)
    table = mend_table(_first(raw.get("table")), {one["name"]: one["type"] for one in columns})
    user = table["unit"].get("column")
    for place, one in enumerate(columns):
        if one["name"] == user and one["type"] not in ("id", "category", "text"):
            columns[place] = {"name": one["name"], "type": "id"}
        types[one["name"]] = columns[place]["type"]
    derived = []
    for place, one in enumerate(_list_dicts(raw.get("derived"))):
        mended = dict(one) if is_valid("derived", one) else mend_column(one, place, derived=True)
        mended["from"] = [_near(str(mended["from"][0]), types) or next(iter(types), "")]
        derived.append(mended)
    names = {**types, **{one["name"]: "integer" for one in derived}}
    constraints = [_mend_constraint(one, names, is_valid) for one in _list_dicts(raw.get("constraint"))]
    yield from _write_list(text, "attribute", raw.get("attribute"), columns, renamed)
    yield from _write_list(text, "derived", raw.get("derived"), derived, renamed)
    yield from _write_list(text, "constraint", raw.get("constraint"), constraints, renamed)
    yield from _write_section(text, "table", raw, table, renamed)
    budget = raw.get("budget")
    mended_budget = (
        dict(budget) if isinstance(budget, dict) and is_valid("budget", budget) else mend_budget(_first(budget))
    )
    yield from _write_section(text, "budget", raw, mended_budget, renamed)
    if raw.get("format") != 1 or type(raw.get("format")) is not int or "format" in renamed.values():
        found = re.search(r"^[ \t]*\w+[ \t]*=[ \t]*\S+[ \t]*(?:#.*)?$", text, re.MULTILINE)
        says = found is not None and (
            found[0].split("=")[0].strip() in ("format", *[key for key, meant in renamed.items() if meant == "format"])
        )
        first = found[0] if says and found is not None else text.split("\n", 1)[0]
        yield WriteLines("format = 1" if says else f"format = 1\n{first}", first)


def _guess_section(key: str, value: object) -> str:
    """Return the section that an unknown one stands for: by its name, or by what it holds."""
    meant = suggest_key(key, _SECTIONS)
    held = _first(value)
    if meant in _SECTIONS or not isinstance(held, dict):
        return meant
    for section, keys in (
        ("attribute", {"type"}),
        ("table", {"adjacency", "unit"}),
        ("budget", {"accountant", "epsilon"}),
    ):
        if keys & set(held):
            return section
    return meant


def _first(raw: object) -> object:
    return raw[0] if isinstance(raw, list) and raw else raw


def _list_dicts(raw: object) -> list[Mapping[str, Any]]:
    listed = raw if isinstance(raw, list) else [raw] if isinstance(raw, dict) else []
    return [one for one in listed if isinstance(one, dict)]


def _near(name: str, known: Mapping[str, str]) -> str:
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), folded, n=1)
    return name if name in known else folded[near[0]] if near else ""


def _mend_constraint(raw: Mapping[str, Any], names: Mapping[str, str], is_valid: IsValid) -> Entry | None:
    """Return a constraint with names as declared; None if it cannot be kept."""
    entry = rename_keys(raw, CONSTRAINT_KEYS)
    for key in ("lhs", "columns"):
        listed = entry.get(key)
        if isinstance(listed, str):
            listed = [listed]
        if isinstance(listed, list):
            entry[key] = [_near(str(one), names) or str(one) for one in listed]
    if isinstance(entry.get("rhs"), str):
        entry["rhs"] = _near(entry["rhs"], names) or entry["rhs"]
    if isinstance(entry.get("references"), str):
        words = re.findall(r"\w+", entry["references"])
        entry["references"] = f"{words[0]}({', '.join(words[1:] or entry.get('columns', ()))})" if words else ""
    guessed = _guess_kind(entry)
    plain = {key: value for key, value in guessed.items() if key not in ("when", "weight")}
    soft = {**entry, "hard": False}
    for tried in (entry, *([soft] if "weight" in entry else []), guessed, plain):
        used = {str(one) for key in ("lhs", "columns") for one in tried.get(key, ())} | (
            {tried["rhs"]} if "rhs" in tried else set()
        )
        if used <= set(names) and is_valid("constraint", tried):
            return tried
    return None


def _guess_kind(entry: Mapping[str, Any]) -> Entry:
    kind = (
        "fd"
        if {"lhs", "rhs"} <= set(entry)
        else "denial"
        if "not" in entry
        else "foreign_key"
        if "references" in entry
        else "key"
    )
    columns = entry.get("columns") or entry.get("lhs")
    keys = {
        "fd": ("lhs", "rhs", "when", "hard", "source"),
        "denial": ("not", "hard", "source"),
        "key": ("columns", "hard"),
        "foreign_key": ("columns", "references", "hard"),
    }[kind]
    made = {key: entry[key] for key in keys if key in entry}
    return {"kind": kind, **({"columns": columns or []} if kind in ("key", "foreign_key") else {}), **made}


def _write_list(
    text: str, key: str, raw: object, mended: Sequence[Entry | None], renamed: Mapping[str, str]
) -> Iterator[WriteLines]:
    before = _list_dicts(raw)
    titles = [key, *(one for one, meant in renamed.items() if meant == key)]
    spans = _find_spans(text, titles)
    if len(spans) != len(before):
        return
    for span, old, new in zip(spans, before, mended, strict=True):
        is_renamed = bool(span.header) and span.header != f"[[{key}]]"
        if new is None:
            yield WriteLines("# left out: a constraint that cannot be read", span.text)
        elif new != old or is_renamed:
            written = _render_inline(new) if span.inline else _render_block(f"[[{key}]]", new)
            yield WriteLines(f"{_warn_of_bounds(old, new) if key != 'constraint' else ''}{written}", span.text)
    for title in titles[1:]:
        found = re.search(rf"^{re.escape(title)}[ \t]*=[ \t]*\[", text, re.MULTILINE)
        if found:
            yield WriteLines(f"{key} = [", found[0])


def _warn_of_bounds(old: Mapping[str, Any], new: Entry) -> str:
    """Return a comment before an entry whose bounds were made up; empty if they were given."""
    made_up = list_made_up(old, new)
    if not made_up:
        return ""
    verb = "are examples" if len(made_up) > 1 else "is an example"
    return f"# {' and '.join(made_up)} of {quote_text(new['name'])[:80]} {verb}: write what you know of the field.\n"


def _write_section(
    text: str, key: str, raw: Mapping[str, Any], mended: Entry, renamed: Mapping[str, str]
) -> Iterator[WriteLines]:
    titles = [key, *(one for one, meant in renamed.items() if meant == key)]
    pattern = rf"^\[\[?(?:{'|'.join(map(re.escape, titles))})\]?\][^\n]*\n(?:(?!\[)[^\n]*\n?)*"
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        if key not in raw:
            last = text.rstrip("\n").rsplit("\n", 1)[-1]
            yield WriteLines(f"{last}\n\n{_render_block(f'[{key}]', mended)}", last)
        return
    is_titled = found[0].startswith(f"[{key}]")
    if not is_titled or raw.get(key) != mended:
        yield WriteLines(_render_block(f"[{key}]", mended) + "\n", found[0])


def _find_spans(text: str, titles: Sequence[str]) -> list[_Span]:
    """Return the entries' texts in order: ``[[attribute]]`` and its lines, or what ``attribute = [...]`` lists."""
    title = "|".join(map(re.escape, titles))
    blocks = [
        _Span(found[0].rstrip("\n"), False, found[0].split("\n", 1)[0].strip())
        for found in re.finditer(rf"^\[\[?(?:{title})\]?\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", text, re.MULTILINE)
    ]
    start = re.search(rf"^(?:{title})[ \t]*=[ \t]*\[", text, re.MULTILINE)
    return blocks if start is None else [_Span(one, True) for one in _iter_braces(text, start.end())]


def _iter_braces(text: str, at: int) -> Iterator[str]:
    """Yield the outer tables in braces from ``at`` to the end of the list, quotes and comments apart."""
    depth, start, square = 0, at, 0
    while at < len(text):
        sign = text[at]
        if sign in "\"'":
            at = _skip_text(text, at)
            continue
        if sign == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if sign == "{":
            start = at if depth == 0 else start
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield text[start : at + 1]
        elif sign in "[]" and depth == 0:
            square += 1 if sign == "[" else -1
            if square < 0:
                return
        at += 1


def _skip_text(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" and quote == '"' else 1
    return at + 1


def _render_block(header: str, entry: Mapping[str, Any]) -> str:
    return "\n".join([header, *(f"{_quote_key(key)} = {_render(value)}" for key, value in entry.items())])


def _render_inline(entry: Mapping[str, Any]) -> str:
    return f"{{ {', '.join(f'{_quote_key(key)} = {_render(value)}' for key, value in entry.items())} }}"


def _quote_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quote_text(key)


def _render(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(_render, value))}]"
    return _render_inline(value) if isinstance(value, dict) else str(value)
