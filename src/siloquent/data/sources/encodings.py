"""Texts as PostgreSQL stores them, decoded one by one: an undecodable one is NULL and does not affect others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.data.sources.text.texts import keep_valid_texts
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

_LATIN = {1: 1, 2: 2, 3: 3, 4: 4, 5: 9, 6: 10, 7: 13, 8: 14, 9: 15, 10: 16}
"""The parts of ISO 8859 that PostgreSQL numbers differently."""
_UTF8 = "utf-8"
_CODECS = {
    "UTF8": _UTF8,
    "SQL_ASCII": _UTF8,
    **{f"LATIN{number}": f"iso8859-{part}" for number, part in _LATIN.items()},
    **{f"ISO_8859_{part}": f"iso8859-{part}" for part in (5, 6, 7, 8)},
    **{f"WIN{page}": f"cp{page}" for page in (866, 874, *range(1250, 1259))},
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "EUC_JP": "euc_jp",
    "EUC_JIS_2004": "euc_jis_2004",
    "EUC_CN": "gb2312",
    "EUC_KR": "euc_kr",
}
"""Python's codecs by the names of database encodings. All of them contain ASCII unchanged."""


def find_codec(encoding: str, *, table: str) -> str:
    """Return Python's codec for a database's encoding. ``SQL_ASCII`` is not an encoding; its bytes are read as UTF-8.

    Raises:
        SchemaError: Python has no such codec.
    """
    if encoding not in _CODECS:
        raise SchemaError(
            f"The database of {table!r} has the encoding {encoding or 'unknown'}, which siloquent does not support.",
            fix="createdb --encoding UTF8 --template template0 COPY && pg_dump DATABASE | psql COPY",
        )
    return _CODECS[encoding]


def decode_texts(texts: pa.Array, codec: str) -> pa.ChunkedArray:
    """Return ``texts``, bytes in ``codec``, as UTF-8; NULL where they cannot be decoded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if codec == _UTF8:
        return keep_valid_texts(pa.chunked_array([texts]))
    is_other = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
    if pc.any(is_other).as_py():
        raw = texts.view(pa.binary()).filter(is_other).to_pylist()
        texts = pc.replace_with_mask(texts, is_other, pa.array([_decode(value, codec) for value in raw], pa.string()))
    return pa.chunked_array([texts])


def _decode(raw: bytes, codec: str) -> str | None:
    try:
        text = raw.decode(codec)
        # Codecs accept more than they write: two texts that Python decodes equally must not be one user.
        return text if text.encode(codec) == raw else None
    except UnicodeError:
        return None
