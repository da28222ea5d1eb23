"""The only edit of an owner's table file by a command: the number of the epoch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from siloquent.errors import SchemaError

_EPOCH = re.compile(r"(?m)^([ \t]*epoch[ \t]*=[ \t]*)\d+")
_BUDGET = re.compile(r"(?m)^[ \t]*\[budget\][ \t]*(#.*)?$")


def declare_epoch(file: Path, number: int) -> bool:
    """Write ``epoch = number`` into a table file, keeping every other character; return whether that was possible.

    The new text replaces the file only if it declares the same table with that epoch.
    """
    from siloquent.schema.build import parse_schema
    from siloquent.schema.domains import DomainFolder

    domains = DomainFolder(file.parent.parent)
    text = file.read_text(encoding="utf-8")
    changed, count = _EPOCH.subn(rf"\g<1>{number}", text, count=1)
    if not count:
        changed = _BUDGET.sub(lambda found: f"{found[0]}\nepoch = {number}", text, count=1)
    try:
        before, after = parse_schema(text, domains), parse_schema(changed, domains)
    except SchemaError:
        return False
    if after.budget.epoch != number or (after.domain, after.name) != (before.domain, before.name):
        return False
    building = file.with_suffix(".toml.new")
    building.write_text(changed, encoding="utf-8")
    os.replace(building, file)
    return True
