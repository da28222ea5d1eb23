"""An offer's description of its columns: only public domains, so that others can align keys and units."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError

Integers = NDArray[np.int64]
MAX_CELLS = 10**6


@dataclass(frozen=True)
class Feature:
    """A feature's unit: the meaning of its numbers -1, 0 and 1. ``grid``: "0" where there are only values.

    A number or boolean is one column from -1 (``lo``) to 1 (``hi``); a category is one column per value, 0 or 1; with
    ``indicator`` one more column is 1 where the value is missing.
    """

    name: str
    kind: str
    lo: str = "0"
    hi: str = "1"
    grid: str = "1"
    values: tuple[str, ...] = ()
    indicator: bool = False

    @property
    def steps(self) -> int:
        """The number of declared values."""
        if self.kind == "category":
            return len(self.values)
        return int((Fraction(self.hi) - Fraction(self.lo)) / Fraction(self.grid)) + 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        own = tuple(f"{self.name}={value}" for value in self.values) if self.kind == "category" else (self.name,)
        return (*own, f"{self.name} is missing") if self.indicator else own

    @property
    def blocks(self) -> int:
        """The maximal number of nonzero columns in one row: where the value is missing, its own column is 0."""
        return 1

    @property
    def scale(self) -> tuple[tuple[float, float], ...]:
        """For each column (middle, half range): a number x is middle + half range * column, in the feature's unit."""
        lo, hi = float(Fraction(self.lo)), float(Fraction(self.hi))
        whole = ((0.0, 1.0),)
        own = whole * len(self.values) if self.kind == "category" else (((lo + hi) / 2, (hi - lo) / 2),)
        return own + whole if self.indicator else own


@dataclass(frozen=True)
class KeyPart:
    """One attribute of a key: its values are listed, or are ``lo``, ``lo + grid``, ... (``steps`` of them).

    ``more``: additional cells for other values and NULL, which cannot be joined.
    """

    name: str
    kind: str
    steps: int
    lo: str = ""
    grid: str = ""
    values: tuple[str, ...] = ()
    more: int = 0

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.steps + self.more

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The values as text, in order."""
        if self.values:
            return self.values
        if self.kind == "boolean":
            return ("false", "true")
        if self.kind in ("integer", "real"):
            first, step = Fraction(self.lo), Fraction(self.grid)
            return tuple(_format_value(first + i * step) for i in range(self.steps))
        first_day = np.datetime64(self.lo)
        step_seconds = np.timedelta64(int(self.grid), "s")
        return tuple(str(first_day + i * step_seconds) for i in range(self.steps))


def _format_value(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


@dataclass(frozen=True)
class JoinKey:
    """A join key: the product of its parts' cells, in row-major order. ``parent``: see ``KeyOf``."""

    parts: tuple[KeyPart, ...]
    parent: int | None = None

    @property
    def name(self) -> str:
        """The attributes joined by ``+``."""
        return "+".join(part.name for part in self.parts)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return math.prod(part.cells for part in self.parts)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its values, independent of the attributes' names."""
        plain = [{**asdict(part), "name": ""} for part in self.parts]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def get_labels(self, cell: int) -> tuple[str | None, ...]:
        """Return the values of one cell; None for other values and NULL."""
        found: list[str | None] = []
        for part in reversed(self.parts):
            cell, place = divmod(cell, part.cells)
            found.append(part.labels[place] if place < part.steps else None)
        return tuple(reversed(found))

    def align_cells(self, other: JoinKey) -> Integers:
        """Return for each cell the cell of ``other`` with the same values, -1 where there is none; shape (cells,).

        Raises:
            ReleaseError: The keys have different numbers of parts.
        """
        if len(self.parts) != len(other.parts):
            raise ReleaseError(f"The keys {self.name} and {other.name} have different numbers of attributes.")
        total = np.zeros(1, dtype=np.int64)
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            place = _align_part(mine, theirs)
            total = np.where(
                (total[:, None] < 0) | (place < 0), -1, total[:, None] * theirs.cells + np.maximum(place, 0)
            ).ravel()
        return total

    def compute_overlap(self, other: JoinKey) -> float:
        """Compute the share of the joinable cells that ``other`` has, too."""
        if len(self.parts) != len(other.parts):
            return 0.0
        found = int((self.align_cells(other) >= 0).sum())
        return found / math.prod(part.steps for part in self.parts)

    def compute_parents(self) -> tuple[Integers, int]:
        """Compute the coarser key of each cell, and the number of these keys; without ``parent`` there is one."""
        part = self.parts[0]
        if self.parent is None or len(self.parts) != 1:
            return np.zeros(self.cells, dtype=np.int64), 1
        first = [label[: self.parent] for label in part.labels] + [""] * part.more
        names = {name: i for i, name in enumerate(dict.fromkeys(first))}
        return np.array([names[name] for name in first], dtype=np.int64), len(names)


def _align_part(mine: KeyPart, theirs: KeyPart) -> Integers:
    """Return for each cell of ``mine`` the index of the same value in ``theirs``, -1 where there is none."""
    if mine.labels == theirs.labels:
        found = np.arange(mine.steps, dtype=np.int64)
    else:
        place = {label: i for i, label in enumerate(theirs.labels)}
        found = np.array([place.get(label, -1) for label in mine.labels], dtype=np.int64)
    return np.concatenate([found, np.full(mine.more, -1, dtype=np.int64)])


def dump_features(features: tuple[Feature, ...]) -> list[dict[str, Any]]:
    """Convert features to JSON-compatible values."""
    return [asdict(feature) for feature in features]


def parse_features(plain: list[dict[str, Any]]) -> tuple[Feature, ...]:
    """Parse the output of ``dump_features``; every field is checked by its use."""
    found = tuple(Feature(**{**one, "values": tuple(one["values"])}) for one in plain)
    if any(feature.steps < 1 or Fraction(feature.hi) < Fraction(feature.lo) for feature in found):
        raise ValueError("a feature without values")
    return found


def dump_key(key: JoinKey) -> dict[str, Any]:
    """Convert a key to JSON-compatible values."""
    return {"parts": [asdict(part) for part in key.parts], "parent": key.parent}


def parse_key(plain: Mapping[str, Any]) -> JoinKey:
    """Parse the output of ``dump_key``."""
    parts = tuple(KeyPart(**{**one, "values": tuple(one["values"])}) for one in plain["parts"])
    if not parts or any(part.steps < 1 or part.more not in (0, 1, 2) for part in parts):
        raise ValueError("a key without values")
    made = JoinKey(parts, plain["parent"])
    if made.cells > MAX_CELLS or any(part.values and len(part.values) != part.steps for part in parts):
        raise ValueError("a key with too many values")
    return made
