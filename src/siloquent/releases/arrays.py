"""Arrays and text in one file that holds no code: equal contents give equal bytes; malicious files are refused."""

from __future__ import annotations

import io
import json
import zipfile  # allowed: writing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import build_fix, run
from siloquent.foreign import DocumentTooLarge, load_json
from siloquent.foreign.arrays import MAX_BYTES, unpack_arrays

WORDS = "words"
_STAMP = (1980, 1, 1, 0, 0, 0)


def pack(arrays: Mapping[str, NDArray[Any]], words: Mapping[str, Any]) -> bytes:
    """Pack ``arrays`` (int64, float64 or uint8) and ``words`` (JSON) into the bytes of an ``.npz`` file."""
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


def unpack(
    data: bytes, names: Sequence[str], *, most: int = MAX_BYTES // 8
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the output of ``pack``; no code in ``data`` is run, and the total size is checked before unpacking.

    Args:
        names: Regular expressions of the names of the file's arrays.
        most: The most numbers in all arrays together, and the most bytes of the words.
    Raises:
        ReleaseError: It is truncated, tampered with, too large, or something else.
    """
    try:
        arrays = unpack_arrays(data, [*names, WORDS], most=min(8 * most, MAX_BYTES))
        words = load_json(arrays.pop(WORDS).tobytes(), most=most)
        if not isinstance(words, dict):
            raise ReleaseError("The file's words are none.")
        return arrays, words
    except ReleaseError:
        raise
    except DocumentTooLarge:
        raise ReleaseError("The file holds more than a release of its kind.") from None
    except Exception:  # allowed: whatever a hostile file does to the readers, it is no release
        raise ReleaseError(
            "The file is not a release, or it was truncated or altered.",
            fix=build_fix(run("verify", "RELEASE"), ", then send it again"),
        ) from None
