"""Bytes that come from others: the only place where documents, arrays and tables are parsed.

Each reader bounds the sum of what it will take in memory before it takes any of it, and refuses by a ``ValueError``
(``DocumentTooLarge`` for bounds) that the caller turns into its own error with a stable code. No task is known here.
"""

from siloquent.foreign.documents import (
    DocumentTooLarge,
    TomlError,
    load_json,
    load_toml,
    read_bounded,
    read_lines,
    read_text,
)

__all__ = ["DocumentTooLarge", "TomlError", "load_json", "load_toml", "read_bounded", "read_lines", "read_text"]
