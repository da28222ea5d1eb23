"""Adoption of found dependencies as constraints of a table's declaration, which makes them public statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import run
from siloquent.profile.spec import Dependency, FDReport, parse_dependency
from siloquent.schema.build import parse_schema
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.toml import read_toml

_ARRAY = re.compile(r"^constraint\s*=\s*\[", re.MULTILINE)


def choose_dependencies(report: FDReport, pick: Sequence[str]) -> tuple[Dependency, ...]:
    """Return the dependencies of the union named by ``pick``, such as ``"supplier -> city"``.

    Raises:
        RequestError: one was not found over all rows together; one that holds only within each party is named as
            such.
    """
    known = {(frozenset(one.lhs), one.rhs): one for one in report.ufd}
    inside = {(frozenset(one.lhs), one.rhs) for one in report.cfd}
    found = []
    for text in pick:
        wanted = parse_dependency(text)
        key = (frozenset(wanted.lhs), wanted.rhs)
        if key not in known:
            why = "holds in each party, but not over all rows" if key in inside else "is not among those found"
            listed = "; ".join(str(one) for one in report.ufd[:5])
            raise RequestError(f"{text!r} {why}. Found: {listed or 'none'}.", fix=run("profile show", report.id))
        found.append(known[key])
    return tuple(found)


def build_constraint_entries(report: FDReport, dependencies: Sequence[Dependency]) -> list[dict[str, Any]]:
    """Build the constraints in the form of a table file."""
    return [
        {"kind": "fd", "lhs": list(one.lhs), "rhs": one.rhs, "hard": True, "source": f"profile:{report.id}"}
        for one in dependencies
        if one.lhs
    ]


def adopt_constraints(text: str, new: Sequence[dict[str, Any]], domains: DomainFolder | None = None) -> str:
    """Add ``new`` constraints to a table file's text; existing ones stay unchanged.

    Raises:
        SchemaError: the new text would not parse to the old content plus the constraints; the file is left unchanged.
    """
    before = read_toml(text)
    held = {(tuple(c.get("lhs", ())), c.get("rhs")) for c in before.get("constraint", []) if c.get("kind") == "fd"}
    wanted = [one for one in new if (tuple(one["lhs"]), one["rhs"]) not in held]
    if not wanted:
        return text
    lines = [_format_line(one) for one in wanted]
    changed = _insert_into_array(text, lines) if _ARRAY.search(text) else _append_tables(text, wanted)
    held_now = before.get("constraint", [])
    try:
        after = read_toml(changed)
        orders = ([*wanted, *held_now], [*held_now, *wanted])
        same = {**after, "constraint": []} == {**before, "constraint": []} and after["constraint"] in orders
    except SchemaError:
        same = False
    if not same:
        pasted = ", ".join(lines)
        raise SchemaError("Cannot add the constraints to this file automatically.", fix=f"add {pasted}")
    parse_schema(changed, domains)
    return changed


def write_adopted(path: Path, new: Sequence[dict[str, Any]]) -> bool:
    """Write ``new`` constraints into a table file atomically; return whether anything changed."""
    text = path.read_text(encoding="utf-8")
    changed = adopt_constraints(text, new, DomainFolder(path.parent.parent))
    if changed == text:
        return False
    beside = path.with_suffix(".toml.new")
    beside.write_text(changed, encoding="utf-8")
    beside.replace(path)
    return True


def _format_line(entry: dict[str, Any]) -> str:
    lhs = ", ".join(_quote_text(name) for name in entry["lhs"])
    return (
        f'{{ kind = "fd", lhs = [{lhs}], rhs = {_quote_text(entry["rhs"])}, '
        f"hard = true, source = {_quote_text(entry['source'])} }}"
    )


def _quote_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _insert_into_array(text: str, lines: Sequence[str]) -> str:
    """Insert lines after the opening bracket of the array, without parsing its content."""
    found = _ARRAY.search(text)
    assert found is not None
    at = found.end()
    return text[:at] + "".join(f"\n  {line}," for line in lines) + text[at:]


def _append_tables(text: str, wanted: Sequence[dict[str, Any]]) -> str:
    blocks = [
        f'\n[[constraint]]\nkind = "fd"\nlhs = [{", ".join(map(_quote_text, one["lhs"]))}]\n'
        f"rhs = {_quote_text(one['rhs'])}\n"
        f"hard = true\nsource = {_quote_text(one['source'])}\n"
        for one in wanted
    ]
    return text.rstrip("\n") + "\n" + "".join(blocks)
