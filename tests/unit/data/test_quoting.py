"""Whether all quoted fields end, told the same however the file is cut into pieces."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.data.sources import quoting
from siloquent.data.sources.quoting import Shape, shape_of


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        (b"a,b\n1,2\n", Shape(is_closed=True, is_uniform=True)),
        (b'a,b\r\n1,"x\ny"\r\n', Shape(is_closed=True, is_uniform=True)),
        (b'a,b\n1,"x""\n2,y"\n', Shape(is_closed=True, is_uniform=True)),
        (b'a,b\n1,"x\n2,y\n', Shape(is_closed=False, is_uniform=True)),
        (b'a,b\n1,"x\n2,"y"\n', Shape(is_closed=False, is_uniform=True)),
        (b"a,b\r\n1,2\n", Shape(is_closed=True, is_uniform=False)),
        (b"a,b\n1\r,2\n", Shape(is_closed=True, is_uniform=False)),
        (b'\xef\xbb\xbf"a",b\n1,"x"', Shape(is_closed=True, is_uniform=True)),
    ],
)
def test_the_shape_of_a_file(content: bytes, shape: Shape) -> None:
    assert shape_of(io.BytesIO(content), ",") == shape


@given(st.lists(st.sampled_from([b'"', b",", b" ", b"\n", b"\r", b"a"]), max_size=30), st.integers(1, 5))
def test_the_shape_does_not_hang_on_where_a_file_is_cut(parts: list[bytes], size: int) -> None:
    content, whole = b"".join(parts), quoting.CHUNK_BYTES
    expected = shape_of(io.BytesIO(content), ",")
    try:
        quoting.CHUNK_BYTES = size
        assert shape_of(io.BytesIO(content), ",") == expected
    finally:
        quoting.CHUNK_BYTES = whole
