"""A table's declared attributes in order, and blocks: the cells in which rows are counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from siloquent.errors import RequestError, SchemaError, UnknownName
from siloquent.fixes import FixLike, run
from siloquent.schema.attribute import MAX_NAME_LENGTH, Attribute

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CELLS = 10**6


class TooManyCells(RequestError):
    """A block would have more than ``MAX_CELLS`` cells."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Attributes in declared order; names are unique, ignoring case. ``table``: the table's name, if known.

    ``computed``: attributes that a query computes, found by their exact names only. ``relation``: what a row is, if a
    query made the rows from those of the table.
    """

    attributes: tuple[Attribute, ...]
    table: str = field(default="", compare=False)
    computed: tuple[Attribute, ...] = field(default=(), compare=False, repr=False)
    relation: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for attribute in self.attributes:
            folded = attribute.name.casefold()
            if folded in seen:
                raise SchemaError(f"Attribute {attribute.name!r} is declared twice (case is ignored).")
            seen.add(folded)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        """Return the attribute of that name, matched exactly or else ignoring case.

        Raises:
            UnknownName: it was never declared.
        """
        for attribute in (*self.computed, *self.attributes):
            if attribute.name == name:
                return attribute
        for attribute in self.attributes:
            if attribute.name.casefold() == name.casefold():
                return attribute
        raise UnknownName("attribute", name[:MAX_NAME_LENGTH], self.names, fix=self._suggest_fix(name))

    def _suggest_fix(self, name: str) -> FixLike:
        """Suggest a fix for an unknown attribute name: it may be a declared value; otherwise list the declarations."""
        for attribute in self.attributes:
            if attribute.kind == "category" and name in attribute.values:
                return f"{attribute.name} = '{name}' in single quotes: it is a value of {attribute.name!r}"
        return run("show", self.table) if self.table else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names in declared order."""
        return tuple(attribute.name for attribute in self.attributes)

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of only these attributes, in the given order."""
        return Domain(tuple(self[name] for name in names), self.table)

    @property
    def size(self) -> int:
        """The number of cells of the full product, countable attributes only."""
        return math.prod(a.size for a in self.attributes if a.is_countable)

    def count_cells(self, names: Iterable[str]) -> int:
        """Return the number of cells of the product of these attributes."""
        return self.project(names).size


@dataclass(frozen=True, slots=True, eq=False)
class ClassRuns:
    """The class of each cell of a very wide attribute: ``classes[i]`` from cell ``starts[i]`` on, OUTSIDE last.

    It behaves like the array of all ``length`` classes when indexed or measured, but stores only the runs.
    """

    starts: NDArray[np.int64]
    classes: NDArray[np.int64]
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, places: NDArray[Any]) -> NDArray[np.int64]:
        cells = np.where(places < 0, places.astype(np.int64) + self.length, places)
        return self.classes[np.searchsorted(self.starts, cells, side="right") - 1]

    @property
    def shape(self) -> tuple[int]:
        """The shape of the array that it stands for."""
        return (self.length,)

    @property
    def nbytes(self) -> int:
        """The memory that it uses, in bytes."""
        return self.starts.nbytes + self.classes.nbytes

    def max(self, initial: int) -> int:
        """Return the largest class, at least ``initial``."""
        return int(self.classes.max(initial=initial))

    def without_outside(self) -> ClassRuns:
        """Return the classes without OUTSIDE."""
        inside = self.starts < self.length - 1
        return ClassRuns(self.starts[inside], self.classes[inside], self.length - 1)


Classes: TypeAlias = "NDArray[np.int64] | ClassRuns"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The product of classes of some attributes: the cells of one grouped count.

    ``classes[i]`` maps attribute i's cells to classes, shape (size + 1,): entry j for cell j, the last for OUTSIDE; as
    runs for attributes of more than 10^6 values.
    Every class is 0..n-1; OUTSIDE has one too, unless it is -1: such rows are then not counted (never an error).
    A block without attributes has one cell: all rows. ``computed``: those of its attributes that are not declared.
    """

    attributes: tuple[str, ...]
    classes: tuple[Classes, ...]
    computed: tuple[Attribute, ...] = ()

    def __post_init__(self) -> None:
        if len(self.attributes) != len(self.classes):
            raise RequestError("A block needs one class map for each attribute.")
        if self.size > MAX_CELLS:
            raise TooManyCells(
                f"The query needs {self.size:,} cells of {', '.join(self.attributes)}; the limit is {MAX_CELLS:,}.",
                fix="use fewer attributes, or group by declared bins",
            )

    def find_computed(self, name: str) -> Attribute | None:
        """Find the computed attribute of that name; None for a declared one."""
        return next((attribute for attribute in self.computed if attribute.name == name), None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes of each attribute."""
        return tuple(int(classes.max(initial=-1)) + 1 for classes in self.classes)

    @property
    def size(self) -> int:
        """The number of cells, in row-major order of ``shape``."""
        return math.prod(self.shape)
