"""Untrusted ``.npz`` files: names, packing, shapes and the sum of sizes are checked before an array is unpacked."""

from __future__ import annotations

import io
import math
import re
import zipfile
from typing import IO, TYPE_CHECKING, Any

from siloquent.foreign.documents import DocumentTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_MEMBERS = 64
MAX_BYTES = 2**27
"""The most bytes of all arrays together, unpacked; a caller may set a lower limit."""
_END, _DIRECTORY_ENTRY, _MAX_HEADER, _PIECE = 22, 46, 4_096, 2**20
_KINDS = ("<i8", "<f8", "|u1")


def unpack_arrays(data: bytes, names: Sequence[str], *, most: int = MAX_BYTES) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file, by name.

    Args:
        names: Regular expressions of the allowed members; any other name is refused.
        most: The most bytes of all arrays together.
    Raises:
        DocumentTooLarge: It exceeds a limit. ValueError: Not such a file. Errors of zipfile and zlib: truncated.
    """
    _require_few_members(data)
    allowed = re.compile("|".join(f"(?:{name})" for name in names), re.ASCII)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        plain = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        known = {info.filename for info in infos}
        if len(infos) > MAX_MEMBERS or len(known) != len(infos):
            raise ValueError("two members of one name")
        if sum(info.file_size for info in infos) > most + _MAX_HEADER * len(infos):
            raise DocumentTooLarge("more than such a file holds")
        if sum(info.compress_size for info in infos) > len(data):
            raise ValueError("members that overlap")
        for info in infos:
            name = info.filename.removesuffix(".npy")
            if name == info.filename or not allowed.fullmatch(name):
                raise ValueError("a member that such a file does not have")
            if info.compress_type not in plain or info.flag_bits & 1:
                raise ValueError("a member that is packed otherwise")
        return {info.filename.removesuffix(".npy"): _read_array(archive, info) for info in infos}


def _require_few_members(data: bytes) -> None:
    """Refuse files with too many members by their end record, before zipfile builds a list of millions."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - _END - 2**16))
    if at < 0 or len(data) < at + _END:
        raise ValueError("not a zip file")
    if int.from_bytes(data[at + 10 : at + 12], "little") > MAX_MEMBERS:
        raise DocumentTooLarge("more members than such a file has")
    # A 64-bit end record would override the numbers that are read here.
    if data[max(0, at - 20) : at][:4] == b"PK\x06\x07":
        raise ValueError("a zip file of more than 4 GiB")
    if int.from_bytes(data[at + 12 : at + 16], "little") > MAX_MEMBERS * (_DIRECTORY_ENTRY + _MAX_HEADER):
        raise DocumentTooLarge("a directory that is larger than such a file has")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array: its header must declare exactly as many numbers as its member has bytes for."""
    import numpy as np

    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError("an array of another format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(member, max_header_size=_MAX_HEADER)
        size = math.prod(shape) * dtype.itemsize
        if dtype.str not in _KINDS or fortran or min(shape, default=0) < 0 or len(shape) > 8:
            raise ValueError("an array of another type")
        if member.tell() + size != info.file_size:
            raise ValueError("an array of another size than its header says")
        return _fill_array(member, np.empty(shape, dtype=dtype))


def _fill_array(member: IO[bytes], array: NDArray[Any]) -> NDArray[Any]:
    """Fill ``array`` with a member's bytes piece by piece and return it, without a second copy in memory."""
    into = array.reshape(-1).view("u1").data
    at = 0
    while piece := member.read(_PIECE):
        if at + len(piece) > len(into):
            raise ValueError("an array of another size than its header says")
        into[at : at + len(piece)] = piece
        at += len(piece)
    if at != len(into):
        raise ValueError("an array of another size than its header says")
    return array
