"""Files of arrays: equal contents give equal bytes, and what is no such file is refused."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from siloquent.errors import ReleaseError
from siloquent.releases.arrays import pack, unpack

ARRAYS = {"counts": np.arange(-3, 3), "weights": np.array([[0.5, -1.0]])}
WORDS = {"format": 1, "label": "größer"}


def test_what_was_packed_is_unpacked() -> None:
    arrays, words = unpack(pack(ARRAYS, WORDS), ("counts", "weights"))
    assert words == WORDS
    assert arrays["counts"].tolist() == [-3, -2, -1, 0, 1, 2]
    assert arrays["weights"].tolist() == [[0.5, -1.0]]


def test_equal_contents_give_equal_bytes() -> None:
    assert pack(ARRAYS, WORDS) == pack(dict(reversed(ARRAYS.items())), dict(reversed(WORDS.items())))


def with_objects() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("words.npy", "w") as member:
        np.lib.format.write_array(member, np.array([{"run": "me"}], dtype=object), allow_pickle=True)
    return file.getvalue()


HOSTILE = {
    "nothing": b"",
    "text": b"hello",
    "half of it": pack(ARRAYS, WORDS)[:200],
    "objects": with_objects(),
    "too many numbers": pack({"counts": np.zeros(5_000, dtype=np.int64)}, WORDS),
    "another type": pack({"counts": np.zeros(3, dtype=np.float32)}, WORDS),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_release_is_refused(data: bytes) -> None:
    with pytest.raises(ReleaseError):
        unpack(data, ("counts",), most=1_000)
