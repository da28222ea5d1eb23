"""A party's rows as they were when it joined: codes for comparison, canonical bytes for sending."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths.dependencies import list_columns, number_groups
from siloquent.profile.measure.encode import NULL, encode_cell, encode_unique_null, encode_value
from siloquent.profile.spec.columns import ProfileColumn


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The rows of one party; its length is private, its repr shows only columns.

    ``codes``: shape (rows, columns), equal cells have equal codes. ``cells``: for each column the bytes of each code.
    """

    columns: tuple[ProfileColumn, ...]
    codes: NDArray[np.int64] = field(repr=False)
    cells: tuple[tuple[bytes, ...], ...] = field(repr=False)

    @property
    def rows(self) -> int:
        """The number of rows: private, only for the measure room."""
        return len(self.codes)

    def list_values(self, mask: int) -> list[bytes]:
        """Return the distinct values of the columns in ``mask``, each once, in an order without meaning to others."""
        _, first = number_groups(self.codes, mask)
        chosen = list_columns(mask)
        parts = [[self.cells[column][code] for code in self.codes[first, column].tolist()] for column in chosen]
        return [encode_value(cells) for cells in zip(*parts, strict=True)] if parts else [b""] * len(first)

    def count_distinct(self, mask: int) -> int:
        """Return the number of distinct values of the columns in ``mask``."""
        return len(number_groups(self.codes, mask)[1])

    def to_bytes(self) -> bytes:
        """Encode the snapshot for the role's state folder: a restarted party uses it even if the source changed."""
        parts = [_frame_block(self.codes.astype("<i8").tobytes())]
        for cells in self.cells:
            parts += [len(cells).to_bytes(8, "big"), *(_frame_block(cell) for cell in cells)]
        return b"".join(parts)

    def compute_commitment(self, salt: bytes) -> str:
        """Compute the SHA-256 over the sorted encoded rows and ``salt``: a commitment for a dispute."""
        every = (1 << len(self.columns)) - 1
        group, first = number_groups(self.codes, every)
        ordered = sorted(zip(self.list_values(every), np.bincount(group, minlength=len(first)).tolist(), strict=True))
        digest = hashlib.sha256(salt)
        for value, count in ordered:
            digest.update(count.to_bytes(8, "big") + len(value).to_bytes(8, "big") + value)
        return digest.hexdigest()


def encode_snapshot(
    columns: Sequence[ProfileColumn],
    table: Sequence[Iterable[Any]],
    *,
    nulls: str = "value",
    party: str = "",
    random: bytes = b"",
    refuse: bool = True,
) -> Snapshot:
    """Encode rows given column by column.

    Args:
        table: The values of each column, all of equal length.
        nulls: "value", or "distinct": then every NULL has unique bytes, from ``party``, row and ``random``.
        refuse: Whether a value that is not of its column's type is an error; otherwise it becomes NULL.
    Raises:
        RequestError: a value is not of its column's type.
    """
    codes, cells = [], []
    for column, values in zip(columns, table, strict=True):
        known: dict[bytes, int] = {}
        cache: dict[Any, int] = {}
        found = []
        for row, value in enumerate(values):
            code = cache.get(value) if _is_plain(value) else None
            if code is None:
                cell = _encode_column_cell(column, value, refuse)
                is_own = cell == NULL and nulls == "distinct"
                if is_own:
                    cell = encode_unique_null(party, row, random)
                code = known.setdefault(cell, len(known))
                if _is_plain(value) and not is_own:
                    cache[value] = code
            found.append(code)
        codes.append(np.array(found, dtype=np.int64))
        cells.append(tuple(known))
    return Snapshot(tuple(columns), np.stack(codes, axis=1), tuple(cells))


def _encode_column_cell(column: ProfileColumn, value: Any, refuse: bool) -> bytes:
    try:
        return encode_cell(column, value)
    except RequestError:
        if refuse:
            raise
        return NULL


def _is_plain(value: Any) -> bool:
    """Return whether equal values of this type have equal bytes, so that each is encoded once; NULLs may differ."""
    return isinstance(value, str)


def decode_snapshot(columns: Sequence[ProfileColumn], data: bytes) -> Snapshot:
    """Decode the output of ``to_bytes``, for the same columns."""
    reader = io.BytesIO(data)

    def number() -> int:
        return int.from_bytes(reader.read(8), "big")

    codes = np.frombuffer(reader.read(number()), dtype="<i8").astype(np.int64).reshape(-1, len(columns))
    cells = tuple(tuple(reader.read(number()) for _ in range(number())) for _ in columns)
    return Snapshot(tuple(columns), codes, cells)


def _frame_block(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content
