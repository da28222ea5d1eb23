"""Plant a fault in a copy of the library, run the tests that cover its line, and say whether one of them noticed."""

from __future__ import annotations

import ast
import compileall
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from benchmarks.mutants.coverage import Fixed, Ranked, Traced, run_tests
from benchmarks.mutants.declared import Named
from benchmarks.mutants.mutate import uses
from benchmarks.mutants.nursery import ROOT
from benchmarks.mutants.places import Planted

# How many tests, and seconds of them, are tried before the next ones: most faults are seen at once, and a fault has
# survived only when all have run, but for those of a line that nearly every test runs.
STAGES = ((10, 10.0), (100, 60.0), (1_500, 600.0))
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.*)$", re.MULTILINE)
_UNKNOWN = re.compile(r"^ERROR: not found: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one fault ended. ``by``: the test that failed, "hang", or empty for one that no test noticed."""

    fault: Planted | Named
    by: str
    tried: int

    @property
    def survived(self) -> bool:
        """Whether no test noticed."""
        return not self.by


@contextmanager
def copied(source: Path) -> Iterator[Path]:
    """A copy of the library in a folder of its own, compiled, so that only what is changed is compiled again."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(copy, quiet=2)
        yield copy


class Field:
    """A copy of the library to plant faults in, and what is known of the tests.

    Args:
        copy: A folder with ``siloquent``, which nobody else uses.
        tests: What is known of the tests.
    """

    def __init__(self, copy: Path, tests: Fixed | Ranked, trees: Mapping[str, ast.Module]) -> None:
        self.copy, self.tests = copy, tests
        self.uses = uses(trees)
        self.unsound: set[str] = set()

    def judge(self, fault: Planted | Named, *, batches: int | None = None) -> Verdict:
        """Plant ``fault``, run tests until one fails, take it out again.

        Args:
            batches: Only so many of the batches of tests are tried: what survives them is not judged yet.
        """
        tried = 0
        with tempfile.TemporaryDirectory(prefix="mutants-compiled-") as new:
            # A cache of compiled kernels would outlive a fault in one of them.
            compiled = Path(new) if "kernels" in fault.file else self.copy.parent / "compiled"
            for tests in islice(self.tests.batches(fault.file, self._find_function(fault)), batches):
                covering = self.covering(fault, tests)
                number, by = self._try(fault, covering, compiled)
                tried += number
                if by:
                    return Verdict(fault, by, tried)
        return Verdict(fault, "", tried)

    def _find_function(self, fault: Planted | Named) -> str:
        """The qualified name of the function that is changed, as far as it is in one."""
        if isinstance(fault, Planted):
            return fault.mutation.function
        text = (self.copy / "siloquent" / fault.file).read_text("utf-8")
        first = fault.lines(text)[0]
        scopes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef))
        around = [node for node in scopes if node.lineno <= first <= (node.end_lineno or 0)]
        return ".".join(node.name for node in sorted(around, key=lambda node: node.lineno))

    def _try(self, fault: Planted | Named, covering: Sequence[Traced], compiled: Path) -> tuple[int, str]:
        """How many tests ran, and the one that failed."""
        tried = 0
        with self._planted(fault):
            for most, seconds in STAGES:
                some = within(covering[tried:], most, seconds)
                tried += len(some)
                by = self._first_failing(some, compiled)
                if by:
                    return tried, by
        return tried, ""

    def covering(self, fault: Planted | Named, tests: Iterable[Traced]) -> list[Traced]:
        """Those of the tests that run the fault's lines: of its own task and of few lines first, of each file in turn.

        A guard is missed only by what it refused, so those that were refused come before all others.
        """
        masks: dict[str, int] = {}
        for file, line in self._lines(fault):
            masks[file] = masks.get(file, 0) | 1 << line
        found = [
            test
            for test in tests
            if test.name not in self.unsound and any(test.lines.get(file, 0) & mask for file, mask in masks.items())
        ]
        order = in_turn(found, fault.file)
        refused = 0 if isinstance(fault, Named) else sum(1 << line for line in fault.mutation.refusal)
        return sorted(order, key=lambda test: not test.lines.get(fault.file, 0) & refused)

    def _lines(self, fault: Planted | Named) -> Iterable[tuple[str, int]]:
        if isinstance(fault, Named):
            text = (self.copy / "siloquent" / fault.file).read_text("utf-8")
            return [(fault.file, line) for line in fault.lines(text)]
        one = fault.mutation
        if one.binds:
            return [place for name in one.binds for place in self.uses.get(name, ())]
        return [(fault.file, line) for line in one.lines]

    @contextmanager
    def _planted(self, fault: Planted | Named) -> Iterator[None]:
        file = self.copy / "siloquent" / fault.file
        kept, times = file.read_bytes(), file.stat()
        changed = (fault.mutation if isinstance(fault, Planted) else fault).apply(kept.decode())
        file.write_text(changed, encoding="utf-8")
        try:
            yield
        finally:
            file.write_bytes(kept)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _first_failing(self, tests: Sequence[Traced], compiled: Path) -> str:
        """The first that fails, "hang" if they do not end, empty if all pass."""
        names = [test.name for test in tests if test.name not in self.unsound]
        if not names:
            return ""
        seconds = 20 + 4 * sum(test.seconds for test in tests)
        status, said = run_tests(names, self.copy, seconds=seconds, more={"NUMBA_CACHE_DIR": str(compiled)})
        if status is None:
            return "hang"
        if status == 0:
            return ""
        unknown = {name.removeprefix(f"{ROOT}/") for name in _UNKNOWN.findall(said)}
        if status == 4 and unknown and not self._is_planted_in_vain(unknown):
            self.unsound |= unknown
            return self._first_failing(tests, compiled)
        failed = list_failed(said, names)
        return failed[0] if failed and status == 1 else names[0]

    def _is_planted_in_vain(self, names: set[str]) -> bool:
        """Whether tests that were not found are there without the fault, which then broke their import."""
        with copied(ROOT / "src") as clean:
            return run_tests([*sorted(names), "--collect-only"], clean, seconds=120, more={})[0] == 0

    def check(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """The verdicts, those of tests that also fail without any fault reached once more without them."""
        names = sorted({verdict.by for verdict in verdicts if verdict.by not in ("", "hang")})
        failing: set[str] = set()
        for start in range(0, len(names), 50):
            some = names[start : start + 50]
            _, said = run_tests(some, self.copy, seconds=1_200, more={}, stop_at_first=False)
            failing |= {*list_failed(said, some)} & {*some}
        self.unsound |= failing
        return [self.judge(one.fault) if one.by in failing else one for one in verdicts]


def list_failed(said: str, names: Sequence[str]) -> list[str]:
    """The tests that a report says failed, in order; a name may hold the sign between names and messages."""
    found = []
    for text in _FAILED.findall(said):
        known = [name for name in names if text == name or text.startswith(f"{name} - ")]
        found.append(max(known, key=len) if known else text.partition(" - ")[0])
    return found


def within(tests: Sequence[Traced], most: int, seconds: float) -> list[Traced]:
    """The first tests up to a number and a time, at least one."""
    chosen: list[Traced] = []
    for test in tests[:most]:
        if chosen and sum(one.seconds for one in chosen) + test.seconds > seconds:
            break
        chosen.append(test)
    return chosen


def in_turn(tests: Sequence[Traced], file: str) -> list[Traced]:
    """Of each test file the test that runs the fewest lines, then the second of each; files of the same task first.

    Who runs few lines asks about these, and is quick.
    """
    task = PurePosixPath(file).parts[0]
    by_file: dict[str, list[Traced]] = {}
    for test in sorted(tests, key=lambda one: (one.size, one.name)):
        by_file.setdefault(test.name.partition("::")[0], []).append(test)
    ranked = [
        (nth, task not in name, test.size, test.name, test)
        for name, mine in by_file.items()
        for nth, test in enumerate(mine)
    ]
    return [test for *_, test in sorted(ranked, key=lambda one: one[:4])]
