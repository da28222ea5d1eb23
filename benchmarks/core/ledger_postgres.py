"""The ledger in PostgreSQL under the same trials as the one in SQLite, on a throw-away server."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.core.ledger import (
    PLENTY,
    PROCESSES,
    ROUNDS,
    SECONDS,
    charges_a_second,
    folder_on_disk,
    overshoot,
    violations,
)
from benchmarks.row import Options, Row
from benchmarks.trials.ledger import Place
from scripts.postgres import throwaway_postgres

RACE, KILLS, CHARGES = (f"ledger-postgres-{name}" for name in ("race-overshoot", "kill-violations", "durable-charges"))


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module, each with a server of its own; where clients die and not the disk, it need not sync."""
    if options.wants(RACE):
        with throwaway_postgres() as url:
            yield overshoot(25 if options.quick else 1_000, row=RACE, url=url)
    if options.wants(KILLS):
        with throwaway_postgres() as url:
            yield violations(60 if options.quick else 1_000, row=KILLS, url=url)
    if options.wants(CHARGES):
        with throwaway_postgres(durable=True) as url:
            yield durable_charges(SECONDS if options.quick else 5 * SECONDS, url)


def durable_charges(seconds: float, url: str) -> Row:
    """Charges a second by eight processes; no goal, since a server's disk and distance decide."""
    with folder_on_disk() as folder:
        place = Place.made(folder, PLENTY, url=url)
        rates = [charges_a_second(place, seconds) for _ in range(ROUNDS)]
    how = f"PostgreSQL beside its clients, {PROCESSES} processes, median of {ROUNDS} x {seconds:.0f} s"
    return Row(CHARGES, ours=median(rates), better="higher", unit="charges/s", how=how)
