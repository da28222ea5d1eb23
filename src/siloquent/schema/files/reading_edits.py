"""Settings under ``[reading]``, written into an owner's table file by a command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from siloquent.errors import SchemaError
from siloquent.schema.files.toml import quote_text, read_toml

if TYPE_CHECKING:
    from siloquent.schema.domains import DomainFolder

_HEAD = re.compile(r"(?m)^[ \t]*\[reading\][ \t]*(?:#.*)?$")
_TABLE = re.compile(r"(?m)^[ \t]*\[table\]")
_NEXT = re.compile(r"(?m)^[ \t]*\[")
_FIX = re.compile(
    r"(?P<lines>\w+ = .+) under \[reading(?:\.columns\.(?P<column>\"(?:[^\"\\]|\\.)*\"))?\](?: in schemas/.*)?"
)


def split_reading_fix(fix: str) -> list[str]:
    """Return the lines under ``[reading]`` that a finding proposes; none if it proposes something else.

    >>> split_reading_fix('decimal = "," and thousands = "." under [reading] in schemas/v.toml')
    ['decimal = ","', 'thousands = "."']
    >>> split_reading_fix('missing = ["-"] under [reading.columns."a b"]')
    ['columns."a b".missing = ["-"]']
    """
    found = _FIX.fullmatch(fix)
    if found is None:
        return []
    column = f"columns.{found['column']}." if found["column"] else ""
    return [f"{column}{line}" for line in re.split(r" and (?=\w+ = )", found["lines"])]


def list_reading_lines(fixes: Iterable[str]) -> list[str]:
    """Return the lines under ``[reading]`` that findings propose together: lists of one key are joined.

    >>> list_reading_lines(['missing = ["-"] under [reading]', 'missing = ["n/a"] under [reading]'])
    ['missing = ["-", "n/a"]']
    """
    found: dict[str, str | list[str]] = {}
    for line in (line for fix in fixes for line in split_reading_fix(fix)):
        key, _, text = line.partition(" = ")
        value, before = read_toml(f"value = {text}")["value"], found.get(key)
        if isinstance(before, list) and isinstance(value, list):
            found[key] = list(dict.fromkeys((*before, *value)))
        elif before is None:
            found[key] = value
    return [f"{key} = {_write_value(value)}" for key, value in found.items()]


def _write_value(value: str | list[str]) -> str:
    return quote_text(value) if isinstance(value, str) else f"[{', '.join(map(quote_text, value))}]"


def name_source(text: str, source: str) -> str:
    """Return the table file ``text`` with ``source`` as the place of its rows."""
    line = f"source = {quote_text(source)}"
    kept = re.sub(r"(?m)^source = .*\n", "", text)
    return re.sub(r"(?m)^\[table\][ \t]*$", lambda head: f"{head[0]}\n{line}", kept, count=1)


def write_reading(text: str, lines: str, domains: DomainFolder) -> str | None:
    """Return the table file ``text`` with ``lines`` under ``[reading]``, in place of those of the same keys.

    None: no such edit declares the same table, read otherwise.
    """
    from siloquent.schema.build import parse_schema

    changed = _edit(text, lines.splitlines())
    try:
        before, after = parse_schema(text, domains), parse_schema(changed, domains)
    except SchemaError:
        return None
    is_same = (after.domain, after.name, after.budget, after.unit, after.source) == (
        before.domain, before.name, before.budget, before.unit, before.source,
    )  # fmt: skip
    return changed if is_same else None


def _edit(text: str, lines: list[str]) -> str:
    head = _HEAD.search(text)
    if head is None:
        table = _TABLE.search(text)
        at = table.start() if table else len(text)
        return "\n".join([text[:at].rstrip("\n"), "", "[reading]", *lines, "", text[at:]])
    following = _NEXT.search(text, head.end())
    end = following.start() if following else len(text)
    section = text[head.end() : end]
    for line in lines:
        key = re.escape(line.partition(" = ")[0])
        section = re.sub(rf"(?m)^[ \t]*{key}[ \t]*=.*\n?", "", section)
    return text[: head.end()] + "\n" + "\n".join(lines) + section + text[end:]
