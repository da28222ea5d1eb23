"""The text of a file as UTF-8: unpacked, and decoded from the declared encoding, both as it is read.

A character that cannot be decoded becomes bytes that are not UTF-8, so it is the fault of its own line only. Of a zip
file one member is read, never one inside another zip file; what it claims is compared with its size before it is read.
"""

from __future__ import annotations

import codecs
import fnmatch
import gzip
import io
import posixpath
import struct
import zipfile  # allowed: bounded below
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from siloquent.errors import SchemaError
from siloquent.schema.formats.reading import UTF8

Packing = Literal["", "gzip", "zip"]
BOM = b"\xef\xbb\xbf"
BLOCK_BYTES = 2**22
MAX_MEMBERS, MAX_DIRECTORY = 10_000, 2**24
MAX_UNPACKED, MAX_RATIO = 2**30, 1_000
"""A file may unpack to more than ``MAX_UNPACKED`` bytes only if that is at most ``MAX_RATIO`` times its size."""
FIRST_BYTES: dict[bytes, str] = {
    **{b"BZh%d1AY" % level: "bzip2" for level in range(1, 10)},
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
    b"Rar!\x1a": "rar",
    b"\xd0\xcf\x11\xe0": "an older program's format (.xls)",
    b"PAR1\x15": "Parquet",
    b"%PDF-": "PDF",
}
"""The first bytes of files that are not texts."""
_END, _END64 = b"PK\x05\x06", b"PK\x06\x06"
_UNDECODABLE = "siloquent.undecodable"
WORKBOOKS = (".xlsx", ".xlsm")


def is_workbook_name(path: Path) -> bool:
    """Return whether a file is named as a workbook."""
    return path.suffix.lower() in WORKBOOKS


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Return half of a surrogate pair, which is not UTF-8 once it is encoded."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error(_UNDECODABLE, _mark_undecodable)


class _Transcoder(io.RawIOBase):
    """A file in another encoding, as UTF-8."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self._raw, self._rest, self._ended = raw, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)(_UNDECODABLE)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Fill ``buffer`` with text that is decoded already, or from the next block."""
        while not self._rest and not self._ended:
            block = self._raw.read(BLOCK_BYTES)
            self._ended = not block
            self._rest = self._decoder.decode(block, final=self._ended).encode(UTF8, "surrogatepass")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file below."""
        self._raw.close()
        super().close()


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of text: how it is packed, which member of a zip file is read, and its encoding."""

    path: str
    packing: Packing = ""
    member: str = ""
    encoding: str = UTF8

    def open(self) -> BinaryIO:
        """Return the text in UTF-8 from its beginning, without a byte order mark."""
        raw = self.open_raw()
        if self.encoding != UTF8:
            raw = cast(BinaryIO, io.BufferedReader(_Transcoder(raw, self.encoding), BLOCK_BYTES))
        elif self.packing:
            raw = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, raw)))
        if cast(io.BufferedReader, raw).peek(len(BOM))[: len(BOM)] == BOM:
            raw.read(len(BOM))
        return raw

    def open_raw(self) -> BinaryIO:
        """Return the unpacked bytes."""
        if self.packing == "gzip":
            return cast(BinaryIO, gzip.open(self.path, "rb"))  # allowed: a stream, read block by block
        if self.packing == "zip":
            with zipfile.ZipFile(self.path) as archive:
                return cast(BinaryIO, archive.open(self.member))
        return open(self.path, "rb")

    def read_first(self, count: int) -> bytes:
        """Return the first unpacked bytes."""
        with self.open_raw() as opened:
            return opened.read(count)


def find_text(
    path: str, size: int, *, member: str = "", encoding: str = UTF8, has_header: bool = True, table: str
) -> TextFile:
    """Return the file's text, packed as its first bytes say, or as its name says where those would be a row.

    Raises:
        SchemaError: it is packed in another way or not a text, has no such member, unpacks to too much, or its encoding
            needs a byte order mark that is missing.
    """
    packing = _find_packing(path, has_header, table)
    if member and packing != "zip":
        raise build_file_refusal(table, "is not a zip file, so it has no member", "remove member under [reading]")
    if packing == "zip":
        member = find_member(path, member, size, table=table)
    if packing == "gzip":
        _check_gzip(path, size, table)
    found = TextFile(path, packing, member, UTF8)
    return TextFile(path, packing, member, _choose_codec(found, encoding, has_header, table))


def _find_packing(path: str, has_header: bool, table: str) -> Packing:
    if not has_header:
        return "gzip" if path.lower().endswith(".gz") else "zip" if path.lower().endswith(".zip") else ""
    with open(path, "rb") as opened:
        first = opened.read(8)
    for magic, name in FIRST_BYTES.items():
        if first.startswith(magic):
            raise build_file_refusal(table, f"is {name}, which is not read as CSV", _FIX_PACKED.get(name, _REPACK))
    return "gzip" if first[:2] == b"\x1f\x8b" else "zip" if first[:4] in (b"PK\x03\x04", _END) else ""


_REPACK = "unpack it, and gzip the CSV file"
_FIX_PACKED = {"Parquet": 'source = "parquet:..."', "PDF": "save its rows as CSV (UTF-8)"}
_FIX_PACKED["an older program's format (.xls)"] = "save it as .xlsx, or its rows as CSV (UTF-8)"


def build_file_refusal(table: str, what: str, fix: str) -> SchemaError:
    """Return the refusal of a table's file."""
    return SchemaError(f"The file of {table!r} {what}.", fix=fix)


