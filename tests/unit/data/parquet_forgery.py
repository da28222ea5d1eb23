"""Parquet files written byte by byte, so that footers and page headers can say what is not so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

INT64, BYTE_ARRAY = 2, 6
PLAIN, RLE_DICTIONARY, DELTA_BYTE_ARRAY = 0, 8, 7
ZSTD = 6
DATA, DICTIONARY = 0, 2
Field = tuple[int, object]


def _varint(value: int) -> bytes:
    out = b""
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


class Long(int):
    """A whole number of 64 bits; a plain one has 32."""


def struct(*fields: Field) -> bytes:
    """A Thrift structure of numbers, bytes, structures and lists of these."""
    out, last = b"", 0
    for number, value in fields:
        kind, body = _encoded(value)
        short = number - last < 16
        out += bytes([(number - last) << 4 | kind]) if short else bytes([kind]) + _zigzag(number)
        out += body
        last = number
    return out + b"\0"


@dataclass(frozen=True)
class Structure:
    """Bytes that are a structure already."""

    body: bytes


def _encoded(value: object) -> tuple[int, bytes]:
    if isinstance(value, Structure):
        return 12, value.body
    if isinstance(value, bytes):
        return 8, _varint(len(value)) + value
    if isinstance(value, int):
        return 6 if isinstance(value, Long) else 5, _zigzag(value)
    assert isinstance(value, list)
    kind = _encoded(value[0])[0] if value else 12
    head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + _varint(len(value))
    return 9, head + b"".join(_encoded(part)[1] for part in value)


@dataclass(frozen=True)
class Page:
    """A page: what it holds, and what its header says instead, where that differs."""

    data: bytes
    values: int
    kind: int = DATA
    encoding: int = PLAIN
    says_unpacked: int | None = None
    says_packed: int | None = None

    @property
    def packed(self) -> bytes:
        """Its bytes as they stand in the file."""
        return bytes(pa.compress(self.data, codec="zstd", asbytes=True)) if self.data else b""

    def written(self) -> bytes:
        """Header and bytes."""
        unpacked = len(self.data) if self.says_unpacked is None else self.says_unpacked
        packed = len(self.packed) if self.says_packed is None else self.says_packed
        detail = Structure(
            struct((1, self.values), (2, self.encoding), *([(3, 3), (4, 3)] if self.kind == DATA else []))
        )
        number = 5 if self.kind == DATA else 7
        return struct((1, self.kind), (2, unpacked), (3, packed), (number, detail)) + self.packed


def forge(
    path: Path,
    pages: Sequence[Page],
    *,
    rows: int,
    name: str = "age",
    physical: int = INT64,
    says_unpacked: int | None = None,
    group_rows: int | None = None,
    values: int | None = None,
) -> Path:
    """A file of one required column whose footer says ``rows``, and of its chunk what the last arguments say."""
    body = b"PAR1"
    written = [page.written() for page in pages]
    offsets = [len(body) + sum(map(len, written[:i])) for i in range(len(written))]
    body += b"".join(written)
    unpacked = sum(len(w) - len(p.packed) + len(p.data) for w, p in zip(written, pages, strict=True))
    first_data = next((o for o, p in zip(offsets, pages, strict=True) if p.kind == DATA), 4)
    meta: list[Field] = [
        (1, physical),
        (2, [PLAIN, 3]),
        (3, [name.encode()]),
        (4, ZSTD),
        (5, Long(rows if values is None else values)),
        (6, Long(unpacked if says_unpacked is None else says_unpacked)),
        (7, Long(len(body) - 4)),
        (9, Long(first_data)),
    ]
    if pages and pages[0].kind == DICTIONARY:
        meta.append((11, Long(offsets[0])))
    chunk = Structure(struct((2, Long(4)), (3, Structure(struct(*meta)))))
    group = Structure(struct((1, [chunk]), (2, Long(len(body))), (3, Long(rows if group_rows is None else group_rows))))
    column: list[Field] = [(1, physical), (3, 0), (4, name.encode()), *([(6, 0)] if physical == BYTE_ARRAY else [])]
    root = Structure(struct((4, b"schema"), (5, 1)))
    footer = struct((1, 1), (2, [root, Structure(struct(*column))]), (3, Long(rows)), (4, [group]))
    path.write_bytes(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return path
