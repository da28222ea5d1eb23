"""Arrays and words in one file that holds no code: equal contents give equal bytes, and hostile files are refused."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError

WORDS = "words"
_TYPES = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.uint8))
_STAMP = (1980, 1, 1, 0, 0, 0)


def pack(arrays: Mapping[str, NDArray[Any]], words: Mapping[str, Any]) -> bytes:
    """``arrays`` (int64, float64 or uint8) and ``words`` (JSON) as the bytes of an ``.npz`` file."""
    text = json.dumps(words, sort_keys=True, ensure_ascii=False)
    members = {**arrays, WORDS: np.frombuffer(text.encode(), dtype=np.uint8)}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(members):
            member = zipfile.ZipInfo(f"{name}.npy", _STAMP)
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as out:
                np.lib.format.write_array(out, np.ascontiguousarray(members[name]), allow_pickle=False)
    return file.getvalue()


def unpack(data: bytes, *, most: int = 2**24) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What ``pack`` wrote; nothing in ``data`` is run, and sizes are checked before they are unpacked.

    Args:
        most: The most numbers in one array, and the most bytes of the words.
    Raises:
        ReleaseError: It was cut or changed, is too large, or holds something else.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) > 64 or any(info.file_size > 8 * most + 256 for info in infos):
                raise ReleaseError("The file holds more than a release of its kind.")
            arrays = {info.filename.removesuffix(".npy"): _array(archive, info.filename, most) for info in infos}
        words = json.loads(arrays.pop(WORDS).tobytes().decode())
        if not isinstance(words, dict):
            raise ReleaseError("The file's words are none.")
        return arrays, words
    except ReleaseError:
        raise
    except Exception:  # allowed: whatever a hostile file does to the readers, it is no release
        raise ReleaseError(
            "The file is no release, or it was cut or changed.", fix="siloquent verify RELEASE, then send it again"
        ) from None


def _array(archive: zipfile.ZipFile, name: str, most: int) -> NDArray[Any]:
    """One array; its header is looked at before its numbers are read."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if dtype not in _TYPES or math.prod(shape) > most:
        raise ReleaseError("The file holds numbers of another type, or too many of them.")
    with archive.open(name) as member:
        found: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return found
