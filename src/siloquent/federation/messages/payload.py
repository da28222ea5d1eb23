"""The payloads of messages: points, integers, bytes or canonical JSON; 2 bytes of type, 4 bytes of count, the content.

Nothing is pickled or compressed: lengths are public and must not depend on the content.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import ProtocolError
from siloquent.foreign import load_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["json", "points", "words", "bytes"]
HEAD_BYTES = 6
POINT_BYTES = 32
MAX_COUNT = 2**32 - 1
MAX_DEPTH = 32
KINDS: dict[bytes, Kind] = {b"js": "json", b"pt": "points", b"i8": "words", b"by": "bytes"}
_SIZES: dict[Kind, int] = {"points": POINT_BYTES, "words": 8, "json": 1, "bytes": 1}
_TAGS = {kind: tag for tag, kind in KINDS.items()}


def parse_kind(payload: bytes) -> Kind:
    """Parse the kind of a payload.

    Raises:
        ProtocolError: ``bad_encoding``: an unknown kind, or the length is not the count times the item size.
    """
    kind = KINDS.get(payload[:2])
    if kind is None or len(payload) < HEAD_BYTES:
        raise ProtocolError("bad_encoding")
    if len(payload) - HEAD_BYTES != int.from_bytes(payload[2:HEAD_BYTES], "big") * _SIZES[kind]:
        raise ProtocolError("bad_encoding")
    return kind


def pack_json(value: Any) -> bytes:
    """Encode ``value`` as canonical JSON: sorted keys, no blanks, UTF-8.

    Raises:
        ValueError: it holds NaN or infinity.
    """
    return _pack("json", encode_canonical(value))


def pack_points(points: bytes) -> bytes:
    """Pack a batch of 32-byte group elements, one after the other."""
    return _pack("points", points)


def pack_words(words: NDArray[np.int64] | NDArray[np.uint64]) -> bytes:
    """Pack 64-bit integers, little-endian; signed ones as their residue modulo 2^64."""
    return _pack("words", words.astype("<u8", copy=False).tobytes())


def pack_bytes(content: bytes) -> bytes:
    """Pack bytes unchanged, such as a seed."""
    return _pack("bytes", content)


def unpack_json(payload: bytes) -> Any:
    """Return the value of a JSON payload.

    Raises:
        ProtocolError: ``bad_encoding``: another kind, not JSON, not canonical, or nested too deeply.
    """
    text = _read_content(payload, "json")
    return parse(text)


def unpack_document(payload: bytes) -> dict[str, Any]:
    """Return the object of a JSON payload.

    Raises:
        ProtocolError: ``bad_encoding``: as ``unpack_json``, or another JSON value.
    """
    document = unpack_json(payload)
    if not isinstance(document, dict):
        raise ProtocolError("bad_encoding")
    return document


def unpack_points(payload: bytes, count: int | None = None) -> bytes:
    """Return the 32-byte elements of a batch; ``crypto.group`` checks whether each is valid.

    Raises:
        ProtocolError: ``bad_encoding``; ``batch_size`` if there are not ``count``.
    """
    return _read_counted(payload, "points", count)


def unpack_words(payload: bytes, count: int | None = None) -> NDArray[np.uint64]:
    """Return the numbers of a payload, modulo 2^64; shape (count,).

    Raises:
        ProtocolError: ``bad_encoding``; ``batch_size`` if there are not ``count``.
    """
    import numpy as np

    return np.frombuffer(_read_counted(payload, "words", count), dtype="<u8").astype(np.uint64, copy=False)


def unpack_bytes(payload: bytes, count: int | None = None) -> bytes:
    """Return the bytes of a payload.

    Raises:
        ProtocolError: ``bad_encoding``; ``batch_size`` if there are not ``count``.
    """
    return _read_counted(payload, "bytes", count)


def encode_canonical(value: Any) -> bytes:
    """Encode ``value`` in the canonical form that is hashed and signed.

    >>> encode_canonical({"b": 1, "a": ["x"]})
    b'{"a":["x"],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def parse(text: bytes) -> Any:
    """Parse canonical JSON.

    Raises:
        ProtocolError: ``bad_encoding``: not JSON, or not in its canonical form.
    """
    try:
        value = load_json(text)
        # Another encoding of the same value would have another digest, so only the canonical form is accepted.
        if not _is_shallow(value, MAX_DEPTH) or encode_canonical(value) != text:
            raise ProtocolError("bad_encoding")
    except (ValueError, RecursionError):
        raise ProtocolError("bad_encoding") from None
    return value


def _pack(kind: Kind, content: bytes) -> bytes:
    count, rest = divmod(len(content), _SIZES[kind])
    assert rest == 0, f"{len(content)} bytes are not whole {kind}"
    assert count <= MAX_COUNT
    return _TAGS[kind] + count.to_bytes(4, "big") + content


def _read_content(payload: bytes, kind: Kind) -> bytes:
    if parse_kind(payload) != kind:
        raise ProtocolError("bad_encoding")
    return payload[HEAD_BYTES:]


def _read_counted(payload: bytes, kind: Kind, count: int | None) -> bytes:
    content = _read_content(payload, kind)
    if count is not None and len(content) != count * _SIZES[kind]:
        raise ProtocolError("batch_size")
    return content


def _is_shallow(value: Any, depth: int) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in inside)
