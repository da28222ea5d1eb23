"""``units/NAME.toml``: who the person is over several tables, and the one budget of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from siloquent.errors import SchemaError, UnknownName
from siloquent.fixes import WriteLines, build_fix
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.budgets import build_budget
from siloquent.schema.files.models import UnitFile
from siloquent.schema.files.toml import describe_faults, hash_declaration, number_faults, read_toml
from siloquent.schema.table import Adjacency, TableBudget

MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class SharedUnit:
    """A unit that several tables share; ``digest`` is the SHA-256 of the canonical JSON of its file."""

    name: str
    adjacency: Adjacency
    budget: TableBudget
    digest: str


def parse_unit(text: str, *, epoch: int | None = None) -> SharedUnit:
    """Parse the unit that ``text`` declares.

    Args:
        text: A unit's file (TOML, format 1).
        epoch: Read it as if it stated this epoch; None: as it is.
    Raises:
        SchemaError: it is not TOML, has unknown keys or contradicts itself.
    """
    raw = read_toml(text)
    if epoch is not None and isinstance(raw.get("budget"), dict):
        rest = {key: value for key, value in raw["budget"].items() if key != "epoch"}
        raw = {**raw, "budget": rest | ({"epoch": epoch} if epoch > 1 else {})}
    try:
        file = UnitFile.model_validate(raw)
    except ValidationError as wrong:
        raise SchemaError(number_faults(describe_faults(wrong, raw))) from None
    name = file.unit.name
    if not name.isidentifier() or len(name) > MAX_NAME:
        raise SchemaError(f"A unit's name must be 1 to {MAX_NAME} letters, digits and _, not {name[:20]!r}.")
    return SharedUnit(name, file.unit.adjacency, build_budget(file.budget), hash_declaration(raw))


def get_unit_file(folder: Path, name: str) -> Path:
    """Return the file of the unit ``name`` in the workspace in ``folder``."""
    return folder / "units" / f"{name}.toml"


def list_units(folder: Path) -> list[str]:
    """Return the names of the units declared in the workspace in ``folder``."""
    return sorted(path.stem for path in (folder / "units").glob("*.toml") if path.is_file())


_EXAMPLE = """format = 1

[unit]
name = "{name}"
adjacency = "add-remove"

[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6\""""


def read_unit(name: str, context: DomainFolder) -> SharedUnit:
    """Read the unit ``name`` of a workspace.

    Raises:
        UnknownName: it is not declared. SchemaError: its file is invalid.
    """
    known = list_units(context.folder)
    text = context.read_file(get_unit_file(context.folder, name)) if name.isidentifier() else None
    if text is None:
        usable = name if name.isidentifier() else "person"
        text = _EXAMPLE.format(name=usable)
        raise UnknownName("unit", name, known, fix=build_fix(f"as units/{usable}.toml, write:\n{text}"))
    try:
        unit = parse_unit(text, epoch=context.unit_epoch)
    except SchemaError as wrong:
        wrong.detail = f"units/{name}.toml: {wrong.detail}"
        wrong.remedy = wrong.remedy.map(WriteLines, lambda one: replace(one, file=f"units/{name}.toml"))
        raise
    if unit.name != name:
        raise SchemaError(f"units/{name}.toml declares the unit {unit.name!r}.", fix=f'name = "{name}"')
    return unit
