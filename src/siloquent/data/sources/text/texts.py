"""Texts that are UTF-8, and NULL in place of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def keep_valid_texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ``texts`` with NULL for those that are not UTF-8: because of one, DuckDB and Python fail for all rows.

    Raises:
        ArrowInvalid: Offsets point beyond the text.
    """
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = {pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}.get(texts.type, pa.binary())
        chunks = []
        for chunk in texts.chunks:
            whole = chunk.view(raw)
            whole.validate(full=True)
            chunks.append(pa.array([_decode(value) for value in whole.to_pylist()], texts.type))
        return pa.chunked_array(chunks, texts.type)
    return texts


def _decode(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
