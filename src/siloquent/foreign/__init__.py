"""Untrusted bytes: the only package that parses documents, arrays and tables from other parties.

Each reader bounds its total memory before it allocates any, and refuses by a ``ValueError`` (``DocumentTooLarge`` for
bounds) that the caller turns into its own error with a stable code. It knows nothing about tasks.
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
