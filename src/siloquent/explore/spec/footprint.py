"""The subject of a linear measurement, in a form that outlives the query: declared cells, columns, weights."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Classes, ClassRuns

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """One block of a measurement.

    ``declared`` identifies each attribute's declaration by its digest. ``classes`` maps its cells (and OUTSIDE last, if
    rows can be there) to classes, of which there are ``shape``; ``column`` maps the product of classes, in row-major
    order, to columns, -1 for cells that do not count.
    """

    attributes: tuple[str, ...]
    declared: tuple[str, ...]
    shape: tuple[int, ...]
    classes: tuple[Classes, ...]
    column: Integers

    def to_plain(self) -> dict[str, Any]:
        """Return the area as part of a stored measurement."""
        return {
            "attributes": list(self.attributes),
            "declared": list(self.declared),
            "shape": list(self.shape),
            "classes": [_pack_classes(classes) for classes in self.classes],
            "column": pack_numbers(self.column),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Area:
        """Parse the area that ``plain`` was made from."""
        return cls(
            attributes=tuple(str(name) for name in plain["attributes"]),
            declared=tuple(str(digest) for digest in plain["declared"]),
            shape=tuple(int(size) for size in plain["shape"]),
            classes=tuple(_unpack_classes(one) for one in plain["classes"]),
            column=unpack_numbers(plain["column"]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """All blocks of a measurement of ``quantity`` (rows, or a sum in its units) on rows of the table's ``version``.

    ``weights``: the columns of each block that the measured values add up, unless the measurement has a
    strategy; None if every column is a value by itself. ``rounded``: columns are sums rounded to whole units.
    """

    version: int
    quantity: str
    areas: tuple[Area, ...]
    weights: tuple[Integers | None, ...] = ()
    rounded: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return the footprint as part of a stored measurement."""
        return {
            "version": self.version,
            "quantity": self.quantity,
            "rounded": int(self.rounded),
            "areas": [area.to_plain() for area in self.areas],
            "weights": [None if one is None else [len(one), pack_numbers(one.reshape(-1))] for one in self.weights],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Footprint:
        """Parse the footprint that ``plain`` was made from."""
        return cls(
            version=int(plain["version"]),
            quantity=str(plain["quantity"]),
            areas=tuple(Area.from_plain(area) for area in plain["areas"]),
            weights=tuple(
                None if one is None else unpack_numbers(one[1]).reshape(int(one[0]), -1) for one in plain["weights"]
            ),
            rounded=bool(plain["rounded"]),
        )


def _pack_classes(classes: Classes) -> Any:
    """Pack classes as text, or as runs for an attribute with very many values."""
    if not isinstance(classes, ClassRuns):
        return pack_numbers(classes)
    return {"starts": pack_numbers(classes.starts), "classes": pack_numbers(classes.classes), "length": classes.length}


def _unpack_classes(plain: Any) -> Classes:
    if isinstance(plain, str):
        return unpack_numbers(plain)
    return ClassRuns(unpack_numbers(plain["starts"]), unpack_numbers(plain["classes"]), int(plain["length"]))


def pack_numbers(numbers: Integers) -> str:
    """Pack integers as text: as differences, since most are runs."""
    steps = np.diff(numbers, prepend=0)
    return base64.b64encode(zlib.compress(steps.astype("<i8").tobytes(), 6)).decode()


def unpack_numbers(text: str) -> Integers:
    """Parse the numbers that ``text`` was made from."""
    return np.cumsum(np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i8"), dtype=np.int64)
