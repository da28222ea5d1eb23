"""The specification of a profile: dependencies of one table over all parties of a federation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.foreign.numbers import parse_plain_float
from siloquent.foreign.spec_types import check_types
from siloquent.maths.dependencies import MAX_LATTICE
from siloquent.privacy import parse_fraction

Kind = Literal["cfd", "ufd", "keys"]
Nulls = Literal["value", "distinct"]
Protocol = Literal["padded", "fast", "smfd"]
KINDS: tuple[Kind, ...] = ("cfd", "ufd", "keys")
WIDE_TABLE = 12
NARROW_LHS = 5
LOCAL_LHS = 3
"""The longest left side by default for a wide local table: above 12 columns there are too many longer ones."""
_FIX = 'table = "prices" and columns = ["item", "item_group"], as in docs/reference/profile.md'


@dataclass(frozen=True, slots=True)
class ProfileSpec:
    """The functional dependencies to search for, and how much may be revealed on the way.

    Args:
        table: A table that every party declares.
        columns: 2 to 16 of its columns; their order is fixed for the session.
        kinds: "ufd": minimal, hold on all rows together. "cfd": minimal among those that hold in every party; always
            found on the way. "keys": sets of columns on which no two rows agree.
        max_lhs: The longest left side; None: all up to 12 columns, 5 above that.
        empty_lhs: Whether ``{} -> B`` (B is constant) counts; otherwise left sides have at least one column.
        nulls: "value": NULL equals NULL. "distinct": NULL equals nothing, not even itself.
        protocol: "padded" reveals no distinct counts; "fast" sends fewer elements and reveals them; "smfd" is
            the thesis' protocol on a sound group, for comparison.
        canaries: The number of synthetic requests per real one that check the workers.
        min_rows: A party with fewer rows declines.
        max_sets: The maximal number of sets that a session requests; None: all of them.
        size_class: Whether batches are rounded up, so that others learn a party's number of rows to 6 % only.
        deadline: The time limit of the whole session in seconds.
    """

    table: str
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...] = ("cfd", "ufd")
    max_lhs: int | None = None
    empty_lhs: bool = False
    nulls: Nulls = "value"
    protocol: Protocol = "padded"
    canaries: Fraction = Fraction(1, 20)
    min_rows: int = 30
    max_sets: int | None = None
    size_class: bool = True
    deadline: float = 86_400.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "canaries", _parse_share(self.canaries))
        check_types(self, RequestError)
        if not self.table:
            raise RequestError("A profile needs a table.", fix=_FIX)
        if not 2 <= len(self.columns) <= MAX_LATTICE or len(set(self.columns)) != len(self.columns):
            raise RequestError(f"A profile takes 2 to {MAX_LATTICE} distinct columns.", fix=_FIX)
        for name, known in (("nulls", ("value", "distinct")), ("protocol", PROTOCOLS)):
            if getattr(self, name) not in known:
                raise RequestError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}.")
        if not self.kinds or any(kind not in KINDS for kind in self.kinds):
            raise RequestError(f"kinds must be chosen from {', '.join(KINDS)}.", fix=UseOption("kinds", ("cfd", "ufd")))
        self._check_numbers()

    def _check_numbers(self) -> None:
        if self.max_lhs is not None and not (isinstance(self.max_lhs, int) and 1 <= self.max_lhs <= len(self.columns)):
            raise RequestError(
                f"max_lhs must be between 1 and {len(self.columns)}, not {self.max_lhs!r}.", fix="max_lhs = 2"
            )
        if not 0 <= self.canaries <= 1:
            raise RequestError(
                f"canaries must be a share between 0 and 1, not {self.canaries}.", fix=UseOption("canaries", 0.05)
            )
        if not isinstance(self.min_rows, int) or self.min_rows < 2:
            # One row is one value: a shared value reveals the membership of that row.
            raise RequestError(
                "min_rows must be at least 2: with 1, a single row would be revealed.", fix=UseOption("min_rows", 30)
            )
        if self.max_sets is not None and not (isinstance(self.max_sets, int) and self.max_sets >= 1):
            raise RequestError(
                f"max_sets must be a whole number of at least 1, not {self.max_sets!r}.", fix=UseOption("max_sets", 400)
            )
        if self.protocol == "smfd" and (self.empty_lhs or "keys" in self.kinds):
            raise RequestError(
                "The thesis's protocol supports neither empty left sides nor keys.", fix=UseOption("protocol", "padded")
            )
        if not self.deadline > 0:
            raise RequestError("deadline must be a positive number of seconds.", fix=UseOption("deadline", 86400))

    @property
    def most(self) -> int:
        """The longest left side that is searched."""
        if self.max_lhs is not None:
            return self.max_lhs
        return len(self.columns) if len(self.columns) <= WIDE_TABLE else NARROW_LHS

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as a dictionary for JSON and TOML."""
        plain = asdict(self)
        return {**plain, "columns": list(self.columns), "kinds": list(self.kinds), "canaries": str(self.canaries)}

    def canonical(self) -> str:
        """Return canonical JSON: equal specs have equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


PROTOCOLS: tuple[Protocol, ...] = ("padded", "fast", "smfd")


def _parse_share(given: object) -> Fraction:
    """Parse a share exactly as given; a float as it is printed."""
    try:
        return given if isinstance(given, Fraction) else parse_fraction(str(given) if type(given) is float else given)
    except (ValueError, ZeroDivisionError):
        raise RequestError(
            f"canaries must be a share between 0 and 1, not {str(given)[:40]}.", fix=UseOption("canaries", 0.05)
        ) from None


def parse_spec(plain: Any) -> ProfileSpec:
    """Parse the spec in a TOML file or JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    known = {field.name for field in fields(ProfileSpec)}
    if not isinstance(plain, dict):
        raise RequestError("A profile's spec must be a table of keys and values.", fix=_FIX)
    unknown = sorted(set(plain) - known)
    if unknown:
        near = get_close_matches(str(unknown[0]), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        told = f"A profile has no {unknown[0][:60]!r}.{hint} Known: {', '.join(sorted(known))}."
        raise RequestError(told, fix=near[0] if near else _FIX)
    absent = [name for name in ("table", "columns") if name not in plain]
    if absent:
        raise RequestError(f"A profile needs {' and '.join(absent)}.", fix=_FIX)
    try:
        values = dict(plain)
        for name in ("columns", "kinds"):
            if name in values:
                if not isinstance(values[name], list | tuple):
                    raise TypeError(f"{name} is a list")
                values[name] = tuple(values[name])
        if "canaries" in values:
            values["canaries"] = _parse_share(values["canaries"])
        if isinstance(values.get("deadline"), str):
            values["deadline"] = parse_plain_float(values["deadline"])
        return ProfileSpec(**values)
    except (TypeError, ValueError, ArithmeticError) as wrong:
        raise RequestError(f"The profile's spec is invalid: {wrong}.", fix=_FIX) from None
