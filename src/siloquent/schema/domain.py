"""The declared attributes of a table in order, and blocks: the cells in which rows are counted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from siloquent.errors import RequestError, SchemaError, UnknownName
from siloquent.schema.attribute import MAX_NAME_LENGTH, Attribute

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CELLS = 10**6


@dataclass(frozen=True, slots=True)
class Domain:
    """Attributes in declared order; names are unique, also when case is ignored. ``table``: whose, if known."""

    attributes: tuple[Attribute, ...]
    table: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for attribute in self.attributes:
            folded = attribute.name.casefold()
            if folded in seen:
                raise SchemaError(f"Attribute {attribute.name!r} is declared twice (case does not count).")
            seen.add(folded)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        """The attribute of that name, exactly or, failing that, ignoring case.

        Raises:
            UnknownName: it was never declared.
        """
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        for attribute in self.attributes:
            if attribute.name.casefold() == name.casefold():
                return attribute
        raise UnknownName("attribute", name[:MAX_NAME_LENGTH], self.names, fix=self._suggest_fix(name))

    def _suggest_fix(self, name: str) -> str:
        """What to do about a name that is no attribute's: it may be a declared value; else look at what is declared."""
        for attribute in self.attributes:
            if attribute.kind == "category" and name in attribute.values:
                return f"{attribute.name} = '{name}' in single quotes: it is a value of {attribute.name!r}"
        return f"siloquent show {self.table}" if self.table else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names in declared order."""
        return tuple(attribute.name for attribute in self.attributes)

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of these attributes alone, in the order given."""
        return Domain(tuple(self[name] for name in names), self.table)

    @property
    def size(self) -> int:
        """The number of cells of the whole product, countable attributes only."""
        return math.prod(a.size for a in self.attributes if a.is_countable)

    def count_cells(self, names: Iterable[str]) -> int:
        """The number of cells of the product of these attributes."""
        return self.project(names).size


@dataclass(frozen=True, slots=True, eq=False)
class ClassRuns:
    """The class of each cell of an attribute with very many: ``classes[i]`` from cell ``starts[i]`` on, OUTSIDE last.

    It is indexed by places and measured as the array of all ``length`` classes is, in memory for the runs alone.
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
        """As of the array."""
        return (self.length,)

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.starts.nbytes + self.classes.nbytes

    def max(self, initial: int) -> int:
        """The largest class, ``initial`` at least."""
        return int(self.classes.max(initial=initial))

    def without_outside(self) -> ClassRuns:
        """The classes of the cells alone."""
        inside = self.starts < self.length - 1
        return ClassRuns(self.starts[inside], self.classes[inside], self.length - 1)


Classes: TypeAlias = "NDArray[np.int64] | ClassRuns"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The product of classes of some attributes: the cells of one grouped count.

    ``classes[i]`` maps attribute i's cells to classes, shape (size + 1,): entry j for cell j, the last for OUTSIDE; by
    runs for attributes of more than 10^6 values.
    Every class is 0..n-1; OUTSIDE has one too, unless -1: such rows are then left out of the count (never an error).
    A block without attributes has one cell: all rows.
    """

    attributes: tuple[str, ...]
    classes: tuple[Classes, ...]

    def __post_init__(self) -> None:
        if len(self.attributes) != len(self.classes):
            raise RequestError("A block needs one class map for each attribute.")
        if self.size > MAX_CELLS:
            raise RequestError(
                f"The question needs {self.size:,} cells of {', '.join(self.attributes)}; the most is {MAX_CELLS:,}.",
                fix="ask about fewer attributes at once, or group by declared bins",
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many classes each attribute has."""
        return tuple(int(classes.max(initial=-1)) + 1 for classes in self.classes)

    @property
    def size(self) -> int:
        """The number of cells, in row-major order of ``shape``."""
        return math.prod(self.shape)
