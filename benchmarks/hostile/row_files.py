"""CSV files and Arrow frames that nobody should write: strange rows whose counts are known, and damaged files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.hostile.toml_files import damaged
from siloquent.schema import Attribute, TableSchema

Kind = Literal["workspace", "schema", "csv", "parquet", "frame"]
SECRETS = ("canary", "27182818")
"""Stand in rows and passwords alone: a message that holds one shows what it must not."""

COUNTED = ("age", "ward", "day")
DECLARED = """\
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "age", type = "integer", lo = 0, hi = 12, outside = "{outside}", null = "cell" }},
  {{ name = "ward", type = "category", values = {wards}, other = "cell", null = "cell" }},
  {{ name = "day", type = "date", lo = 2024-02-27, hi = 2024-03-02, outside = "drop", null = "drop" }},
  {{ name = "note", type = "text", max_bytes = 40 }},
]
[table]
name = "{name}"
source = "{source}"
adjacency = "add-remove"
unit = {unit}
[budget]
accountant = "pure"
epsilon = "1000"
"""
WARDS = """["A", "B", "it's; \\"C\\"", "two\\nlines"]"""
UNITS = {"visits": '{ kind = "row" }', "people": '{ kind = "user", column = "patient", max_rows = 2 }'}
"""Two tables on each source: one whose rows all count, one where at most two of each person do."""


def declaration(table: str, source: str) -> str:
    """The table file of ``visits`` or ``people``."""
    outside = "clamp" if table == "visits" else "drop"
    return DECLARED.format(name=table, source=source, unit=UNITS[table], outside=outside, wards=WARDS)


@lru_cache(maxsize=2)
def declared(table: str) -> TableSchema:
    """The declaration of ``visits`` or ``people`` without a source, for frames and for what is expected."""
    from siloquent.schema.build import parse_schema

    return parse_schema(declaration(table, ""))


@dataclass(frozen=True, slots=True)
class Sample:
    """One hostile input. ``expected``: the counts of each attribute of ``COUNTED``, where its rows are known."""

    kind: Kind
    content: bytes | pa.Table
    table: str = "visits"
    expected: tuple[tuple[int, ...], ...] | None = None


def counts_of(columns: dict[str, Sequence[Any]], table: str) -> tuple[tuple[int, ...], ...]:
    """How often each place of each attribute of ``COUNTED`` occurs, OUTSIDE last, as ``Attribute.index`` has it."""
    domain = declared(table).domain
    return tuple(_histogram(domain[name], columns[name]) for name in COUNTED)


def _histogram(attribute: Attribute, values: Sequence[Any]) -> tuple[int, ...]:
    places = [attribute.index(value) for value in values]
    return tuple(np.bincount([p if p >= 0 else attribute.size for p in places], minlength=attribute.size + 1).tolist())


# CSV

_CELLS = {
    "patient": ("p1", "p2", "p3", "", "canary-of-ana", "7", "'", "p1 "),
    "age": (
        "3", "0", "12", "13", "-5", " 7 ", "1e1", "0x10", "1_000", "", "NaN", "-inf", "9" * 400, "5.5", "27182818",
        "\u0663",
        "1e9999", "=1+1", "+3", ".", "1e", "4.9999999999999999999", "canary", "1\u00a0", "\\N", "-0",
    ),
    "ward": (
        "A", "B", "C", "", "canary-of-ana", "=cmd|'x'!A1", 'it\'s; "C"', "a,b;c|d\te", "two\nlines", "\u202eA",
        "A\u0301", "a",
        "x" * 3_000, "\N{PILE OF POO}", " A", "\\N", "NULL", "'", "two\r\nlines", '"', "A" * 70_000,
    ),
    "day": (
        "2024-02-29", "2024-02-30", "2024-03-02 23:59:59.999999", "0001-01-01", "", "infinity", "10000-01-01",
        "0000-01-01",
        "2024-03-01T00:00:00+02:00", "today", "2024-02-27T00:00Z", "27182818", "2024-02-28\n", " 2024-02-28 ",
    ),
    "note": ("", "seen", "canary of bo", "x" * 60, "\u00e4" * 30, "a\nb", '"quoted"', "\x1b[2J", "\u202e"),
}  # fmt: skip
_PIECES = (
    b'"', b'""', b"\n", b"\r", b"\r\n", b",", b";", b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"\\",
    b"'", b"\x1f\x8b", b"canary", b"," * 3_000, b"x" * 2**21, b'"' * 999, b"\n" * 3_000, b"#", b"=1+1", b"sep=;\n",
)  # fmt: skip


def csv_sample(rng: np.random.Generator, table: str) -> Sample:
    """A file of strange rows that are known, or one that is damaged."""
    rows = int(rng.integers(0, 12))
    columns = {name: [cells[i] for i in rng.integers(0, len(cells), rows)] for name, cells in _CELLS.items()}
    data, delimiter = _written(rng, columns)
    if rng.random() < 0.4:
        expected = (
            None if table == "people" else counts_of({n: [c or None for c in columns[n]] for n in COUNTED}, table)
        )
        return Sample("csv", gzip.compress(data, 1) if rng.random() < 0.2 else data, table, expected)
    return Sample("csv", _ATTACKS[rng.integers(len(_ATTACKS))](rng, data, delimiter), table)


def _written(rng: np.random.Generator, columns: dict[str, list[str]]) -> tuple[bytes, str]:
    """A right CSV file: in any order of columns, with any delimiter and line end, quoted where it must be or may be."""
    delimiter, end = ",;\t|"[rng.integers(4)], ("\n", "\r\n")[rng.integers(2)]
    names = [str(name) for name in rng.permutation([*columns, *(["more"] if rng.random() < 0.3 else [])])]
    always = rng.random() < 0.3

    def cell(text: str) -> str:
        must = always or any(sign in text for sign in f'"\n\r{delimiter}')
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if must else text

    rows = max((len(values) for values in columns.values()), default=0)
    lines = [names, *([columns[n][i] if n in columns else "canary" for n in names] for i in range(rows))]
    text = end.join(delimiter.join(map(cell, line)) for line in lines)
    last = end if rng.random() < 0.8 else ""
    return ("\ufeff" if rng.random() < 0.1 else "").encode() + (text + last).encode(), delimiter


def _without_header(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    return data.partition(b"\n")[2]


def _header_twice(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    first, end, rest = data.partition(b"\n")
    more = (b"AGE", b"age", b"", b"column1", b"\0", b"canary" + delimiter.encode() + b"canary", b'"x')[rng.integers(7)]
    return first.rstrip(b"\r") + delimiter.encode() + more + end + rest


def _encoded(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    text = data.decode("utf-8")
    name = ("utf-16", "utf-32", "utf-8-sig", "latin-1", "cp037", "utf-7", "utf-16-be")[rng.integers(7)]
    return text.encode(name, "replace")


def _packed(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    packed = gzip.compress((data, gzip.compress(data), data + b"\0" * 2**22, b"A,B\n" * 2**16)[rng.integers(4)], 1)
    return damaged(rng, packed, _PIECES[:-6]) if rng.random() < 0.7 else packed


def _ragged(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    lines = data.split(b"\n")
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(len(lines)))
        lines[place] = (lines[place] + delimiter.encode() * int(rng.integers(1, 9)), lines[place][:5], b"")[
            rng.integers(3)
        ]
    return b"\n".join(lines)


def _wide(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    count = int(rng.choice([4_000, 5_000, 20_000]))
    return delimiter.join(["age", "ward", *(f"c{i}" for i in range(count))]).encode() + b"\n" + data


def _damaged(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    for _ in range(rng.integers(1, 4)):
        data = damaged(rng, data, _PIECES)
    return data


def _nothing(rng: np.random.Generator, data: bytes, delimiter: str) -> bytes:
    pieces = (
        b"",
        b"\n",
        b"\0" * 99,
        b'"',
        b"\xef\xbb\xbf",
        b"PAR1" + data,
        rng.bytes(int(rng.integers(400))),
        b"\x1f\x8b",
    )
    return pieces[rng.integers(len(pieces))]


_Attack = Callable[[np.random.Generator, bytes, str], bytes]
_ATTACKS: tuple[_Attack, ...] = (
    _damaged, _damaged, _damaged, _ragged, _without_header, _header_twice, _encoded, _packed, _wide, _nothing,
)  # fmt: skip


# Arrow frames

_TEXTS = ("A", "B", "canary", None, "", "two\nlines", "27182818", "\u202e", "3", "2024-02-29", "true", "\0", "x" * 99)
_NUMBERS = (0, 1, 3, 12, 13, -1, None, 100, 27182818)
_TYPES = (
    pa.int8(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(),
    pa.large_string(),
    pa.string_view(), pa.binary(), pa.binary(3), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us", "UTC"),
    pa.timestamp("ns"), pa.timestamp("ms", "Europe/Berlin"), pa.time32("s"), pa.time64("ns"), pa.duration("us"),
    pa.decimal128(20, 2), pa.decimal256(60, 3), pa.decimal128(38, 30), pa.null(), pa.list_(pa.int64()),
    pa.large_list(pa.string()),
    pa.struct([("age", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.int64()), pa.run_end_encoded(pa.int32(), pa.string()), pa.list_(pa.int8(), 2),
    pa.month_day_nano_interval(), pa.binary_view(), pa.list_view(pa.int8()), pa.dictionary(pa.int32(), pa.date32()),
)  # fmt: skip
_FITTING = {
    "age": (
        pa.int8(),
        pa.int64(),
        pa.uint64(),
        pa.float64(),
        pa.float32(),
        pa.decimal128(20, 2),
        pa.string(),
        pa.bool_(),
    ),
    "ward": (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.int64()),
    "day": (
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("s"),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.timestamp("ns"),
    ),
    "patient": (pa.string(), pa.int64(), pa.float64(), pa.binary(), pa.list_(pa.int64())),
    "note": (pa.string(), pa.large_string()),
}


def frame_sample(rng: np.random.Generator, table: str) -> Sample:
    """A frame with columns of every type that Arrow has, cut and put together, or with buffers that are not right."""
    rows = int(rng.integers(0, 20))
    names = [name for name in _CELLS if rng.random() < 0.97]
    columns = [_column(rng, name, rows) for name in names]
    if rng.random() < 0.1:
        names.append(("age", "Age", "", "\0", "\u202e", "x" * 500, "a\"b'c;--")[rng.integers(7)])
        columns.append(_column(rng, "note", rows))
    frame = pa.Table.from_arrays(columns, names=names)
    if rng.random() < 0.2:
        frame = pa.concat_tables([frame, frame]).slice(int(rng.integers(0, rows + 1)))
    if rng.random() < 0.05:
        wide = pa.array([1] * frame.num_rows)
        frame = pa.Table.from_arrays(
            [*frame.columns, *[wide] * 5_000], names=[*frame.column_names, *map(str, range(5_000))]
        )
    return Sample("frame", frame, table, _known(frame, table))


def _known(frame: pa.Table, table: str) -> tuple[tuple[int, ...], ...] | None:
    """What is expected, where Python can say what the values are."""
    if table == "people" or any(frame.column_names.count(name) != 1 for name in COUNTED):
        return None
    try:
        frame.validate(full=True)
        return counts_of({name: frame.column(name).to_pylist() for name in COUNTED}, table)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, NotImplementedError):
        return None


def _column(rng: np.random.Generator, name: str, rows: int) -> pa.Array:
    if rng.random() < 0.04 and rows:
        return _lying(rng, rows)
    kinds = _FITTING[name] if rng.random() < 0.85 else _TYPES
    return _of_type(rng, kinds[rng.integers(len(kinds))], rows)


def _of_type(rng: np.random.Generator, kind: pa.DataType, rows: int) -> pa.Array:
    """Random values of ``kind``: texts or numbers that it can hold, else random bits, else NULL."""
    source = _TEXTS if rng.random() < 0.5 else _NUMBERS
    values = pa.array([source[i] for i in rng.integers(0, len(source), rows)])
    try:
        return values.cast(kind, safe=False)
    except (pa.ArrowException, NotImplementedError):
        pass
    width = getattr(kind, "bit_width", 0) if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 0
    if width >= 8:
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(rng.bytes(rows * width // 8))])
    try:
        return pa.array([_NESTED.get(kind.id)] * rows, kind)
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError):
        return pa.nulls(rows, kind)


_NESTED = {
    pa.list_(pa.int8()).id: [1, None], pa.struct([]).id: {"age": 27182818}, pa.map_(pa.string(),
    pa.int8()).id: [("canary", 1)],
    pa.binary(3).id: b"abc", pa.float16().id: np.float16(3), pa.decimal128(3, 2).id: Decimal("3.00"),
}  # fmt: skip


def _lying(rng: np.random.Generator, rows: int) -> pa.Array:
    """A text column whose bytes are no UTF-8, or whose offsets point beyond them or backwards."""
    offsets = np.arange(rows + 1, dtype=np.int32) * 3
    data = b"\xff\xfeA" * rows
    if rows > 1 and rng.random() < 0.6:  # Arrow looks at the first and the last one by itself
        offsets[rng.integers(1, rows)] = int(rng.choice([2**31 - 1, -5, 10**6, 3 * rows]))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])
