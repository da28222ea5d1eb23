"""Bytes that come from others: the only place where documents, arrays and tables are parsed.

Each reader bounds the sum of what it will take in memory before it takes any of it, and refuses by a ``ValueError``
(``TooMuch`` for bounds) that the caller turns into its own error with a stable code. Nothing here knows a task.
"""

from siloquent.foreign.documents import (
    TomlError,
    TooMuch,
    load_json,
    load_toml,
    read_bounded,
    read_lines,
    read_text,
)

__all__ = ["TomlError", "TooMuch", "load_json", "load_toml", "read_bounded", "read_lines", "read_text"]
