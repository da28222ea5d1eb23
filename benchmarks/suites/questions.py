"""The questions: one file of SQL for each suite, each question below a line with its kinds.

``--: kind kind`` opens a question, ``! reason`` behind the kinds says that it must be refused and why, and a line
``--dialect name`` names another dialect than DuckDB's. What stands below is the question as it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "questions"
_KINDS = """plain where group-by order-by limit having names literals boolean null function arithmetic expression case
    filter key-expression date-function count-column distinct-unit distinct-value spread quantile min-max rows random
    window union rollup cte derived-table per-unit scalar-subquery in-subquery exists join-link join-unit join-public
    join-other outer"""
KINDS = frozenset(_KINDS.split())
_HEAD = re.compile(r"^--: (?P<kinds>[a-z -]+?)(?: ! (?P<refused>.+))?$")
_DIALECT = re.compile(r"^--dialect (?P<dialect>[a-z]+)$")


@dataclass(frozen=True, slots=True)
class Question:
    """A question as an analyst types it, without accuracy; ``refused``: why it must be refused, "" if it must not.

    ``dialect``: the one it is typed in, as sqlglot names it.
    """

    suite: str
    text: str
    kinds: tuple[str, ...]
    refused: str = ""
    dialect: str = "duckdb"

    def __post_init__(self) -> None:
        unknown = {*self.kinds} - KINDS
        if unknown or not self.kinds or not self.text:
            raise ValueError(f"{self.suite}: {self.text[:60]!r} has the kinds {self.kinds}")


def list_questions() -> list[Question]:
    """List all suites' questions, in the order of their files."""
    return [question for path in sorted(HERE.glob("*.sql")) for question in read_questions(path.stem, path.read_text())]


def read_questions(suite: str, text: str) -> Iterator[Question]:
    """Yield the questions of a file."""
    for block in re.split(r"\n\n(?=--: )", text.strip()):
        first, *lines = block.split("\n")
        head = _HEAD.match(first)
        if head is None:
            raise ValueError(f"{suite}: {first[:60]!r} does not say of which kinds its question is")
        dialect = _DIALECT.match(lines[0]) if lines else None
        typed = "\n".join(lines[1:] if dialect else lines).strip()
        named = dialect["dialect"] if dialect else "duckdb"
        yield Question(suite, typed, tuple(head["kinds"].split()), head["refused"] or "", named)
