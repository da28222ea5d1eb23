"""Untrusted JSON and TOML: size, depth, length of numbers and memory are bounded before a parser sees the text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

MAX_JSON_BYTES = 2**26
MAX_TOML_BYTES = 2**20
MAX_MEMORY = 3 * 2**26
"""The most memory that a parsed document may take, estimated from its punctuation before it is parsed."""
MAX_DEPTH = 64
MAX_DIGITS = 400
MAX_DOTS = 16
MAX_TOML_VALUES = 50_000

# An unterminated string extends to the text's end: otherwise each quote in it would be tried again, which is quadratic.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]++")
_DIGITS = re.compile(rf"[0-9]{{{MAX_DIGITS}}}")
# A dotted key of n parts takes tomllib n^2 steps and gives tables n deep. Matched without backtracking.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+')[ \t]*+[.][ \t]*+"""
_DOTTED = re.compile(rf"""(?<![\w"'\\-])(?:{_PART}){{{MAX_DOTS}}}""")
_TOML_DIGITS = re.compile(rf"[0-9a-fA-F_]{{{MAX_DIGITS}}}")


TomlError = tomllib.TOMLDecodeError


class DocumentTooLarge(ValueError):
    """A document that would take more memory or time than its reader may spend."""


def read_bounded(path: Path, most: int) -> bytes:
    """Return a file's bytes; never more than ``most`` are read.

    Raises:
        DocumentTooLarge: The file is larger. OSError: It cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DocumentTooLarge(f"it is larger than {most} bytes")
    return data


def read_text(path: Path, most: int) -> str:
    """Return a file's text; never more than ``most`` bytes are read.

    Raises:
        DocumentTooLarge: The file is larger. UnicodeDecodeError: It is not UTF-8. OSError: It cannot be read.
    """
    return read_bounded(path, most).decode("utf-8")


def read_lines(opened: TextIO, most: int) -> Iterator[str]:
    """Iterate over the lines of a stream, each with its end; a line is never read beyond ``most`` characters.

    Raises:
        DocumentTooLarge: A line is longer.
    """
    while line := opened.readline(most + 1):
        if len(line) > most:
            raise DocumentTooLarge(f"a line has more than {most} characters")
        yield line


def load_json(text: str | bytes, *, most: int = MAX_JSON_BYTES, memory: int = MAX_MEMORY) -> Any:
    """Return the value of a JSON text.

    Args:
        most: The most bytes (or characters) of text.
        memory: The most bytes of the value.
    Raises:
        ValueError: Not JSON. DocumentTooLarge: It is too long, too deep, or would take too much memory.

    >>> load_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    """
    if len(text) > most:
        raise DocumentTooLarge(f"it has more than {most} bytes")
    whole = text.decode("utf-8") if isinstance(text, bytes | bytearray) else text
    bare = _STRING.sub('""', whole)
    taken = len(whole) * (2 if whole.isascii() else 5) + 28 * bare.count('"') + 72 * bare.count("[")
    taken += 200 * bare.count("{") + 104 * bare.count(":") + 40 * bare.count(",")
    if taken > memory:
        raise DocumentTooLarge("it would take too much memory")
    _require_shallow(_NO_BRACKETS.sub("", bare))
    if _DIGITS.search(bare):
        raise DocumentTooLarge(f"a number is out of range: it has more than {MAX_DIGITS} digits")
    del bare
    try:
        return json.loads(whole)
    except RecursionError:  # unreachable by depth, but a caller deep in a stack gets the same kind of refusal
        raise DocumentTooLarge("it is nested too deeply") from None


def is_portable(value: Any) -> bool:
    """Return whether a JSON value can be written again as JSON in UTF-8: no NaN, infinity or half a surrogate pair.

    >>> is_portable({"a": [1, "b"]}), is_portable([float("nan")]), is_portable(chr(0xD800))
    (True, False, False)
    """
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _require_shallow(brackets: str) -> None:
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise DocumentTooLarge("it is nested too deeply")


def load_toml(
    text: str | bytes, *, most: int = MAX_TOML_BYTES, parse_float: Callable[[str], Any] = float
) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ValueError: Not TOML. DocumentTooLarge: It is too long, too deep or has too many values.

    >>> load_toml("a = 1")
    {'a': 1}
    """
    if len(text) > most:
        raise DocumentTooLarge(f"it has more than {most} bytes")
    whole = text.decode("utf-8") if isinstance(text, bytes | bytearray) else text
    if _DOTTED.search(whole):
        raise DocumentTooLarge("it is nested too deeply")
    if whole.count("\n") + whole.count(",") > MAX_TOML_VALUES * max(1, most // MAX_TOML_BYTES):
        raise DocumentTooLarge("it has too many lines or values")
    bare = re.sub(r"'[^'\n]*+'", "''", _STRING.sub('""', whole))
    _refuse_runs(bare)
    try:
        return tomllib.loads(whole, parse_float=parse_float)
    except RecursionError:
        raise DocumentTooLarge("it is nested too deeply") from None


def _refuse_runs(bare: str) -> None:
    """Refuse brackets nested deeper than ``MAX_DEPTH``, and numbers that are too long."""
    depth = deepest = 0
    for bracket in _NO_BRACKETS.sub("", bare):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise DocumentTooLarge("it is nested too deeply")
    if _TOML_DIGITS.search(bare):
        raise DocumentTooLarge(f"a number is out of range: it has more than {MAX_DIGITS} digits")
