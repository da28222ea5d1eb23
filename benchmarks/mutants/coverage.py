"""Which tests run a line: traced runs of test files, kept in a folder that git ignores.

Files are traced as they are needed: those that speak of a fault's module and function first. A test file is traced
again when it changes. When a source file changes, what is known of its lines moves with them.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from benchmarks.mutants.nursery import NURSERY, ROOT

CACHE = ROOT / ".mutants"
FILE_SECONDS, TEST_SECONDS = 200, {False: 5, True: 20}
TOGETHER = 8  # files that one process traces
# Those that start servers, browsers and other programs are slow, and a trace does not see into another process.
LEFT_OUT = ("unit/cli", "unit/server", "unit/remote", "unit/pictures", "unit/demo", "journeys/web", "journeys/server")
DEAR = {"journeys": 4, "statistical": 8, "audit": 8, "contract": 6, "property": 5, "replay": 12}
"""Folders whose tests take long, and by how much their files come later."""
SLOW = 20.0
ORDER = ("unit", "contract", "property", "statistical", "audit", "journeys")
MARKS = {False: "not spark and not web and not slow", True: "slow and not spark and not web"}
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Traced:
    """A test that passed, its processor time while traced, and the lines that it ran: a bit mask for each file."""

    name: str
    seconds: float
    lines: dict[str, int]

    @property
    def size(self) -> int:
        """How many lines it runs."""
        return sum(mask.bit_count() for mask in self.lines.values())


def test_files() -> list[Path]:
    """The test files that are traced, those of single functions first."""
    files = [file for kind in ORDER for file in sorted((ROOT / "tests" / kind).rglob("test_*.py"))]
    named = [(file, file.relative_to(ROOT / "tests").as_posix()) for file in files]
    return [file for file, name in named if not name.startswith(LEFT_OUT) and "test_house" not in name]


@dataclass(frozen=True, slots=True)
class Part:
    """The quick tests of a file, or the slow ones."""

    file: Path
    slow: bool = False

    @property
    def kept(self) -> Path:
        """Where its trace is kept."""
        name = self.file.relative_to(ROOT / "tests").with_suffix("").as_posix().replace("/", "-")
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()[:12]
        return CACHE / f"{name}-{'slow-' if self.slow else ''}{digest}.gz"


def trace(parts: Sequence[Part], source: Path) -> None:
    """Trace all parts whose tests are not known as they are now.

    Args:
        source: A folder with a copy of ``siloquent`` without any fault, which the tests import.
    """
    _keep_sources(source)
    for slow in (False, True):
        missing = [part for part in parts if part.slow == slow and not part.kept.exists()]
        for start in range(0, len(missing), TOGETHER):
            _trace(missing[start : start + TOGETHER], source, slow=slow)


def _trace(parts: Sequence[Part], source: Path, *, slow: bool) -> None:
    told = CACHE / "being-traced.part"
    told.unlink(missing_ok=True)
    files = [str(part.file.relative_to(ROOT)) for part in parts]
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "benchmarks.mutants.tracing", "--hypothesis-seed=0"]
    watched = {"MUTANTS_TRACE": str(told), "MUTANTS_SOURCE": str(source / "siloquent")}
    limits = {"MUTANTS_SECONDS": str(TEST_SECONDS[slow])}
    seconds = FILE_SECONDS * len(parts)
    NURSERY.run([*options, "-m", MARKS[slow], *files], source, seconds=seconds, more={**watched, **limits})
    texts = told.read_text("utf-8").splitlines() if told.exists() else []
    told.unlink(missing_ok=True)
    head = json.dumps({"sources": _digests(source)})
    mine: dict[str, list[str]] = {name: [] for name in files}
    for text in texts:
        mine[json.loads(text)["test"].partition("::")[0]].append(text)
    for part, name in zip(parts, files, strict=True):
        part.kept.write_bytes(gzip.compress("\n".join([head, *mine[name]]).encode(), mtime=0))


def run_tests(
    names: Sequence[str], source: Path, *, seconds: float, more: dict[str, str], stop_at_first: bool = True
) -> tuple[int | None, str]:
    """Exit status and short report of tests of the library in ``source``; None if they ran out of time."""
    options = [
        "-q",
        "--tb=no",
        "-rfE",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        *(["-x"] if stop_at_first else []),
    ]
    return NURSERY.run([*options, *names], source, seconds=seconds, more=more)


@cache
def known(part: Part) -> tuple[Traced, ...]:
    """The traced tests of a part, their lines moved to where they are in the sources of today."""
    return tuple(_read(part.kept)) if part.kept.exists() else ()


class Fixed:
    """Tests that are known from the beginning.

    Args:
        tests: All of them.
    """

    def __init__(self, tests: Sequence[Traced]) -> None:
        self.tests = tests
        self.files = sorted({ROOT / test.name.partition("::")[0] for test in tests})

    def batches(self, file: str, function: str) -> Iterator[Sequence[Traced]]:
        """All of them at once."""
        yield self.tests


class Ranked:
    """All tests, traced as they are needed: for each fault first those whose file speaks of where it is.

    Args:
        source: A folder with a copy of ``siloquent`` without any fault.
    """

    FIRST = (3, 6, 12)

    def __init__(self, source: Path) -> None:
        self.source, self.files = source, test_files()
        texts = [file.read_text("utf-8") for file in self.files]
        self._words = [set(_WORDS.findall(text)) for text in texts]
        self._modules = [set(re.findall(r"siloquent(?:\.\w+)+", text)) for text in texts]
        self._common = Counter(word for words in self._words for word in words)

    def batches(self, file: str, function: str) -> Iterator[Sequence[Traced]]:
        """Tests whose lines are known, then those of the files that speak most of a function, then of all others.

        Files are traced as late as can be: that takes longer than to run what is known.
        """
        left = self.rank(file, function)
        yield self._tests([part for part in left if part.kept.exists()])
        left = [part for part in left if not part.kept.exists()]
        for number in self.FIRST:
            first, left = left[:number], left[number:]
            yield self._tests(first)
        for start in range(0, len(left), TOGETHER):
            yield self._tests(left[start : start + TOGETHER])

    def _tests(self, parts: Sequence[Part]) -> Sequence[Traced]:
        trace(parts, self.source)
        return [test for part in parts for test in known(part)]

    def rank(self, file: str, function: str) -> list[Part]:
        """All parts, those first that are likely to notice a fault in ``function`` of ``file``."""
        path = PurePosixPath(file)
        module = ".".join(["siloquent", *path.with_suffix("").parts]).removesuffix(".__init__")
        scored = []
        for nth, test in enumerate(self.files):
            words = self._words[nth]
            score = 6.0 * (module in self._modules[nth]) + 3.0 * (path.parts[0] in test.parts)
            score += 2.0 * (path.stem in words or path.stem in test.stem) - sum(
                DEAR.get(part, 0) for part in test.parts
            )
            score += sum(self._rarity(name) for name in function.split(".") if name in words)
            scored.append((score, nth))
        quick = [(-score, nth, Part(self.files[nth])) for score, nth in scored]
        slow = [(SLOW - score, nth, Part(self.files[nth], slow=True)) for score, nth in scored]
        return [part for *_, part in sorted(quick + slow, key=lambda one: one[:2])]

    def _rarity(self, word: str) -> float:
        return math.log2(len(self.files) / self._common[word])


def digest_files(files: Iterable[Path]) -> str:
    """The digest of all test files."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file} {hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ''}\n".encode())
    return whole.hexdigest()


