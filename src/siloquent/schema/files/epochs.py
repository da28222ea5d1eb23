"""Edits of an owner's declaration by a command or a server: the number of the epoch, and the whole budget."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from siloquent.errors import SchemaError

if TYPE_CHECKING:
    from siloquent.schema.domains import DomainFolder
    from siloquent.schema.table import TableBudget

_EPOCH = re.compile(r"(?m)^([ \t]*epoch[ \t]*=[ \t]*)\d+")
_BUDGET = re.compile(r"(?m)^[ \t]*\[budget\][ \t]*(#.*)?$")


def set_epoch(text: str, number: int, domains: DomainFolder) -> str | None:
    """Return the table file ``text`` with ``epoch = number``, every other character as it was.

    None: no single edit declares the same table with that epoch.
    """
    return _edit_table(text, _write_epoch(text, number), lambda budget: replace(budget, epoch=number), domains)


def _edit_table(
    text: str, changed: str, change: Callable[[TableBudget], TableBudget], domains: DomainFolder
) -> str | None:
    """Return ``changed`` if it declares the table of ``text`` with the changed budget; otherwise None."""
    from siloquent.schema.build import parse_schema

    try:
        before, after = parse_schema(text, domains), parse_schema(changed, domains)
    except SchemaError:
        return None
    is_same = after.budget == change(before.budget) and (after.domain, after.name) == (before.domain, before.name)
    return changed if is_same else None


def _write_epoch(text: str, number: int) -> str:
    changed, count = _EPOCH.subn(rf"\g<1>{number}", text, count=1)
    return changed if count else _BUDGET.sub(lambda found: f"{found[0]}\nepoch = {number}", text, count=1)


def declare_epoch(file: Path, number: int) -> bool:
    """Write ``epoch = number`` into a table's or a unit's file, atomically; return whether that was possible."""
    from siloquent.schema.domains import DomainFolder

    text = file.read_text(encoding="utf-8")
    changed: str | None
    if file.parent.name == "units":
        changed = _write_epoch(text, number)
        # A unit's budget does not include its epoch, so both files are read as of the new one.
        changed = changed if _have_same_unit(text, changed, lambda budget: budget, epoch=number) else None
    else:
        changed = set_epoch(text, number, DomainFolder(file.parent.parent))
    return _replace_file(file, changed)


def declare_amount(file: Path, symbol: Literal["epsilon", "rho"], amount: str) -> bool:
    """Write the budget's ``epsilon`` or ``rho`` into a table's or a unit's file, atomically, if it declares that one.

    Returns:
        Whether that was possible.
    """
    from siloquent.schema.domains import DomainFolder

    text = file.read_text(encoding="utf-8")
    found = re.compile(rf"(\b{symbol}[ \t]*=[ \t]*)(?:\"[^\"\n]*\"|'[^'\n]*'|[-+.\w]+)")
    start = text.find("budget")
    changed = text[:start] + found.sub(lambda one: f'{one[1]}"{amount}"', text[start:], count=1) if start >= 0 else text

    def change(budget: TableBudget) -> TableBudget:
        number = Fraction(amount)
        return replace(budget, epsilon=number) if symbol == "epsilon" else replace(budget, rho=number)

    if file.parent.name == "units":
        return _replace_file(file, changed if _have_same_unit(text, changed, change) else None)
    return _replace_file(file, _edit_table(text, changed, change, DomainFolder(file.parent.parent)))


def _have_same_unit(
    text: str, changed: str, change: Callable[[TableBudget], TableBudget], *, epoch: int | None = None
) -> bool:
    """Return whether ``changed`` declares the unit of ``text`` with the changed budget."""
    from siloquent.schema.linked.units import parse_unit

    try:
        before, after = parse_unit(text, epoch=epoch), parse_unit(changed)
    except SchemaError:
        return False
    return change(before.budget) == after.budget and before.name == after.name


def _replace_file(file: Path, text: str | None) -> bool:
    if text is None:
        return False
    building = file.with_suffix(".toml.new")
    building.write_text(text, encoding="utf-8")
    os.replace(building, file)
    return True
