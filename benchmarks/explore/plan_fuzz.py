"""Huge questions, explained in a process that may not grow: each is planned or refused in what its size allows."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import siloquent as sq
from benchmarks.row import Options, Row
from siloquent.errors import SiloquentError

MAX_MEGABYTES, MAX_SECONDS = 512.0, 30.0
SEED = 20240307
OPTIMISED = ("averages", "having", "medians", "prefix", "prefix-sum", "sums", "top")
"""Questions for which strategies are optimised where they have a few hundred pieces."""
_CATEGORIES = ", ".join(f'"c{i}"' for i in range(300))
_CATEGORY = f'type = "category", values = [{_CATEGORIES}], other = "cell", null = "cell"'


def table_of(accountant: str) -> str:
    """Attributes of a million values, dates of two centuries, and categories."""
    budget = 'rho = "1000"\ndelta = "1e-6"' if accountant == "zcdp" else 'epsilon = "1000"'
    return f"""
format = 1
attribute = [
  {{ name = "t", type = "integer", lo = 0, hi = 999999, outside = "clamp", null = "drop" }},
  {{ name = "u", type = "integer", lo = 0, hi = 999999, outside = "clamp", null = "cell" }},
  {{ name = "v", type = "real", lo = 0, hi = 10000, grid = 0.01, outside = "clamp", null = "drop" }},
  {{ name = "d", type = "date", lo = 1900-01-01, hi = 2100-12-31, outside = "clamp", null = "drop" }},
  {{ name = "w", {_CATEGORY} }},
  {{ name = "x", {_CATEGORY} }},
  {{ name = "y", {_CATEGORY} }},
]
[table]
name = "wide"
source = "csv:none.csv"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{accountant}"
{budget}
"""


def questions(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Questions of about ``size`` pieces by name: conditions, ranges, lists, nesting, groups."""
    draw = random.Random(seed)  # allowed: which questions are generated

    def place() -> int:
        return draw.randrange(10**6)

    def several(piece: str, joined: str = ", ", count: int = size) -> str:
        return joined.join(piece.replace("?", str(place())) for _ in range(count))

    def counted(where: str, groups: str = "") -> str:
        return f"SELECT COUNT(*) FROM wide WHERE {where} {groups} ERROR 100"

    def listed(pieces: str, what: str = "COUNT(*)", rest: str = "ERROR 5000") -> str:
        return f"BIN wide ON {what} WHERE W = {{{pieces}}} {rest}"

    numbered = range(size)
    yield "ranges", listed(", ".join(f"t BETWEEN {min(a, b)} AND {max(a, b)}" for a, b in _pairs(draw, size)))
    yield "ranges-of-two", listed(several("t < ? AND u > ?"))
    yield "ranges-of-three", listed(several("t < ? AND u > ? AND v < 77"))
    yield "ranges-apart", listed(f"{several('t < ?')}, {several('u < ?')}, {several('v < ?')}")
    yield "sums", listed(several("t < ?"), "SUM(v)", "ERROR 100000")
    yield "medians", listed(several("t < ?"), "MEDIAN(v)", "ERROR 50")
    yield "averages", listed(several("t < ?"), "AVG(v)", "ERROR 50 FOR AT LEAST 100 ROWS")
    yield "top", listed(several("t < ?"), rest="ORDER BY COUNT(*) DESC LIMIT 5 ERROR 5000")
    yield "having", listed(several("t < ?"), rest="HAVING COUNT(*) > 10 ERROR 5000")
    yield "or", counted(several("t = ?", " OR "))
    yield "or-of-two", counted(several("(t = ? AND u > ?)", " OR "))
    yield "in", counted(f"t IN ({several('?')})")
    yield "in-groups", f"SELECT w, COUNT(*) FROM wide WHERE t IN ({several('?')}) GROUP BY w ERROR 100"
    yield "in-texts", counted(f"w IN ({', '.join(repr(f'c{i % 300}') for i in numbered)})")
    yield "likes", counted(" OR ".join(f"w LIKE '%{i}%'" for i in numbered))
    yield "arithmetic", counted(" OR ".join(f"t * {i + 2} % 7 = 3" for i in numbered))
    yield "arithmetic-in", counted(f"t % 1000 IN ({', '.join(str(i) for i in numbered)})")
    yield "across", counted(" OR ".join(f"t + {i} > u" for i in numbered))
    yield "years", counted(" OR ".join(f"year(d) = {1900 + i % 200}" for i in numbered))
    yield "parentheses", counted("(" * size + "t > 3" + ")" * size)
    yield "nots", counted("NOT " * size + "t > 3")
    yield "pluses", counted("t " + "+ 1 " * size + "> 3")
    yield "groups", "SELECT w, x, COUNT(*) FROM wide GROUP BY w, x ERROR 100"
    yield "groups-of-three", "SELECT w, x, y, COUNT(*) FROM wide GROUP BY w, x, y ERROR 100"
    yield (
        "keys",
        f"SELECT COUNT(*) FROM wide GROUP BY {', '.join(f't // {10**4 + i}' for i in range(min(size, 64)))} ERROR 5",
    )
    yield (
        "coarse-keys",
        f"SELECT COUNT(*) FROM wide GROUP BY {', '.join(f't // {10**6 + i}' for i in range(64))} ERROR 5",
    )
    yield "fine-groups", "SELECT t // 12, COUNT(*) FROM wide GROUP BY t // 12 ORDER BY COUNT(*) DESC LIMIT 5 ERROR 100"
    yield "median-groups", "SELECT t // 1000, MEDIAN(v) FROM wide GROUP BY t // 1000 ERROR 10"
    yield "histogram", f"BIN wide ON COUNT(*) WHERE W = HISTOGRAM(t, 0, {size * 20}, 1) ERROR 100"
    yield "prefix", f"BIN wide ON COUNT(*) WHERE W = PREFIX(t, 0, {size}, 1) ERROR 1000"
    yield "long-prefix", f"BIN wide ON COUNT(*) WHERE W = PREFIX(t, 0, {size * 5}, 1) ERROR 1000"
    yield "prefix-sum", f"BIN wide ON SUM(v) WHERE W = PREFIX(t, 0, {size}, 1) ERROR 100000"
    yield "items", f"SELECT {', '.join(['SUM(v)'] * size)} FROM wide ERROR 100"
    yield "digits", counted(f"t > {'9' * size}")
    yield "text", counted(f"w = '{'x' * size * 10}'")
    yield "of-any", listed(several("t < ?, u < ?, v < ?, w = 'c7'", count=size // 4))


def _pairs(draw: random.Random, size: int) -> list[tuple[int, int]]:
    return [(draw.randrange(10**6), draw.randrange(10**6)) for _ in range(size)]


def rows(options: Options) -> Iterator[Row]:
    """The dearest of all questions of three sizes under both accountants.

    Up to 1,024 columns strategies are optimised, which may take the time of ``plan-new``.
    """
    if not options.wants("plan-fuzz"):
        return
    worst: dict[str, tuple[float, str]] = {"memory": (0.0, ""), "cpu": (0.0, "")}
    count = broken = 0
    for accountant in ("pure", "zcdp"):
        for size in (200,) if options.quick else (200, 800, 3_000):
            for line in explained(accountant, size).splitlines():
                name, seconds, megabytes, outcome = line.split(" ", 3)
                count, broken = count + 1, broken + (outcome == "broken")
                worst["cpu"] = max(worst["cpu"], (float(seconds), f"{name} of {size}, {accountant}"))
                worst["memory"] = max(worst["memory"], (float(megabytes), f"{name} of {size}, {accountant}"))
    how = f"{count} generated questions, each in a process that may grow by {MAX_MEGABYTES:g} MB"
    yield Row("plan-fuzz-broken", ours=broken, goal=0, unit="questions", how=f"{how}; neither planned nor refused")
    yield Row("plan-fuzz-cpu", ours=worst["cpu"][0], goal=MAX_SECONDS, unit="CPU s", how=f"{how}; {worst['cpu'][1]}")
    yield Row("plan-fuzz-memory", ours=worst["memory"][0], goal=MAX_MEGABYTES, unit="MB",
              how=f"{how}; {worst['memory'][1]}")  # fmt: skip


def explained(accountant: str, size: int, seconds: int = 300, *, quickly: bool = False) -> str:
    """A line for each question: its name, CPU seconds, MB and what became of it; from a process under limits.

    Args:
        quickly: Leave out those whose strategies are optimised.
    """
    command = [sys.executable, "-m", "benchmarks.explore.plan_fuzz", accountant, str(size), str(seconds)]
    command += ["quickly"] if quickly else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"explaining {size} pieces ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def _main(accountant: str, size: int, seconds: int, *, quickly: bool) -> None:
    """Explain all questions through a session; each in a fork that may grow by ``MAX_MEGABYTES``."""
    with tempfile.TemporaryDirectory() as folder:
        sq.create_workspace(folder)
        (Path(folder) / "schemas" / "wide.toml").write_text(table_of(accountant))
        with sq.open(folder) as session:
            for warm in ("PREFIX(t, 0, 1100, 1)", "{w LIKE 'c1%', t % 7 = 3}"):
                session.explain(f"BIN wide ON COUNT(*) WHERE W = {warm} ERROR 5000")
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            for name, text in questions(size, SEED):
                if quickly and name in OPTIMISED:
                    continue
                sys.stdout.flush()
                if child := os.fork():
                    _, status = os.waitpid(child, 0)
                    if status:
                        print(name, 0, 0, "broken", flush=True)
                    continue
                room = _status("VmSize") + int(MAX_MEGABYTES) * 2**20
                resource.setrlimit(resource.RLIMIT_AS, (room, room))
                Path("/proc/self/clear_refs").write_text("5")
                before, start, outcome = _status("VmHWM"), time.process_time(), "planned"
                try:
                    session.explain("EXPLAIN PRIVACY " + text)
                except SiloquentError:
                    outcome = "refused"
                except Exception as wrong:
                    outcome = "broken"
                    print(name, type(wrong).__name__, wrong, file=sys.stderr)
                spent = time.process_time() - start
                print(name, f"{spent:.3f}", f"{(_status('VmHWM') - before) / 2**20:.1f}", outcome, flush=True)
                os._exit(0)


def _status(field: str) -> int:
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(field))
    return int(line.split()[1]) * 1_024


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), quickly="quickly" in sys.argv)
