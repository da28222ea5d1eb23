"""Hostile workspace files, table files, CSV, Parquet and frames: does any of them break the reader, cost or tell much.

Every input goes the way of an owner and an analyst: open, check, ask. It ends in a refusal that says what is wrong,
shows nothing private and costs nothing, or in right counts at exactly the price of the question.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.hostile.parquet_files import parquet_sample
from benchmarks.hostile.row_files import (
    COUNTED,
    SECRETS,
    UNITS,
    Sample,
    csv_sample,
    declaration,
    declared,
    frame_sample,
)
from benchmarks.hostile.toml_files import PASSWORD, TABLE, WORKSPACE, fuzzed, worst
from benchmarks.row import Options, Row
from siloquent.api import Session
from siloquent.documents.problems import build_problem
from siloquent.errors import LedgerError, SiloquentError
from siloquent.ledger import Ledger, MemoryLedger, SettledAnswer, open_ledger
from siloquent.privacy import DiscreteLaplace
from siloquent.schema import Block
from siloquent.schema.build import parse_schema
from siloquent.schema.files.toml import MAX_BYTES
from siloquent.schema.workspace import WORKSPACE_FILE, Workspace, read_workspace

SEED, INPUTS, QUICK_INPUTS, WARM = 20240229, 100_000, 500, 50
MAX_MESSAGE_LENGTH = 100_000
MAX_SECONDS, MAX_MEGABYTES = 5.0, 256.0
COIN = DiscreteLaplace(scale=Fraction(10**9), l1=1)
"""Costs one billionth of epsilon."""
QUESTION = "SELECT ward, COUNT(*) FROM {} GROUP BY ward ERROR 20 CONFIDENCE 0.99"


@dataclass(frozen=True, slots=True)
class Reading:
    """What an input that was not refused was read as, and what that cost in the ledger's units."""

    rows: int = 0
    counts: tuple[tuple[int, ...], ...] = ()
    price: int = 0


Reader = Callable[[Sample, Path, Ledger], Reading]


def sample(number: int) -> Sample:
    """Hostile input ``number``: the same in every run, so that one that breaks something can be had alone."""
    rng = np.random.default_rng([SEED, number])
    table = "visits" if rng.random() < 0.7 else "people"
    match number % 50:  # a file of rows takes fifty times as long as a declaration
        case 0 | 10 | 20 | 30 | 40:
            return Sample("workspace", fuzzed(rng, WORKSPACE))
        case 1 | 11 | 21 | 31 | 41:
            return parquet_sample(rng, table)
        case 2 | 12 | 22 | 32:
            return csv_sample(rng, table)
        case 3:
            return frame_sample(rng, table)
        case _:
            return Sample("schema", fuzzed(rng, TABLE))


def made(folder: Path) -> Path:
    """``folder`` with the declarations and places that inputs need."""
    folder.mkdir(exist_ok=True)
    (folder / "dsn.secret").touch(0o600)
    (folder / "dsn.secret").write_text(f"postgresql://ana:{PASSWORD}@db/clinic")
    for kind, source in (("csv", "csv-records"), ("parquet", "parquet")):
        (folder / kind / "schemas").mkdir(parents=True)
        for table in UNITS:
            (folder / kind / "schemas" / f"{table}.toml").write_text(declaration(table, f"{source}:rows"))
    return folder


def read(hostile: Sample, folder: Path, ledger: Ledger) -> Reading:
    """Open ``hostile`` as siloquent does, check it, count in it and ask about it; raises what that raises."""
    match hostile.kind:
        case "workspace":
            return _workspace(hostile.content, folder)
        case "schema":
            return _table_file(hostile.content)
        case "frame":
            with Session(Workspace(folder), ledger) as session:
                session.add_frame(declared(hostile.table), hostile.content)
                return _asked(session, hostile.table)
        case kind:
            (folder / kind / "rows").write_bytes(hostile.content)
            with Session(Workspace(folder / kind), ledger) as session:
                return _asked(session, hostile.table)


def _workspace(content: bytes, folder: Path) -> Reading:
    from siloquent.data.sources.postgres import read_connection_text

    (folder / WORKSPACE_FILE).write_bytes(content)
    found = read_workspace(folder)
    assert found == read_workspace(folder)
    if "://" not in found.ledger:
        with suppress(LedgerError):
            open_ledger(found.folder / found.ledger)
    for name, _, _ in found.postgres:
        read_connection_text(found, name, table="visits")
    return Reading()


def _table_file(content: bytes) -> Reading:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return Reading()  # the session refuses it before it is parsed
    found = parse_schema(text)
    assert parse_schema(f"{text}\n# the same\n") == found
    for attribute in found.domain:
        assert all(
            -1 <= attribute.index(value) < max(attribute.size, 1) for value in ("canary", "5", None, "2024-02-01")
        )
    return Reading()