def _read(kept: Path) -> Iterator[Traced]:
    head, *texts = gzip.decompress(kept.read_bytes()).decode().splitlines()
    digests = json.loads(head)["sources"]
    for text in texts:
        told = json.loads(text)
        lines = {name: _moved(name, int(mask, 16), digests.get(name, "")) for name, mask in told["lines"].items()}
        yield Traced(told["test"], told["seconds"], lines)


def _digests(source: Path) -> dict[str, str]:
    folder = source / "siloquent"
    return {file.relative_to(folder).as_posix(): _digest(file.read_bytes()) for file in sorted(folder.rglob("*.py"))}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _keep_sources(source: Path) -> None:
    """The texts that line numbers refer to."""
    (CACHE / "sources").mkdir(parents=True, exist_ok=True)
    for file in (source / "siloquent").rglob("*.py"):
        kept = CACHE / "sources" / _digest(file.read_bytes())
        if not kept.exists():
            kept.write_bytes(file.read_bytes())


def _moved(name: str, mask: int, digest: str) -> int:
    """The lines in ``mask`` of an earlier text of a file as lines of its text of today."""
    places = _places(name, digest)
    if places is None:
        return mask
    return sum(1 << new for new, old in enumerate(places) if old is not None and mask >> old & 1)


@cache
def _places(name: str, digest: str) -> tuple[int | None, ...] | None:
    """For each line of today the line that it was; a new one counts as the line before it. None: all the same."""
    now, before = ROOT / "src" / "siloquent" / name, CACHE / "sources" / digest
    if not now.exists() or not before.exists():
        return ()
    content = now.read_bytes()
    if _digest(content) == digest:
        return None
    old, new = before.read_text("utf-8").splitlines(), content.decode().splitlines()
    places: list[int | None] = [None] * (len(new) + 1)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for nth, j in enumerate(range(j1, j2)):
            places[j + 1] = i1 + nth + 1 if tag == "equal" else max(min(i1 + nth + 1, i2), 1)
    return tuple(places)
