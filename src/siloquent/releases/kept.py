"""Tests of what the ledger keeps of a release: they hold by whatever rules the rest of it was made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from siloquent.errors import ReleaseError
from siloquent.releases.arrays import unpack
from siloquent.releases.provenance import Provenance

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer

FileTest: TypeAlias = Callable[[bytes], bool]
Split: TypeAlias = Callable[[bytes], tuple[tuple[Provenance, ...], bytes]]
"""Splits a file into its provenances and the bytes of the measurement without them."""


@dataclass(frozen=True, slots=True)
class KeptMeasurement:
    """The measurement at a release's receipt.

    Attributes:
        tests: By file name: whether the file holds the ledger's measurement and receipt.
        schema: The digest of the declaration in the measurement; empty if it holds none.
        request: The request in the measurement, as text; empty if it holds none.
    """

    task: str
    tests: Mapping[str, FileTest]
    schema: str = ""
    request: str = ""


def keep_measurement(task: str, name: str, split: Split, stored: SettledAnswer) -> KeptMeasurement | None:
    """Return the test of the file ``name``, which holds ``stored`` and its provenance; None if it is of another task.

    Args:
        split: Raises ReleaseError for anything but a file of ``task``.
    """
    try:
        _, measured = split(stored.payload)
    except ReleaseError:
        return None
    receipt = stored.receipt
    place = (stored.account, receipt.ledger, receipt.seq, receipt.hash)

    def holds(data: bytes) -> bool:
        try:
            parts, found = split(data)
        except ReleaseError:
            return False
        return found == measured and [(one.account, one.ledger, one.seq, one.hash) for one in parts] == [place]

    return KeptMeasurement(task, {name: holds})


def has_same_arrays(
    one: bytes, other: bytes, names: tuple[str, ...], *, besides: tuple[str, ...] = (), tolerance: float = 0.0
) -> bool:
    """Return whether two files of ``pack`` hold the same arrays and words, regardless of compression.

    Args:
        names: The names of the arrays.
        besides: Words that may differ.
        tolerance: The relative difference allowed between real numbers.
    """
    import numpy as np

    try:
        (mine, my_words), (theirs, their_words) = (unpack(each, names) for each in (one, other))
    except ReleaseError:
        return False
    words = [{name: word for name, word in each.items() if name not in besides} for each in (my_words, their_words)]
    if mine.keys() != theirs.keys() or not _has_same_words(words[0], words[1], tolerance):
        return False
    pairs = [(mine[name], theirs[name]) for name in mine]
    return all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and (np.array_equal(a, b) or bool(tolerance and np.allclose(a, b, rtol=tolerance, atol=tolerance * 1e-3)))
        for a, b in pairs
    )


def _has_same_words(one: Any, other: Any, tolerance: float) -> bool:
    mine, theirs = dict(walk_leaves(one)), dict(walk_leaves(other))
    return mine.keys() == theirs.keys() and all(is_near(mine[place], theirs[place], tolerance) for place in mine)


def is_near(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two values are equal; two real numbers may differ by ``tolerance``, absolutely or relatively."""
    if isinstance(one, float) and isinstance(other, float) and tolerance:
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and bool(one == other)


def walk_leaves(plain: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the values of a document with their paths, ``guarantee.rho``; empty lists and objects are values."""
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    if not inner:
        yield place, plain
    for key, value in inner:
        yield from walk_leaves(value, f"{place}.{key}" if place else str(key))
