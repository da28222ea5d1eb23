"""The 22 templates, in our words, with the names of the tables' columns: ``questions.sql``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"--: (?P<number>\d+) (?P<what>.+)")


@dataclass(frozen=True, slots=True)
class Template:
    """A template with its number and the SQL that analysts type; DuckDB takes it as it is."""

    number: int
    what: str
    text: str


def list_templates() -> list[Template]:
    """List the templates by their number."""
    return list(_read((Path(__file__).parent / "questions.sql").read_text()))


def _read(text: str) -> Iterator[Template]:
    for block in re.split(r"\n\n(?=--: )", text.strip()):
        head, _, typed = block.partition("\n")
        found = _HEAD.fullmatch(head)
        if found is None:
            raise ValueError(f"{head[:60]!r} is not the head of a template")
        yield Template(int(found["number"]), found["what"], typed)