def _asked(session: Session, table: str) -> Reading:
    """What check accepts can be asked about, and everything that is counted adds up to what check counted."""
    report = session.check(table)
    price = int(session.ask(QUESTION.format(table)).cost.amount * 10**9)
    permit = session.ledger.reserve(f"{table}@1", COIN, key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    domain = session.schema(table).domain
    blocks = [Block((name,), (np.arange(domain[name].size + 1),)) for name in COUNTED]
    counts = tuple(tuple(found.tolist()) for found in session.table(table).count_by_cell(blocks, permit))
    return Reading(report.counted, counts, price + 1)


def trial(hostile: Sample, folder: Path, reader: Reader = read) -> str:
    """What is wrong with how ``hostile`` ended; empty if the contract holds."""
    ledger = MemoryLedger()
    try:
        reading = reader(hostile, folder, ledger)
    except SiloquentError as refused:
        return _wrong_refusal(refused, _spent(ledger))
    except Exception as crash:  # allowed: this is what is looked for
        return f"{type(crash).__name__} in {traceback.extract_tb(crash.__traceback__)[-1].name}: {str(crash)[:200]}"
    if _spent(ledger) != reading.price:
        return f"a question that costs {reading.price} was charged {_spent(ledger)}"
    if any(sum(counts) != reading.rows for counts in reading.counts):
        return f"{reading.rows} rows count, and counted were {reading.counts}"
    if hostile.expected is not None and reading.counts != hostile.expected:
        return f"counted {reading.counts} instead of {hostile.expected}"
    return ""


def _spent(ledger: Ledger) -> int:
    return sum(account.spent.amount for account in ledger.list_accounts() if account.parent is None)


def _wrong_refusal(refused: SiloquentError, spent: int) -> str:
    problem = build_problem(refused)
    shown = "".join((str(refused), json.dumps(problem.to_json()), *traceback.format_exception(refused)))
    if problem.code == SiloquentError.code or not problem.detail or not problem.fix:
        return f"a refusal without a code, a sentence or a fix: {refused!r}"
    if spent or refused.spent != "nothing":
        return f"a refusal was charged {spent}: {refused}"
    if any(secret in shown for secret in SECRETS):
        return f"a refusal shows something private: {refused}"
    if len(str(refused)) > MAX_MESSAGE_LENGTH:
        return f"a refusal of {len(str(refused)):,} characters"
    shown.encode("utf-8")
    return ""


@dataclass(slots=True)
class Trials:
    """What many inputs did: the first faults in words, how many, and the most CPU seconds and memory that one took."""

    inputs: int = 0
    faults: int = 0
    words: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest: int = 0
    megabytes: float = 0.0


def trials(numbers: Iterable[int], folder: Path, reader: Reader = read) -> Trials:
    """Try the hostile inputs ``numbers``, each in ``folder`` as ``made`` makes it."""
    found, before = Trials(), _megabytes()
    for number in numbers:
        hostile = sample(number)
        begun = time.process_time()
        wrong = trial(hostile, folder, reader)
        spent = time.process_time() - begun
        if spent > found.seconds:
            found.seconds, found.slowest = spent, number
        found.inputs += 1
        if wrong:
            found.faults += 1
            found.words = [*found.words, f"{number} ({hostile.kind}): {wrong}"][:20]
    found.megabytes = _megabytes() - before
    return found


def _megabytes() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worst_seconds() -> tuple[float, str]:
    """The most CPU seconds that a table file of the largest size takes, and which one."""
    slowest, which = 0.0, ""
    for name, text in worst(MAX_BYTES):
        begun = time.process_time()
        with suppress(SiloquentError):
            parse_schema(text)
        spent = time.process_time() - begun
        if spent > slowest:
            slowest, which = spent, name
    return slowest, which


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if any(options.wants(f"fuzz-files-{name}") for name in ("faults", "slowest", "memory")):
        yield from _fuzzed(QUICK_INPUTS if options.quick else INPUTS)
    if options.wants("fuzz-files-worst") and not options.quick:
        seconds, which = worst_seconds()
        how = f"the slowest table file of {MAX_BYTES // 2**20} MiB, here one of {which}"
        yield Row("fuzz-files-worst", ours=seconds, goal=MAX_SECONDS, unit="CPU s", how=how)


def _fuzzed(count: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = made(Path(name))
        trials(range(WARM), folder)  # what libraries take once is not what a file costs
        found = trials(range(count), folder)
    how = (
        f"{count:,} workspace and table files, CSV, Parquet and frames, seed {SEED}: neither refused in words, for "
        f"nothing and without a private value, nor read right at the price {found.words[:3] or ''}"
    )
    yield Row("fuzz-files-faults", ours=found.faults, goal=0, unit="inputs", how=how)
    how = f"the slowest of those {count:,}, number {found.slowest}"
    yield Row("fuzz-files-slowest", ours=found.seconds, goal=MAX_SECONDS, unit="CPU s", how=how)
    how = f"growth of the process's peak over those {count:,}, after {WARM} inputs to warm up"
    yield Row("fuzz-files-memory", ours=found.megabytes, goal=MAX_MEGABYTES, unit="MiB", how=how)
