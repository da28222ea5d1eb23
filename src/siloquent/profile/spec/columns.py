"""The rules for reading cells, equal for all parties: declared in the session, never guessed from an engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import RequestError
from siloquent.schema.files.toml import parse_finite

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

ColumnKind = Literal["text", "integer", "boolean", "decimal", "real", "date", "datetime", "bytes"]
KINDS: tuple[ColumnKind, ...] = ("text", "integer", "boolean", "decimal", "real", "date", "datetime", "bytes")
MAX_SCALE = 38
_OF_SCHEMA: Mapping[str, ColumnKind] = {
    "category": "text",
    "id": "text",
    "text": "text",
    "boolean": "boolean",
    "integer": "integer",
    "real": "real",
    "date": "date",
    "datetime": "datetime",
}


@dataclass(frozen=True, slots=True)
class ProfileColumn:
    """A column of the session.

    Args:
        type: The type as which its cells are read.
        scale: Digits after the decimal point.
        grid: The step of a real, as decimal text: 1.0 and 0.99999 must not differ by accident.
        trim, casefold: Whether texts are compared without surrounding blanks, without case.
        names_people: Whether values identify people, so that counts of shared values are counts of people.
    """

    name: str
    type: ColumnKind
    scale: int = 0
    grid: str = ""
    trim: bool = False
    casefold: bool = False
    names_people: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= 128:
            raise RequestError("A column's name must have 1 to 128 characters.")
        if self.type not in KINDS:
            raise RequestError(f"Column {self.name!r}: type must be one of {', '.join(KINDS)}, not {self.type!r}.")
        if not isinstance(self.scale, int) or not 0 <= self.scale <= MAX_SCALE:
            raise RequestError(f"Column {self.name!r}: scale must be between 0 and {MAX_SCALE}.")
        if self.type == "real" and not _is_step(self.grid):
            raise RequestError(
                f"Column {self.name!r} is real and has no grid, so equality would depend on rounding.",
                fix=f'declare a grid for {self.name}, such as grid = "0.1"',
            )
        if (self.trim or self.casefold) and self.type != "text":
            raise RequestError(f"Column {self.name!r}: trim and casefold apply only to texts.")

    def to_dict(self) -> dict[str, Any]:
        """Return the column as a JSON-compatible dictionary; unset entries are left out."""
        return {key: value for key, value in asdict(self).items() if value or key in ("name", "type")}


def _is_step(text: str) -> bool:
    try:
        return parse_finite(text) > 0
    except (ArithmeticError, TypeError, ValueError):
        return False


def parse_column(plain: Any) -> ProfileColumn:
    """Parse the output of ``to_dict``.

    Raises:
        RequestError: it is not a column.
    """
    try:
        return ProfileColumn(**plain)
    except TypeError:
        raise RequestError("A column takes name and type, and optionally scale, grid, trim and casefold.") from None


def build_columns(schema: TableSchema, names: Iterable[str]) -> tuple[ProfileColumn, ...]:
    """Build columns from the table's declaration: types by kind, a real's grid, ids as names of people.

    Raises:
        UnknownName: one was never declared.
    """
    found = []
    for name in names:
        attribute = schema.domain[name]
        grid = str(attribute.grid) if attribute.kind == "real" else ""
        found.append(ProfileColumn(name, _OF_SCHEMA[attribute.kind], grid=grid, names_people=attribute.kind == "id"))
    return tuple(found)


def compute_columns_digest(columns: Iterable[ProfileColumn]) -> str:
    """Compute the SHA-256 of names, types and reading rules, which parties compare before any computation."""
    plain = [column.to_dict() for column in columns]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
