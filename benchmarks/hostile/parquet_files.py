"""Parquet files that nobody should write: footers and page headers that lie, number by number, and damaged pages."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hostile.row_files import COUNTED, Sample, counts_of
from benchmarks.hostile.toml_files import damaged

# Thrift's compact protocol as a tree, so that one number can be changed and all the rest stays right.

_TRUE, _FALSE, _BYTE, _SHORT, _WHOLE, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_NUMBERS = (_SHORT, _WHOLE, _LONG)


@dataclass(slots=True)
class Node:
    """A value of a Thrift structure: ``value`` is a number, bytes, or a list of (field number, node).

    Bytes also stand for doubles, and for structures that are too deep to be a tree.
    """

    kind: int
    value: Any
    inner: int = 0

    def __getitem__(self, place: int) -> Node:
        """A structure's field of that number, or a list's part in that place."""
        return self.value[place][1] if self.kind == _LIST else dict(self.value)[place]  # type: ignore[no-any-return]

    def nodes(self) -> Iterator[Node]:
        """Itself and all nodes below."""
        yield self
        for _, node in self.value if isinstance(self.value, list) else ():
            yield from node.nodes()


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def node(self, kind: int) -> Node:
        if kind in (_TRUE, _FALSE):
            return Node(kind, None)
        if kind == _BYTE:
            return Node(kind, self.byte())
        if kind in _NUMBERS:
            value = self.varint()
            return Node(kind, (value >> 1) ^ -(value & 1))
        if kind in (_DOUBLE, _BINARY):
            count = 8 if kind == _DOUBLE else self.varint()
            self.at += count
            return Node(kind, self.data[self.at - count : self.at])
        if kind == _STRUCT:
            return Node(kind, list(self._fields()))
        head = self.byte()
        size = self.varint() if head >> 4 == 15 else head >> 4
        inner = head & 15
        bits = inner in (_TRUE, _FALSE)
        return Node(_LIST, [(0, self.node(_BYTE if bits else inner)) for _ in range(size)], inner)

    def _fields(self) -> Iterator[tuple[int, Node]]:
        number = 0
        while head := self.byte():
            step = head >> 4
            if not step:
                value = self.varint()
                number = (value >> 1) ^ -(value & 1)
            number += step
            yield number, self.node(head & 15)


def _varint(value: int) -> bytes:
    value &= 2**70 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value: int) -> bytes:
    return _varint(value * 2 if value >= 0 else -value * 2 - 1)


def _bytes(node: Node) -> bytes:
    if node.kind in (_TRUE, _FALSE):
        return b""
    if node.kind == _BYTE:
        return bytes([node.value & 255])
    if node.kind in _NUMBERS:
        return _zigzag(node.value)
    if node.kind == _BINARY:
        return _varint(len(node.value)) + bytes(node.value)
    if isinstance(node.value, bytes):
        return node.value
    if node.kind == _LIST:
        body = b"".join(_bytes(inner) for _, inner in node.value)
        return bytes([0xF0 | node.inner]) + _varint(len(node.value)) + body
    body, last = b"", 0
    for number, inner in node.value:
        body += (
            bytes([inner.kind]) + _zigzag(number)
            if not 0 < number - last < 16
            else bytes([(number - last) << 4 | inner.kind])
        )
        body, last = body + _bytes(inner), number
    return body + b"\0"


# What is spoiled

_LARGE = (
    0,
    1,
    -1,
    2,
    7,
    12,
    127,
    2**15,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32,
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    100,
    1000,
)
_PIECES = (b"\0", b"\xff" * 5, b"PAR1", b"\x15\x00", b"\x80" * 9, b"\x1c" * 30, b"\x18\xff\xff\xff\x7f")
_HONEST: tuple[dict[str, Any], ...] = (
    {"compression": "none", "use_dictionary": False},
    {"compression": "snappy"},
    {"compression": "zstd", "data_page_version": "2.0"},
    {"compression": "gzip", "use_dictionary": False, "data_page_size": 64},
    {"compression": "lz4", "row_group_size": 7},
    {"compression": "brotli"},
    {"compression": "none", "use_dictionary": False, "column_encoding": {"note": "DELTA_BYTE_ARRAY",
    "age": "DELTA_BINARY_PACKED"}},
    {"compression": "none", "use_dictionary": False, "column_encoding": {"ward": "DELTA_LENGTH_BYTE_ARRAY",
    "patient": "BYTE_STREAM_SPLIT"}},
    {"compression": "none", "write_page_checksum": True, "version": "1.0"},
    {"compression": "snappy", "store_schema": False, "write_page_index": True, "data_page_version": "2.0"},
)  # fmt: skip


@lru_cache(maxsize=len(_HONEST))
def _honest(number: int) -> tuple[bytes, tuple[tuple[int, ...], ...]]:
    """A right file of 40 visits, and what is counted in it."""
    rng = np.random.default_rng([5, number])
    wards = ("A", "B", "C", None, "canary-of-ana", "two\nlines")
    days = np.datetime64("2024-02-25") + rng.integers(0, 10, 40)
    columns = {
        "patient": pa.array(rng.integers(27182818, 27182830, 40)),
        "age": pa.array([None if a > 13 else int(a) for a in rng.integers(-1, 15, 40)]),
        "ward": pa.array([wards[i] for i in rng.integers(0, len(wards), 40)]),
        "day": pa.array(days.astype("datetime64[D]")) if number % 2 else pa.array(days.astype("datetime64[us]")),
        "note": pa.array([("canary", "seen", None)[i] for i in rng.integers(0, 3, 40)]),
        **({"list": pa.array([[1, 2], None] * 20)} if number % 3 == 0 else {}),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **_HONEST[number])
    return file.getvalue(), counts_of({name: columns[name].to_pylist() for name in COUNTED}, "visits")


def parquet_sample(rng: np.random.Generator, table: str) -> Sample:
    """An honest file of some writer, or one with a few lies or damages."""
    data, expected = _honest(int(rng.integers(len(_HONEST))))
    match rng.integers(10):
        case 0:
            return Sample("parquet", data, table, None if table == "people" else expected)
        case 1 | 2:
            return Sample("parquet", _damaged(rng, data), table)
        case 3 | 4 | 5:
            return Sample("parquet", _lying_page(rng, data), table)
        case _:
            return Sample("parquet", _lying_footer(rng, data), table)


def _damaged(rng: np.random.Generator, data: bytes) -> bytes:
    for _ in range(rng.integers(1, 4)):
        data = damaged(rng, data, _PIECES)
    match rng.integers(8):
        case 0:
            return data + data
        case 1:
            return data[:-4] + (b"PARE", b"PAR2", b"\0\0\0\0")[rng.integers(3)]
        case 2:
            return data[:-8] + int(rng.integers(2**32)).to_bytes(4, "little") + b"PAR1"
        case _:
            return data


def footer_of(data: bytes) -> Node:
    """The footer of a Parquet file as a tree."""
    length = int.from_bytes(data[-8:-4], "little")
    return _Reader(data[-8 - length : -8]).node(_STRUCT)


def with_footer(data: bytes, tree: Node) -> bytes:
    """The file with ``tree`` for a footer."""
    length, footer = int.from_bytes(data[-8:-4], "little"), _bytes(tree)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:]


def _lying_footer(rng: np.random.Generator, data: bytes) -> bytes:
    tree = footer_of(data)
    for _ in range(rng.integers(1, 4)):
        _lie(rng, tree)
    return with_footer(data, tree)


def _lying_page(rng: np.random.Generator, data: bytes) -> bytes:
    """One page header with another number in it; the bytes behind move where the header grew, unless it is padded."""
    footer = pq.read_metadata(io.BytesIO(data))
    chunk = footer.row_group(int(rng.integers(footer.num_row_groups))).column(int(rng.integers(footer.num_columns)))
    at = chunk.dictionary_page_offset if chunk.has_dictionary_page and rng.random() < 0.5 else chunk.data_page_offset
    reader = _Reader(data, at)
    tree = reader.node(_STRUCT)
    for _ in range(rng.integers(1, 3)):
        _lie(rng, tree)
    header = _bytes(tree)
    if len(header) == reader.at - at or rng.random() < 0.5:
        return data[:at] + header + data[reader.at :]
    return data[:at] + header + data[at + len(header) :]  # the header eats into its page, offsets stay right


def _lie(rng: np.random.Generator, tree: Node) -> None:
    """Change one number, text, list or field of ``tree``."""
    nodes = list(tree.nodes())
    node = nodes[rng.integers(len(nodes))]
    if node.kind in (*_NUMBERS, _BYTE):
        large = int(_LARGE[rng.integers(len(_LARGE))])
        node.value = (large, node.value + large, node.value * 1_000, -node.value, node.value + 1)[rng.integers(5)]
    elif node.kind == _BINARY:
        texts = (b"", b"\xff\xfe", b"age", b"x" * 5_000, node.value[::-1], rng.bytes(8), b"\0" * 8)
        node.value = texts[rng.integers(len(texts))]
    elif isinstance(node.value, list) and node.value:
        place = int(rng.integers(len(node.value)))
        match rng.integers(6):
            case 0:
                del node.value[place]
            case 1:
                node.value.insert(place, node.value[place])
            case 2:
                node.value[place] = (int(rng.integers(0, 20)), node.value[place][1])
            case 3:
                depth = int(rng.choice([5, 200, 20_000]))
                deep = Node(_STRUCT, b"\x1c" * depth + b"\0" * (depth + 1))
                node.value[place] = (node.value[place][0], deep)
            case 4 if node.kind == _LIST and len(node.value) < 5_000:
                node.value *= int(rng.choice([2, 50, 2_000]))
            case _:
                other = nodes[rng.integers(len(nodes))]
                if other.kind not in (_STRUCT, _LIST):
                    node.value[place] = (node.value[place][0], other)
