"""The meaning of one column as a table file has it, in text, and in the words in which it may be typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from siloquent.schema.bins import cut_by_width
from siloquent.schema.files.toml import quote_text

TEXT_BYTES = 1_000
_STEPS = {86_400: "day", 3_600: "hour", 60: "minute", 1: "second"}


@dataclass(frozen=True, slots=True)
class Meaning:
    """One column's declaration; bounds, grid, bins and ``null`` as in a table file. ``type`` is empty if left out.

    ``words``: those of a boolean in the source, for true and for false, where they are not usual ones.
    """

    type: str
    lo: str = ""
    hi: str = ""
    grid: str = ""
    bins: str = ""
    values: tuple[str, ...] = ()
    max_bytes: int = 0
    null: str = ""
    outside: str = "clamp"
    other: str = "cell"
    labels: tuple[tuple[str, str], ...] = ()
    words: tuple[str, str] | tuple[()] = ()

    @property
    def has_cells(self) -> bool:
        """Whether its values can be counted, so that NULL needs a meaning."""
        return self.type not in ("", "id", "text")


def compose_entry(name: str, meaning: Meaning) -> str:
    """Return the column's entry in a table file."""
    parts = [f"name = {quote_text(name)}", f"type = {quote_text(meaning.type)}"]
    for key, value in (("lo", meaning.lo), ("hi", meaning.hi), ("grid", meaning.grid), ("bins", meaning.bins)):
        parts += [f"{key} = {value}"] if value else []
    if meaning.type == "category":
        parts.append(f"values = [{', '.join(map(quote_text, meaning.values))}]")
        parts += [f"other = {quote_text(meaning.other)}"] if meaning.other != "drop" else []
    if meaning.type == "text" and meaning.max_bytes:
        parts.append(f"max_bytes = {meaning.max_bytes}")
    if meaning.lo:
        parts.append(f"outside = {quote_text(meaning.outside)}")
    parts += [f"null = {meaning.null}"] if meaning.null and meaning.has_cells else []
    if meaning.labels:
        parts.append(f"labels = {format_labels(meaning.labels)}")
    return f"{{ {', '.join(parts)} }}"


def format_labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Return labels as a table file says them; keys have quotes where TOML needs them.

    >>> print(format_labels((("1", "female"), ("1a", "male"), ("n/a", "not asked"))))
    { 1 = "female", 1a = "male", "n/a" = "not asked" }
    """
    keys = (key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quote_text(key) for key, _ in labels)
    return f"{{ {', '.join(f'{key} = {quote_text(label)}' for key, (_, label) in zip(keys, labels, strict=True))} }}"


def describe_meaning(meaning: Meaning, *, most: int = 60) -> str:
    """Describe a meaning in the words in which it may be typed; a long list is cut.

    >>> describe_meaning(Meaning("integer", "0", "120", bins="{ width = 10 }"))
    '0..120 by 10'
    """
    if meaning.type == "category" and meaning.labels:
        labels = dict(meaning.labels)
        text = ", ".join(f"{value} = {labels[value]}" if value in labels else value for value in meaning.values)
        return f"codes {text}" if len(text) <= most else f"{len(meaning.values)} values: {text[:most]}…"
    if meaning.type == "category":
        text = ", ".join(value if re.fullmatch(r"[^\",|]+", value) else quote_text(value) for value in meaning.values)
        return text if len(text) <= most else f"{len(meaning.values)} values: {text[:most]}…"
    if meaning.lo:
        by = re.fullmatch(r"\{ width = (\S+) \}", meaning.bins)
        kind = "real " if meaning.type == "real" and "." not in meaning.lo + meaning.hi else ""
        return f"{kind}{meaning.lo}..{meaning.hi}{f' by {by[1]}' if by else ''}"
    words = {"": "skip", "boolean": "/".join(meaning.words) or "yes/no", "text": f"text {meaning.max_bytes}"}
    return words.get(meaning.type, meaning.type)


def format_bins(
    edges: tuple[Decimal, ...], *, lo: Decimal | datetime | None, hi: Decimal | datetime | None, grid: Decimal | None
) -> str:
    """Return bins as a table file says them: by their width if they have one, otherwise by their edges."""
    if not edges or not isinstance(lo, Decimal) or not isinstance(hi, Decimal):
        return ""
    width = edges[1] - edges[0]
    if cut_by_width(lo, hi, grid or Decimal(1), width) == edges:
        return f"{{ width = {width:f} }}"
    return f"{{ edges = [{', '.join(f'{edge:f}' for edge in edges)}] }}"


def format_bound(bound: Decimal | datetime | None, kind: str) -> str:
    """Return a bound of an attribute of ``kind`` as a table file says it; empty if there is none."""
    if isinstance(bound, datetime):
        return str(bound.date() if kind == "date" else bound)
    return f"{bound:f}" if bound is not None else ""


def format_grid(grid: Decimal | None, kind: str) -> str:
    """Return the grid of an attribute of ``kind`` as a table file says it; empty where that is the usual one."""
    if kind in ("date", "datetime"):
        return quote_text(_STEPS.get(int(grid or 1), "second"))
    text = f"{grid:f}" if grid is not None and kind in ("integer", "real") else ""
    return "" if kind == "integer" and text == "1" else text


def format_null(null: str, value: object) -> str:
    """Return the meaning of NULL as a table file says it; ``value`` is the value that it is read as."""
    if null != "value":
        return quote_text(null)
    text = (
        str(value).lower() if isinstance(value, bool) else quote_text(value) if isinstance(value, str) else str(value)
    )
    return f"{{ value = {text} }}"
