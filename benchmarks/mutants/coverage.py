"""Which tests run a line: one traced run of each quick test file, kept in a folder that git ignores.

A test file is traced again when it changes. When a source file changes, what is known of its lines moves with them.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.runner import HERE

ROOT = HERE.parent
CACHE = ROOT / ".mutants"
FILE_SECONDS, TEST_SECONDS = 200, 12
# Those that start servers, browsers and other programs are slow, and a trace does not see into another process.
LEFT_OUT = ("unit/cli", "unit/server", "unit/remote", "unit/pictures", "unit/demo", "journeys/web", "journeys/server")
ORDER = ("unit", "contract", "property", "statistical", "audit", "journeys")
MAX_MEMORY = 12 * 2**30  # of address space: a fault may ask for all there is
MARKS = "not spark and not web"


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


def trace(files: Sequence[Path], source: Path, *, told: bool = False) -> None:
    """Trace every file whose tests are not known as they are now.

    Args:
        source: A folder with a copy of ``siloquent``, which the tests import.
    """
    CACHE.mkdir(exist_ok=True)
    _keep_sources(source)
    for file in files:
        kept = _kept(file)
        if kept.exists():
            continue
        part = kept.with_suffix(".part")
        part.unlink(missing_ok=True)
        command = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "benchmarks.mutants.tracing", "-m", MARKS, str(file)]
        watched = {"MUTANTS_TRACE": str(part), "MUTANTS_SOURCE": str(source / "siloquent")}
        limits = {"MUTANTS_SECONDS": str(TEST_SECONDS)}
        run([sys.executable, *command, "--hypothesis-seed=0"], source, seconds=FILE_SECONDS, more={**watched, **limits})
        texts = part.read_text("utf-8").splitlines() if part.exists() else []
        part.unlink(missing_ok=True)
        head = json.dumps({"sources": _digests(source)})
        kept.write_bytes(gzip.compress("\n".join([head, *texts]).encode(), mtime=0))
        if told:
            print(f"{len(texts):5d} tests of {file.relative_to(ROOT)}", flush=True)


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
    return run([sys.executable, "-m", "pytest", *options, *names], source, seconds=seconds, more=more)


def run(command: list[str], source: Path, *, seconds: float, more: dict[str, str]) -> tuple[int | None, str]:
    """Exit status and output of a program that imports the library from ``source``; None if it ran out of time.

    Args:
        seconds: Processor time of the program. A busy machine may take ten times as long, so what only waits is
            ended as late as that.
    """
    paths = os.pathsep.join([str(source), str(ROOT)])
    environment = {**os.environ, **more, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that what a test started ends with it
            preexec_fn=lambda: _limit(seconds),
        ) as program,
    ):
        try:
            status: int | None = program.wait(10 * seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(program.pid)
        said.seek(0)
        return None if status == -signal.SIGXCPU else status, said.read().decode(errors="replace")


def _limit(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))


def _end(group: int) -> None:
    try:
        os.killpg(group, 9)
    except ProcessLookupError:
        return


def known(files: Sequence[Path]) -> list[Traced]:
    """All traced tests of ``files``, their lines moved to where they are in the sources of today."""
    return [test for file in files if _kept(file).exists() for test in _read(_kept(file))]


def _read(kept: Path) -> Iterator[Traced]:
    head, *texts = gzip.decompress(kept.read_bytes()).decode().splitlines()
    digests = json.loads(head)["sources"]
    for text in texts:
        told = json.loads(text)
        lines = {name: _moved(name, int(mask, 16), digests.get(name, "")) for name, mask in told["lines"].items()}
        yield Traced(told["test"], told["seconds"], lines)


def _kept(file: Path) -> Path:
    name = file.relative_to(ROOT / "tests").with_suffix("").as_posix().replace("/", "-")
    return CACHE / f"{name}-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}.gz"


def _digests(source: Path) -> dict[str, str]:
    folder = source / "siloquent"
    return {file.relative_to(folder).as_posix(): _digest(file.read_bytes()) for file in sorted(folder.rglob("*.py"))}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _keep_sources(source: Path) -> None:
    """The texts that line numbers refer to."""
    (CACHE / "sources").mkdir(exist_ok=True)
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
