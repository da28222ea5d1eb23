"""The only edit of an owner's declaration by a command or a server: the number of the epoch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import SchemaError

if TYPE_CHECKING:
    from siloquent.schema.domains import DomainFolder

_EPOCH = re.compile(r"(?m)^([ \t]*epoch[ \t]*=[ \t]*)\d+")
_BUDGET = re.compile(r"(?m)^[ \t]*\[budget\][ \t]*(#.*)?$")


def set_epoch(text: str, number: int, domains: DomainFolder) -> str | None:
    """Return the table file ``text`` with ``epoch = number``, every other character as it was.

    None: no single edit declares the same table with that epoch.
    """
    from siloquent.schema.build import parse_schema

    changed = _edit(text, number)
    try:
        before, after = parse_schema(text, domains), parse_schema(changed, domains)
    except SchemaError:
        return None
    is_same = after.budget.epoch == number and (after.domain, after.name) == (before.domain, before.name)
    return changed if is_same else None


def _set_unit_epoch(text: str, number: int) -> str | None:
    """Do the same as ``set_epoch`` with the file of a unit that tables share."""
    from siloquent.schema.linked.units import parse_unit

    changed = _edit(text, number)
    try:
        before, after = parse_unit(text, epoch=number), parse_unit(changed)
    except SchemaError:
        return None
    return changed if before.budget == after.budget and before.name == after.name else None


def _edit(text: str, number: int) -> str:
    changed, count = _EPOCH.subn(rf"\g<1>{number}", text, count=1)
    return changed if count else _BUDGET.sub(lambda found: f"{found[0]}\nepoch = {number}", text, count=1)


def declare_epoch(file: Path, number: int) -> bool:
    """Write ``epoch = number`` into a table's or a unit's file, atomically; return whether that was possible."""
    from siloquent.schema.domains import DomainFolder

    text = file.read_text(encoding="utf-8")
    is_unit = file.parent.name == "units"
    changed = _set_unit_epoch(text, number) if is_unit else set_epoch(text, number, DomainFolder(file.parent.parent))
    if changed is None:
        return False
    building = file.with_suffix(".toml.new")
    building.write_text(changed, encoding="utf-8")
    os.replace(building, file)
    return True
