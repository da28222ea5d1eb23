"""Where faults are planted, and how many in each place: those that privacy and money hang on first."""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.mutants.mutate import Mutation, Signatures, mutations

SEED = 16
# Patterns of files below ``siloquent``, and a number of mutants. A file belongs to the first place that names it.
PLACES: dict[str, tuple[tuple[str, ...], int]] = {
    "explore measure": (("explore/measure/*.py",), 15),
    "synth measure": (("synth/measure/*.py",), 15),
    "sketch measure": (("sketch/measure/*.py",), 12),
    "search measure": (("search/measure/*.py",), 12),
    "share measure": (("share/measure/*.py",), 12),
    "collect measure": (("collect/measure/*.py",), 14),
    "profile measure": (("profile/measure/*.py",), 8),
    "noise": (("privacy/noise/*.py",), 16),
    "privacy": (("privacy/*.py",), 24),
    "ledger": (("ledger/*.py",), 18),
    "explore plan": (("explore/plan/*.py",), 8),
    "synth plan": (("synth/plan/*.py",), 7),
    "sketch plan": (("sketch/plan/*.py",), 5),
    "search plan": (("search/plan/*.py",), 5),
    "share plan": (("share/plan.py", "share/plan/*.py"), 4),
    "collect plan": (("collect/plan/*.py",), 5),
    "profile plan": (("profile/plan/*.py",), 5),
    "crypto": (("federation/crypto/*.py",), 8),
    "federation": (("federation/*.py", "federation/channel/*.py", "federation/relay/*.py"), 12),
}
# How often a kind is drawn. Numbers are most of what can be changed and would crowd out everything else.
WEIGHTS = {"number": 3, "comparison": 3, "arithmetic": 2, "guard": 2}


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
    found: Sequence[Planted], *, seed: int = SEED, times: float = 1, places: Collection[str] = tuple(PLACES)
) -> list[Planted]:
    """Of each place as many as ``PLACES`` says, times ``times``: a kind is drawn, then one of it; a line once at most.

    Each place has a stream of its own, so a change of one does not draw others anew.
    """
    drawn = []
    for place in places:
        mine = [one for one in found if one.place == place]
        rng = random.Random(f"{seed} {place}")
        lines: set[tuple[str, int]] = set()
        for _ in range(round(PLACES[place][1] * times)):
            open_ones = [one for one in mine if (one.file, one.mutation.line) not in lines]
            kinds = sorted({one.mutation.kind for one in open_ones})
            if not kinds:
                break
            kind = rng.choices(kinds, [WEIGHTS.get(kind, 1) for kind in kinds])[0]
            chosen = rng.choice([one for one in open_ones if one.mutation.kind == kind])
            lines.add((chosen.file, chosen.mutation.line))
            drawn.append(chosen)
    return drawn
