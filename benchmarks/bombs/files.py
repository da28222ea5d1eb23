"""Small files that would fill a machine: one generator for each design, for the fast tests and the large bench."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from siloquent.collect import Collection


def arrays(numbers: int, members: int, packing: int, names: str = "counts{}") -> bytes:
    """An ``.npz`` of ``members`` arrays of zeros."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for i in range(members):
            with archive.open(f"{names.format(i)}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(
                    member, {"descr": "<i8", "fortran_order": False, "shape": (numbers,)}
                )
                for _ in range(0, numbers, 2**17):
                    member.write(bytes(8 * min(2**17, numbers)))
    return out.getvalue()


def lying_shape() -> bytes:
    """A header that says 2^40 numbers, and no numbers."""
    out, header = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("counts.npy", header.getvalue())
    return out.getvalue()


def many_members() -> bytes:
    """As many members as a zip file can have, each empty."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for i in range(20_000):
            archive.writestr(f"{i}.npy", b"")
    return out.getvalue()


ARRAYS: Mapping[str, Callable[[], bytes]] = {
    "24 members, bzip2": lambda: arrays(2**20, 24, zipfile.ZIP_BZIP2),
    "24 members, lzma": lambda: arrays(2**20, 24, zipfile.ZIP_LZMA),
    "24 members, deflated": lambda: arrays(2**20, 24, zipfile.ZIP_DEFLATED),
    "one member": lambda: arrays(2**25, 1, zipfile.ZIP_DEFLATED, "counts"),
    "lying shape": lying_shape,
    "20,000 members": many_members,
}

JSON: Mapping[str, Callable[[], str]] = {
    "deep lists": lambda: "[" * 200_000 + "]" * 200_000,
    "deep objects": lambda: '{"a":' * 100_000 + "1" + "}" * 100_000,
    "never closed": lambda: "[" * 5_000_000,
    "many lists": lambda: "[" + "[]," * 5_000_000 + "0]",
    "many objects": lambda: "[" + "{}," * 3_000_000 + "0]",
    "many keys": lambda: "{" + ",".join(f'"{i}":0' for i in range(2_000_000)) + "}",
    "huge number": lambda: '{"format": ' + "9" * 4_000_000 + "}",
    "huge float": lambda: '{"format": 1' + "0" * 4_000_000 + ".5}",
    "long string": lambda: json.dumps({"format": 1, "a": "x" * 60_000_000}),
    "wide string": lambda: json.dumps({"a": "😀" + "x" * 50_000_000}, ensure_ascii=False),
    "open string": lambda: '"' + "\\" * 10_000_001,
}

TOML: Mapping[str, Callable[[], str]] = {
    "deep arrays": lambda: "a = " + "[" * 100_000,
    "deep tables": lambda: "a = " + "{a=" * 100_000,
    "dotted key": lambda: "a." * 200_000 + "a = 1",
    "dotted header": lambda: "[" + "a." * 200_000 + "a]",
    "huge number": lambda: "a = " + "9" * 900_000,
    "hexadecimal": lambda: "a = 0x" + "f" * 900_000,
    "many lines": lambda: "".join(f"k{i} = 0\n" for i in range(80_000)),
    "many values": lambda: "a = [" + "0," * 500_000 + "]",
    "long string": lambda: 'a = "' + "x" * 30_000_000 + '"',
    "open string": lambda: 'a = """' + '\\"' * 500_000,
}


def references(path: Path, *, values: int = 8_000, length: int = 60_000, columns: int = 1) -> None:
    """A Parquet file of rows that all point to one long text."""
    import pyarrow as pa
    import pyarrow.parquet

    text = pa.DictionaryArray.from_arrays(np.zeros(values, dtype=np.int32), pa.array([b"x" * length], pa.binary()))
    pyarrow.parquet.write_table(pa.table({("report" if not i else f"c{i}"): text for i in range(columns)}), path)


def repeated(path: Path) -> None:
    """A Parquet file of one number, a hundred million times."""
    import pyarrow as pa
    import pyarrow.parquet

    batch = pa.table({"report": pa.array(np.zeros(2**22, dtype=np.int64))})
    with pyarrow.parquet.ParquetWriter(path, batch.schema) as writer:
        for _ in range(16):
            writer.write_table(batch)


def prefixes(path: Path) -> None:
    """Texts that each repeat the one before (DELTA_BYTE_ARRAY)."""
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"report": pa.array([b"x" * 50_000] * 8_000, pa.binary())})
    pyarrow.parquet.write_table(
        table, path, use_dictionary=False, column_encoding={"report": "DELTA_BYTE_ARRAY"}, compression="zstd"
    )


def wide(path: Path) -> None:
    """A footer of very many columns."""
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({f"c{i}": pa.array([0]) for i in range(20_000)}), path)


def lying_footer(path: Path) -> None:
    """A footer whose first list says that it has four million entries of nothing."""
    entries = bytes([0x15, 2, 0x19, 0xFC, *_varint(900_000)]) + bytes(900_000) + b"\0"
    path.write_bytes(b"PAR1" + entries + len(entries).to_bytes(4, "little") + b"PAR1")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


PARQUET: Mapping[str, Callable[[Path], None]] = {
    "references": references,
    "references in 40 columns": lambda path: references(path, values=1_000, columns=40),
    "one number": repeated,
    "shared prefixes": prefixes,
    "wide footer": wide,
    "lying footer": lying_footer,
}


def wide_line(path: Path) -> None:
    """A header of 900,001 names."""
    path.write_text("," * 900_000 + "\n")


def long_line(path: Path) -> None:
    """One name of thirty million characters."""
    path.write_text("x" * 30_000_000)


CSV: Mapping[str, Callable[[Path], None]] = {"wide line": wide_line, "long line": long_line}


def small_collection() -> Collection:
    """A collection of one service, for those who read reports and rows."""
    from siloquent.collect import design, parse_spec

    return design(parse_spec(_COLLECTION))


_COLLECTION = """
format = 1
name = "shop"
epsilon = "2"
[[service]]
name = "profile"
everyone = true
attribute = [{ name = "age", type = "integer", lo = 0, hi = 24, outside = "clamp", null = { value = 0 } }]
"""


def as_reports(path: Path) -> None:
    """Take a file's reports into a store."""
    from siloquent.cli.collect.inputs import ingest_file
    from siloquent.collect import ReportStore

    with ReportStore(small_collection()) as store:
        if not ingest_file(store, path).accepted:
            raise ValueError("no report was taken in")


def as_users(options: Any, path: Path) -> None:
    """Read a file of users' rows."""
    from siloquent.cli.collect.inputs import _read_users

    for _ in _read_users(options, path):
        pass


def as_reference(path: Path) -> None:
    """Read a public file of a functional dependency between x and y."""
    from decimal import Decimal

    from siloquent.schema import Attribute
    from siloquent.synth.references import _compute_digest, _read_indices

    _compute_digest(path)
    _read_indices(path, [Attribute(name, "integer", lo=Decimal(0), hi=Decimal(9), grid=Decimal(1)) for name in "xy"])