def _choose_codec(file: TextFile, encoding: str, has_header: bool, table: str) -> str:
    """Return the codec of the bytes; the byte order mark of UTF-16 says their order."""
    try:
        first = file.read_first(4)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        raise build_file_refusal(table, "cannot be unpacked", "compress it again") from None
    marks = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
    found = marks.get(first[:2], "")
    if encoding == UTF8 and has_header and (found or b"\0" in first[:2]):
        name = "utf-16" if found else "utf-16-le" if first[1:2] == b"\0" else "utf-16-be"
        raise build_file_refusal(table, "is UTF-16, not UTF-8", f'encoding = "{name}" under [reading]')
    if encoding == "utf-16" and not found and (first or not has_header):
        raise build_file_refusal(
            table, "does not begin with the byte order mark of UTF-16", 'encoding = "utf-16-le" under [reading]'
        )
    return found if encoding == "utf-16" and found else UTF8 if encoding == "utf-16" else encoding


def _check_gzip(path: str, size: int, table: str) -> None:
    """Refuse a gzipped file that unpacks to too much or cannot be unpacked completely, before anything is charged."""
    most, unpacked = max(MAX_UNPACKED, size * MAX_RATIO), 0
    try:
        with gzip.open(path, "rb") as opened:  # allowed: counted as it is read
            while block := opened.read(BLOCK_BYTES):
                unpacked += len(block)
                if unpacked > most:
                    raise _build_bomb_refusal(table)
    except (OSError, EOFError, zlib.error):
        raise build_file_refusal(table, "cannot be unpacked", "compress it again: gzip FILE.csv") from None


def _build_bomb_refusal(table: str) -> SchemaError:
    limits = f"{MAX_UNPACKED >> 30} GiB and {MAX_RATIO:,} times its size"
    return build_file_refusal(table, f"unpacks to more than {limits}", "unpack it yourself if you trust it")


def find_member(path: str, member: str, size: int, *, table: str) -> str:
    """Return the name of the member of a zip file to be read, after reading all of it once.

    Raises:
        SchemaError: there is none or more than one, it is encrypted or packed in another way, or unpacks to too much.
    """
    with open_archive(path, size, table=table) as archive:
        infos = [one for one in archive.infolist() if not one.is_dir() and not _is_extra(one.filename)]
        if any(one.filename == "xl/workbook.xml" for one in infos):
            name = posixpath.basename(path)
            fix = f'source = "xlsx:.../{name}"' if is_workbook_name(Path(path)) else f"rename it to {name}.xlsx"
            raise build_file_refusal(table, "is a workbook", f"{fix}, or save its rows as CSV (UTF-8)")
        chosen = [
            one for one in infos if one.filename == member or (member and fnmatch.fnmatchcase(one.filename, member))
        ]
        chosen = chosen if member else infos
        if len(chosen) != 1:
            known = ", ".join(repr(one.filename[:60]) for one in infos[:20]) or "none"
            which = f"{len(chosen)} members named {member[:60]!r}" if member else f"{len(chosen)} members"
            first = infos[0].filename[:60] if infos else "rows.csv"
            raise build_file_refusal(
                table, f"has {which}; expected one. It holds: {known}", f'member = "{first}" under [reading]'
            )
        found = chosen[0]
        if found.filename.lower().endswith((".zip", ".gz", ".7z")):
            raise build_file_refusal(table, "holds another packed file", "unpack the outer one")
        try:
            for _ in _read_member(archive, found):
                pass
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile):
            raise build_file_refusal(table, "cannot be unpacked", "compress it again") from None
        return found.filename


def _is_extra(name: str) -> bool:
    """Return whether a member is one that systems add by themselves."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2] in (".DS_Store", "Thumbs.db", "desktop.ini")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as opened:
        while block := opened.read(BLOCK_BYTES):
            yield block


def open_archive(path: str, size: int, *, table: str) -> zipfile.ZipFile:
    """Return a zip file whose members claim to unpack to a bounded sum, and are packed in the usual way.

    Raises:
        SchemaError: it is not a zip file, has too many members, is encrypted, or claims too much.
    """
    _require_small_directory(path, size, table)
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        raise build_file_refusal(table, "is not a valid zip file or workbook", "save its rows as CSV (UTF-8)") from None
    infos = archive.infolist()
    refusal = None
    if any(one.flag_bits & 1 for one in infos):
        refusal = build_file_refusal(table, "is protected by a password", "pack it without one")
    elif any(one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in infos):
        refusal = build_file_refusal(table, "is packed in a way that is not read; only deflate is", "compress it again")
    elif len(infos) > MAX_MEMBERS:
        refusal = build_file_refusal(table, f"has more than {MAX_MEMBERS:,} members", "pack its rows alone")
    elif sum(one.file_size for one in infos) > max(MAX_UNPACKED, size * MAX_RATIO):
        refusal = _build_bomb_refusal(table)
    elif sum(one.compress_size for one in infos) > size:
        refusal = build_file_refusal(table, "has members that overlap", "compress it again")
    if refusal is not None:
        archive.close()
        raise refusal
    return archive


def _require_small_directory(path: str, size: int, table: str) -> None:
    """Refuse a directory that would fill memory, by its end record."""
    with open(path, "rb") as opened:
        opened.seek(max(0, size - 2**16 - 100))
        last = opened.read()
    at = last.rfind(_END)
    if at < 0 or len(last) < at + 22:
        raise build_file_refusal(table, "is not a valid zip file or workbook", "save its rows as CSV (UTF-8)")
    directory = struct.unpack("<L", last[at + 12 : at + 16])[0]
    long = last.rfind(_END64, 0, at)
    if long >= 0 and len(last) >= long + 48:
        directory = max(struct.unpack("<Q", last[long + 40 : long + 48])[0], 0 if directory == 2**32 - 1 else directory)
    if directory > MAX_DIRECTORY:
        raise build_file_refusal(table, f"has more than {MAX_MEMBERS:,} members", "pack its rows alone")
