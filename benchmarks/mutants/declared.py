"""The faults and the equivalents that people wrote down. Both are found by their text, so neither outlives its line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.places import Planted

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Named:
    """A fault by hand: in ``file`` the text ``old``, which is there once, becomes ``new``."""

    name: str
    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The faulty source.

        Raises:
            ValueError: The file does not hold ``old`` just once: the fault must be written anew.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"fault {self.name!r}: {self.file} holds its text {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    def lines(self, text: str) -> range:
        """The lines of ``old``."""
        first = text[: text.index(self.old)].count("\n") + 1
        return range(first, first + self.old.rstrip("\n").count("\n") + 1)


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A change after which the program still does the same, and why."""

    file: str
    function: str
    statement: str
    change: str
    why: str

    def matches(self, planted: Planted) -> bool:
        """Whether this is what ``planted`` changes."""
        one = planted.mutation
        return (self.file, self.function, self.statement, self.change) == (
            planted.file,
            one.function,
            one.statement,
            change_of(planted),
        )


def change_of(planted: Planted) -> str:
    """What a mutation changes, on one line."""
    return f"{' '.join(planted.mutation.old.split())} -> {planted.mutation.new}"


def named() -> list[Named]:
    """The faults of ``named.toml``."""
    return [Named(**told) for told in tomllib.loads((HERE / "named.toml").read_text("utf-8"))["fault"]]


def equivalents() -> list[Equivalent]:
    """The changes of ``equivalents.toml``."""
    told = tomllib.loads((HERE / "equivalents.toml").read_text("utf-8"))
    return [Equivalent(**one) for one in told.get("equivalent", [])]


def stale(found: Iterable[Planted], source: Path) -> list[str]:
    """What is written down of lines that are no longer so."""
    library, known = source / "siloquent", list(found)
    old = []
    for fault in named():
        file = library / fault.file
        if not file.exists() or file.read_text("utf-8").count(fault.old) != 1:
            old.append(f"fault {fault.name!r}")
    gone = (one for one in equivalents() if not any(one.matches(planted) for planted in known))
    return [*old, *(f"equivalent {one.file} {one.change!r}" for one in gone)]
