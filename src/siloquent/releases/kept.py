"""Tests of what the ledger keeps of a release: they hold by whatever rules the rest of it was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

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
    if mine.keys() != theirs.keys() or any(
        my_words.get(word) != their_words.get(word) for word in (my_words.keys() | their_words.keys()) - set(besides)
    ):
        return False
    return all(
        mine[name].dtype == theirs[name].dtype
        and mine[name].shape == theirs[name].shape
        and (
            np.array_equal(mine[name], theirs[name])
            or bool(tolerance and np.allclose(mine[name], theirs[name], rtol=tolerance, atol=tolerance * 1e-3))
        )
        for name in mine
    )
