"""``.npz`` files from others: names, packing, shapes and the sum of sizes are checked before an array is unpacked."""

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
"""Of all arrays together, unpacked; a caller may ask for fewer."""
_END, _DIRECTORY_ENTRY, _MAX_HEADER, _PIECE = 22, 46, 4_096, 2**20
_KINDS = ("<i8", "<f8", "|u1")


def unpack_arrays(data: bytes, names: Sequence[str], *, most: int = MAX_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file, by name.

    Args:
        names: Regular expressions of the members that such a file has; any other name is refused.
        most: Bytes of all arrays together.
    Raises:
        TooMuch: it holds more than it may. ValueError: it is not such a file. Errors of zipfile and zlib: it is cut.
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
    """Refuse by the file's own end what zipfile would turn into a list of millions first."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - _END - 2**16))
    if at < 0 or len(data) < at + _END:
        raise ValueError("not a zip file")
    if int.from_bytes(data[at + 10 : at + 12], "little") > MAX_MEMBERS:
        raise DocumentTooLarge("more members than such a file has")
    # A 64-bit end record would overrule the numbers that are looked at here.
    if data[max(0, at - 20) : at][:4] == b"PK\x06\x07":
        raise ValueError("a zip file of more than 4 GiB")
    if int.from_bytes(data[at + 12 : at + 16], "little") > MAX_MEMBERS * (_DIRECTORY_ENTRY + _MAX_HEADER):
        raise DocumentTooLarge("a directory that is larger than such a file has")


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array: its header must say exactly as many numbers as its member has bytes for."""
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
    """``array`` with a member's bytes in it, piece by piece: no second copy of the whole stands beside it."""
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
