"""The ledger under load: races, killed processes, durable charges a second, a million entries, tampering."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.row import Options, Row
from benchmarks.trials.ledger import (
    CHARGE,
    DIGEST,
    KILLED_AT,
    TABLE,
    TAMPERING,
    Place,
    grow,
    in_child,
    joined,
    killed_after,
    killed_at_point,
    race,
    tamper,
    write_history,
)
from benchmarks.trials.ledger_changes import KINDS, ChangedBooks, changes, write_books
from siloquent.ledger import Ledger, open_ledger
from siloquent.privacy.accountants import Cost

PROCESSES, SECONDS, ROUNDS = 8, 2.0, 3
PLENTY = 10**15


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("ledger-race-overshoot"):
        yield overshoot(charges=25 if options.quick else 1_000)
    if options.wants("ledger-kill-violations"):
        yield violations(60 if options.quick else 1_000)
    if options.wants("ledger-durable-charges"):
        yield durable_charges(SECONDS if options.quick else 10 * SECONDS)
    if options.wants("ledger-tampering-missed"):
        yield tampering_missed()
    if options.wants("ledger-changes-missed"):
        yield changes_missed(11 if options.quick else 1)
    if options.wants("ledger-accounts"):
        yield accounts_looked_at(200 if options.quick else 1_000)
    if options.wants("ledger-retry"):
        yield retried(5_000 if options.quick else 50_000)
    if options.wants("ledger-verify"):
        yield verify_rate(20_000 if options.quick else 200_000)
    if not options.quick and options.wants("ledger-flat"):
        yield flat(10**6)


@contextmanager
def folder_on_disk() -> Iterator[Path]:
    """A folder on this disk, not in memory: what is measured here is durability."""
    with tempfile.TemporaryDirectory(prefix="siloquent-ledger-", dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        yield Path(name)


def overshoot(charges: int, *, row: str = "ledger-race-overshoot", url: str = "") -> Row:
    """Coins granted or booked beside what fits, when half of all requests fit; in SQLite, or at ``url``."""
    fits = 16 * charges // 2
    with folder_on_disk() as folder:
        result = race(Place.made(folder, fits, url=url), processes=16, charges=charges)
    return Row(
        row,
        ours=result.overshoot(fits),
        goal=0,
        unit="charges",
        how=f"16 processes x {charges:,} racing charges, {_kind(url)}, {fits:,} fit: {result.granted:,} granted, "
        f"{result.refused:,} refused, {result.spent:,} booked; chain verified",
    )


def _kind(url: str) -> str:
    return "PostgreSQL" if url else "SQLite"


def violations(kills: int, *, row: str = "ledger-kill-violations", url: str = "") -> Row:
    """Broken promises of a ledger whose users are killed with SIGKILL, at each point of the walk and at any moment."""
    wrong: list[str] = []
    rng = random.Random(1)
    with folder_on_disk() as folder:
        place = Place.made(folder, PLENTY, url=url)
        for number in range(kills):
            key, at = f"key {number}", number % (len(KILLED_AT) + 2)
            if at < len(KILLED_AT):
                wrong += killed_at_point(place, key, KILLED_AT[at])
            else:
                wrong += killed_after(place, key, rng.uniform(0, 0.03))
    how = (
        f"{kills:,} SIGKILLs, {_kind(url)}: 6 named points and random times; charged once, same answer, chain right, "
        "head not ahead"
    )
    return Row(row, ours=len(wrong), goal=0, unit="violations", how=f"{how} {wrong[:3] or ''}")


def durable_charges(seconds: float) -> Row:
    """Charges a second by eight processes, each on disk before it is granted; raw syncs take turns with them."""
    ours, peer = [], []
    with folder_on_disk() as folder:
        place = Place.made(folder, PLENTY)
        for _ in range(ROUNDS):
            ours.append(charges_a_second(place, seconds))
            peer.append(_syncs(folder / "raw", seconds / 2))
    return Row(
        "ledger-durable-charges",
        ours=median(ours),
        peer=median(peer),
        goal=200,
        better="higher",
        unit="charges/s",
        how=f"SQLite, {PROCESSES} processes, median of {ROUNDS} x {seconds:.0f} s; peer: one process that appends "
        "8 KiB and calls fsync, the least that this disk asks for a durable charge without batching",
    )


def charges_a_second(place: Place, seconds: float) -> float:
    """How many charges a second ``PROCESSES`` processes get, each durable before it is granted."""

    def ask(pipe: int) -> None:
        done = 0
        with place.opened() as ledger:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
                done += 1
        os.write(pipe, str(done).encode())

    told = [joined(*child) for child in [in_child(ask) for _ in range(PROCESSES)]]
    return sum(int(words) for _, words in told) / seconds


def _syncs(path: Path, seconds: float) -> float:
    done, block = 0, bytes(8192)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.write(handle, block)
        os.fsync(handle)
        done += 1
    os.close(handle)
    return done / seconds


def tampering_missed() -> Row:
    """Kinds of tampering that ``verify`` does not find."""
    missed = []
    with folder_on_disk() as folder:
        with closing(open_ledger(folder / "history", create=True)) as ledger:
            write_history(ledger)
        for number, (kind, statements) in enumerate(TAMPERING.items()):
            shutil.copy(folder / "history", folder / f"copy{number}")
            tamper(folder / f"copy{number}", statements)
            with closing(open_ledger(folder / f"copy{number}")) as ledger:
                if ledger.verify().ok:
                    missed.append(kind)
    how = f"{len(TAMPERING)} kinds tried on a history of 9 entries, without a checkpoint {missed or ''}"
    return Row("ledger-tampering-missed", ours=len(missed), goal=0, unit="kinds", how=how)


def changes_missed(each: int) -> Row:
    """Changes of one cell or row that buy something, or that ``verify`` does not find."""
    missed, tried = [], 0
    with folder_on_disk() as folder:
        for kind in KINDS:
            books = write_books(folder, kind)
            for name, statement, values in list(changes(books))[::each]:
                changed = ChangedBooks.copied(books, folder / "copy")
                if changed.change(statement, values):
                    tried += 1
                    missed += [f"{kind}: {name}: {gain}" for gain in changed.gains()]
    how = f"{tried:,} changes of one cell or row, today's tables and an earlier revision's; then charged, asked again "
    return Row(
        "ledger-changes-missed", ours=len(missed), goal=0, unit="changes", how=f"{how}and verified {missed[:3] or ''}"
    )


def accounts_looked_at(accounts: int) -> Row:
    """What each account of a ledger adds to a charge, which compares all of them with the chain."""
    medians = []
    with folder_on_disk() as folder:
        for count in (1, accounts):
            with Place.made(folder / str(count), PLENTY).opened() as ledger:
                for number in range(count - 1):
                    ledger.open_account(f"{TABLE}/{number}", limit=Cost(1), parent=TABLE)
                medians.append(median(_charge_seconds(ledger) for _ in range(50)))
    each = (medians[1] - medians[0]) / (accounts - 1)
    how = f"CPU of a charge with {accounts:,} accounts less that with one, an account: median of 50 charges each"
    return Row("ledger-accounts", ours=each * 1e6, unit="CPU us", how=how)


def _charge_seconds(ledger: Ledger) -> float:
    begin = time.process_time()
    ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
    return time.process_time() - begin


def retried(entries: int) -> Row:
    """What it takes to look up an open permit under its key again and again, many entries later."""
    medians = []
    with folder_on_disk() as folder:
        for later in (0, entries):
            place = Place.made(folder / str(later), PLENTY)
            with place.opened() as ledger:
                ledger.reserve(TABLE, CHARGE, key="old", digest=DIGEST)
            grow(place, later + 2)
            with place.opened() as ledger:
                medians.append(median(_look_up_seconds(ledger) for _ in range(50)))
    how = f"CPU to find an open permit by its key after {entries:,} more entries over that after none: median of 50"
    return Row("ledger-retry", ours=medians[1] / medians[0], goal=1.2, unit="x", how=how)


def _look_up_seconds(ledger: Ledger) -> float:
    begin = time.process_time()
    ledger.find_charge(TABLE, key="old", digest=DIGEST)
    return time.process_time() - begin


def verify_rate(entries: int) -> Row:
    """Entries that ``verify`` recomputes a CPU second."""
    with folder_on_disk() as folder:
        place = Place.made(folder, PLENTY)
        grow(place, entries)
        with place.opened() as ledger:
            rate = median(_verified(ledger, entries) for _ in range(3))
    return Row(
        "ledger-verify",
        ours=rate,
        goal=100_000,
        better="higher",
        unit="entries/CPU s",
        how=f"{entries:,} reservations with their permits in SQLite, median of 3",
    )


def _verified(ledger: Ledger, entries: int) -> float:
    begin = time.process_time()
    verdict = ledger.verify()
    spent = time.process_time() - begin
    assert verdict.ok, verdict
    assert verdict.entries == entries
    return entries / spent


def flat(entries: int) -> Row:
    """How much longer a charge takes in a large ledger than in a new one."""
    charges = 400
    with folder_on_disk() as folder:
        small, large = (Place.made(folder / name, PLENTY) for name in ("small", "large"))
        grow(large, entries)
        with small.opened() as new, large.opened() as old:
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(charges):
                for ledger, taken in zip((new, old), times, strict=True):
                    begin = time.perf_counter()
                    ledger.reserve(TABLE, CHARGE, key=None, digest=DIGEST)
                    taken.append(time.perf_counter() - begin)
            verdict = old.verify()
            assert verdict.ok, verdict
    ratio = median(times[1]) / median(times[0])
    how = f"median durable charge at {entries:,} entries over that in a new ledger, {charges} each, taking turns"
    return Row("ledger-flat", ours=ratio, goal=1.2, unit="x", how=how)
