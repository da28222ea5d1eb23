"""Hostile files of every kind that comes from others, through what reads them, in processes that may hardly grow."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.bombs import files as bombs
from benchmarks.bombs import served as bombs_served
from benchmarks.bombs import sources as bombs_sources
from benchmarks.bombs import workbooks as bombs_workbooks
from benchmarks.row import Options, Row
from siloquent.errors import SiloquentError

MAX_MEGABYTES, MAX_SECONDS = 256.0, 2.0
KINDS = (
    "arrays",
    "json",
    "toml",
    "parquet",
    "csv",
    "reports",
    "sparse",
    "duckdb",
    "workbooks",
    "folders",
    "uploads",
    "messages",
)
Door = Callable[[Path], object]


class _Options:
    """What file readers of the command line ask of its options: there is no workspace."""

    as_json = False

    def folder(self) -> None:
        """Nowhere."""


def _text(read: Callable[[str], object]) -> Door:
    return lambda path: read(path.read_text(encoding="utf-8"))


def doors() -> dict[str, dict[str, Door]]:
    """By kind of file: who reads it, by name. Every reader is the one that commands, sessions and servers call."""
    import opendp.measurements  # noqa: F401 - loaded before processes are forked that may hardly grow

    from siloquent.cli.base.paths import read_toml
    from siloquent.cli.collect.inputs import read_public_tables
    from siloquent.cli.search.inputs import load_plan
    from siloquent.cli.server.jobs import read_spec
    from siloquent.collect import parse_spec, read_collection
    from siloquent.federation.identity.bundle import read_certificate, read_small
    from siloquent.foreign.tables import read_table
    from siloquent.profile.release import load_report
    from siloquent.releases import verify_release
    from siloquent.releases.arrays import unpack
    from siloquent.schema.build import parse_schema
    from siloquent.search.catalogue import load_offer
    from siloquent.share.model import load_model
    from siloquent.share.spec import parse_agreement
    from siloquent.sketch.plan.planner import read_hash_plan

    options: Any = _Options()
    made = bombs.small_collection()
    files: dict[str, Door] = {
        "a hash plan": read_hash_plan,
        "a search plan": lambda path: load_plan(options, str(path)),
        "a report of dependencies": load_report,
        "a spec": read_spec,
        "public rows": lambda path: read_public_tables(options, made, [f"places={path}"]),
    }
    return {
        "arrays": {"a shared model": load_model, "arrays": lambda path: unpack(path.read_bytes(), ("counts[0-9]*",))},
        "json": {**files, "a collection": _text(read_collection), "an agreement": _text(parse_agreement)},
        "toml": {
            "a table": _text(parse_schema),
            "a collection": _text(parse_spec),
            "any": read_toml,
            "a spec": read_spec,
        },
        "parquet": {"a table": read_table, "reports": bombs.as_reports},
        "csv": {"a table": read_table, "a reference": bombs.as_reference},
        "reports": {"reports": bombs.as_reports},
        "duckdb": {"a source": bombs_sources.as_source},
        "workbooks": {"a source": bombs_sources.as_workbook},
        "folders": {
            "a release": verify_release,
            "an offer": load_offer,
            "a catalogue": bombs_sources.as_catalogue,
            "a shared model": load_model,
        },
        "uploads": {"an upload": bombs_served.as_upload},
        "messages": {"a message": bombs_served.as_message},
        "sparse": {
            **files,
            "a shared model": load_model,
            "a certificate": read_certificate,
            "a role's file": read_small,
            "users' rows": lambda path: bombs.as_users(options, path),
            "a reference": bombs.as_reference,
        },
    }


def files_of(folder: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """The hostile files of a kind: name and path, one at a time."""
    for name, data in _texts(kind):
        path = folder / {"arrays": "a.npz", "json": "a.json", "toml": "a.toml"}.get(kind, "a.bin")
        path.write_bytes(data)
        yield name, path
    by_path = {
        "parquet": bombs.PARQUET,
        "uploads": bombs.PARQUET,
        "csv": bombs.CSV,
        "duckdb": bombs_sources.DUCKDB,
        "workbooks": bombs_workbooks.WORKBOOKS,
        "folders": bombs_sources.FOLDERS,
    }
    for number, (name, into) in enumerate(by_path.get(kind, {}).items()):
        path = folder / f"{number}.{kind}"
        into(path)
        yield name, path
    if kind == "arrays":
        path = folder / "a.npz"
        path.write_bytes(bombs.arrays(2**17, 200, zipfile.ZIP_DEFLATED))
        yield "200 members", path
    if kind == "sparse":
        path = folder / "a.bin"
        with path.open("wb") as file:
            file.truncate(2**33)
        yield "8 GiB of zeros", path


def _texts(kind: str) -> Iterator[tuple[str, bytes]]:
    if kind == "arrays":
        for name, made in bombs.ARRAYS.items():
            yield name, made()
    if kind in ("json", "toml"):
        for name, text in (bombs.JSON if kind == "json" else bombs.TOML).items():
            yield name, text().encode("utf-8", "surrogatepass")
    if kind == "uploads":
        for name in bombs_served.PACKED:
            yield name, bombs_served.packed(name)
    if kind == "messages":
        yield "64 MiB of zeros", bytes(2**26)
        for name, text in bombs.JSON.items():
            header = text()[:60_000].encode("utf-8", "replace")
            yield f"a header of {name}", len(header).to_bytes(2, "big") + header + bytes(200)
    if kind == "reports":
        yield "128 MiB of zeros", bytes(2**27)


def tried(kinds: tuple[str, ...]) -> Iterator[tuple[str, str, float, float, str]]:
    """Each file through each reader of its kind, in a fork: names, CPU seconds, MB, and what became of it."""
    found = doors()
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            for name, path in files_of(Path(folder), kind):
                for door, read in found[kind].items():
                    yield f"{kind}: {name}", door, *_apart(read, path)


def _apart(read: Door, path: Path) -> tuple[float, float, str]:
    out, into = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(out)
        os.write(into, _outcome(read, path).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as told:
        line = told.read()
    _, status = os.waitpid(child, 0)
    if status or not line:
        return 0.0, 0.0, f"killed ({status})"
    seconds, megabytes, outcome = line.split(" ", 2)
    return float(seconds), float(megabytes), outcome


def _outcome(read: Door, path: Path) -> str:
    size = path.stat().st_size if path.stat().st_size < 2**26 else 0  # a text that is handed in is no growth
    room = _status("VmSize") + 2**30
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    Path("/proc/self/clear_refs").write_text("5")
    before, start, outcome = _status("VmHWM"), time.process_time(), "read"
    try:
        read(path)
    except (SiloquentError, ValueError):
        outcome = "refused"
    except Exception as wrong:
        outcome = f"broken by {type(wrong).__name__}: {wrong}"[:200]
    seconds = time.process_time() - start
    return f"{seconds:.3f} {max(0.0, (_status('VmHWM') - before - 2 * size) / 2**20):.1f} {outcome}"


def _status(field: str) -> int:
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(field))
    return int(line.split()[1]) * 1_024


def rows(options: Options) -> Iterator[Row]:
    """All of them."""
    if not options.wants("bombs"):
        return
    count = broken = 0
    slowest, largest = (0.0, ""), (0.0, "")
    for name, door, seconds, megabytes, outcome in tried(KINDS):
        count += 1
        if outcome != "refused" or seconds > MAX_SECONDS or megabytes > MAX_MEGABYTES:
            print(f"{name} as {door}: {outcome}, {seconds:g} CPU s, {megabytes:g} MB", file=sys.stderr)
        broken += outcome != "refused"
        slowest, largest = max(slowest, (seconds, f"{name} as {door}")), max(largest, (megabytes, f"{name} as {door}"))
    how = f"{count} pairs of a hostile file and a reader, each in a process that may grow by 1 GiB"
    yield Row("bombs-not-refused", ours=broken, goal=0, unit="pairs", how=how)
    yield Row("bombs-cpu", ours=slowest[0], goal=MAX_SECONDS, unit="CPU s", how=f"{how}; {slowest[1]}")
    yield Row("bombs-memory", ours=largest[0], goal=MAX_MEGABYTES, unit="MB",
              how=f"{how}, beyond twice the file itself; {largest[1]}")  # fmt: skip
