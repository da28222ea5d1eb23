"""Where faults are planted, and how many in each place: those that privacy and money hang on first."""

from __future__ import annotations

import ast
import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.mutants.mutate import Mutation, Signatures, mutations

SEED = 16
# Patterns of files below ``siloquent``, and a number of mutants. A file belongs to the first place that names it.
PLACES: dict[str, tuple[tuple[str, ...], int]] = {
    "explore measure": (("explore/measure/*.py",), 9),
    "synth measure": (("synth/measure/*.py",), 13),
    "sketch measure": (("sketch/measure/*.py",), 10),
    "search measure": (("search/measure/*.py",), 10),
    "share measure": (("share/measure/*.py",), 10),
    "collect measure": (("collect/measure/*.py",), 11),
    "profile measure": (("profile/measure/*.py",), 7),
    "discover": (("discover/measure.py", "discover/plan/*.py"), 6),
    "noise": (("privacy/noise/*.py",), 12),
    "privacy": (("privacy/*.py",), 18),
    "ledger": (("ledger/*.py", "ledger/backends/*.py"), 14),
    "explore mechanisms": (("explore/plan/mechanisms/*.py",), 6),
    "explore plan": (
        ("explore/plan/*.py", "explore/plan/cells/*.py", "explore/plan/relations/*.py", "explore/plan/reuse/*.py"),
        6,
    ),
    "explore computed": (("explore/plan/computed/*.py",), 5),
    "synth plan": (("synth/plan/*.py",), 5),
    "sketch plan": (("sketch/plan/*.py",), 4),
    "search plan": (("search/plan/*.py",), 4),
    "share plan": (("share/plan.py", "share/plan/*.py"), 3),
    "collect plan": (("collect/plan/*.py",), 4),
    "profile plan": (("profile/plan/*.py",), 4),
    "crypto": (("federation/crypto/*.py",), 7),
    "federation": (
        (
            "federation/*.py",
            "federation/channel/*.py",
            "federation/identity/*.py",
            "federation/messages/*.py",
            "federation/relay/*.py",
        ),
        8,
    ),
}
# How likely a change of each kind is drawn: numbers are half of all changes and would crowd out the others.
WEIGHTS = {
    "number": 0.35,
    "arithmetic": 0.8,
    "argument": 1.0,
    "logic": 1.1,
    "identity": 1.2,
    "call": 1.3,
    "comparison": 1.5,
    "boolean": 2.2,
    "extreme": 2.4,
    "guard": 4.5,
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A mutation of one file, which is named below ``siloquent``."""

    place: str
    file: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.file}:{self.mutation}"


def place_of(file: str) -> str | None:
    """The place that a file belongs to."""
    path = PurePosixPath(file)
    for place, (patterns, _) in PLACES.items():
        if any(path.parent == PurePosixPath(pattern).parent and path.match(pattern) for pattern in patterns):
            return place
    return None


def parse_library(source: Path) -> dict[str, ast.Module]:
    """All modules of the library in a folder that holds ``siloquent``."""
    folder = source / "siloquent"
    return {
        file.relative_to(folder).as_posix(): ast.parse(file.read_text("utf-8")) for file in sorted(folder.rglob("*.py"))
    }


def everything(source: Path, trees: dict[str, ast.Module]) -> Iterator[Planted]:
    """Every mutation of every place."""
    signatures = Signatures()
    for tree in trees.values():
        signatures.read(tree)
    for file in trees:
        place = place_of(file)
        if place is not None:
            text = (source / "siloquent" / file).read_text("utf-8")
            yield from (Planted(place, file, one) for one in mutations(text, signatures))


def sample(
    found: Iterable[Planted], *, seed: int = SEED, times: float = 1, places: Collection[str] = tuple(PLACES)
) -> list[Planted]:
    """Of each place as many as ``PLACES`` says, times ``times``; of a line one at most.

    Each change has a number of its own text, and the least ones are drawn: a change of one function leaves the sample
    of all others as it is.
    """
    left = {place: round(PLACES[place][1] * times) for place in places}
    seen: Counter[tuple[str, ...]] = Counter()
    lines: set[tuple[str, int]] = set()
    numbered = []
    for one in found:
        text = (one.file, one.mutation.function, one.mutation.statement, one.mutation.old, one.mutation.new)
        seen[text] += 1
        numbered.append((_number(text, seen[text], seed) / WEIGHTS[one.mutation.kind], one))
    drawn = []
    for _, one in sorted(numbered, key=lambda pair: pair[0]):
        line = (one.file, one.mutation.line)
        if left.get(one.place) and line not in lines:
            left[one.place] -= 1
            lines.add(line)
            drawn.append(one)
    return sorted(drawn, key=lambda one: list(PLACES).index(one.place))


def _number(text: tuple[str, ...], nth: int, seed: int) -> float:
    """A draw of the exponential distribution that hangs on text and seed alone."""
    digest = hashlib.sha256(repr((seed, nth, text)).encode()).digest()
    return -math.log((int.from_bytes(digest[:8], "big") + 1) / 2**64)
