"""No file breaks the reader, costs or tells anything. The benchmark ``fuzz-files`` reads 100,000 of them."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.files_fuzz import COIN, MAX_MEGABYTES, Reader, Reading, made, read, sample, trials
from benchmarks.hostile.row_files import Sample
from benchmarks.hostile.toml_files import TABLE, WORKSPACE, worst
from siloquent.errors import DataError, SchemaError, SiloquentError
from siloquent.ledger import Ledger, MemoryLedger
from siloquent.privacy import Cost
from siloquent.schema.build import parse_schema

INPUTS = range(1_000_000, 1_000_200)
"""Others than those of the benchmark."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path / "fuzzed")


@pytest.mark.slow
def test_two_hundred_hostile_files_end_in_a_refusal_for_nothing_or_in_right_counts(folder: Path) -> None:
    ends: Counter[str] = Counter()

    def counted(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
        try:
            reading = read(hostile, place, ledger)
        except SiloquentError:
            ends[f"{hostile.kind} refused"] += 1
            raise
        ends[f"{hostile.kind} {'right' if hostile.expected else 'read'}"] += 1
        return reading

    found = trials(INPUTS, folder, counted)
    assert found.words == []
    assert found.faults == 0
    assert found.megabytes < MAX_MEGABYTES
    # Both ways are taken by all kinds: a fuzzer whose files are all refused at the door would find nothing behind it.
    for kind in ("workspace", "schema", "csv", "parquet", "frame"):
        assert ends[f"{kind} refused"] > 0
        assert ends[f"{kind} read"] + ends[f"{kind} right"] > 0
    assert ends["csv right"] > 1


def test_the_same_number_is_the_same_input() -> None:
    for number in range(60):
        once, again = sample(number), sample(number)
        assert once.kind == again.kind
        assert once.expected == again.expected
        if once.kind != "frame":
            assert once.content == again.content


def crashes(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    raise ValueError("invalid literal for int()")


def shows_a_row(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    raise SchemaError("The value 'canary-of-ana' is no number.", fix="mend it")


def shows_a_row_in_its_cause(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    try:
        int("27182818x")
    except ValueError as cause:
        raise DataError() from cause


def has_no_fix(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    raise SiloquentError("Something is wrong.")


def writes_a_book(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    raise SchemaError("Too many columns: " + "name, " * 100_000, fix="mend it")


def charges_before_it_opens(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    ledger.open_account("visits@1", limit=Cost(10**9), accountant="pure", unit="row", adjacency="add-remove")
    ledger.reserve("visits@1", COIN, key=None, digest="0" * 64)
    raise DataError()


def says_that_it_is_charged(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    raise DataError(charged=True)


def charges_twice(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    reading = read(hostile, place, ledger)
    ledger.reserve("visits@1", COIN, key=None, digest="0" * 64)
    return reading


def loses_a_row(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    reading = read(hostile, place, ledger)
    return replace(reading, rows=reading.rows - 1)


def puts_a_row_elsewhere(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
    reading = read(hostile, place, ledger)
    return replace(reading, counts=tuple(tuple(np.roll(counts, 1).tolist()) for counts in reading.counts))


FAULTS: dict[str, tuple[Reader, str]] = {
    "an exception that is not ours": (crashes, "ValueError in crashes"),
    "a row in a message": (shows_a_row, "shows something private"),
    "a row in the trace below a message": (shows_a_row_in_its_cause, "shows something private"),
    "a refusal without a code": (has_no_fix, "without a code, a sentence or a fix"),
    "a message without an end": (writes_a_book, "a refusal of 600,"),
    "a charge for a refusal": (charges_before_it_opens, "was charged 1"),
    "a refusal that says it was charged": (says_that_it_is_charged, "was charged 0"),
    "a second charge": (charges_twice, "was charged"),
    "a row that is lost": (loses_a_row, "rows count, and counted were"),
    "rows in other cells": (puts_a_row_elsewhere, "instead of"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_check_catches_a_planted_fault(folder: Path, fault: str) -> None:
    reader, words = FAULTS[fault]
    number = next(n for n in INPUTS if (s := sample(n)).kind == "csv" and s.expected and sum(s.expected[0]) > 1)
    found = trials([number], folder, reader)
    assert found.faults == 1
    assert words in found.words[0]


def test_the_same_check_measures_time_and_memory(folder: Path) -> None:
    kept: list[bytes] = []

    def slow_and_large(hostile: Sample, place: Path, ledger: Ledger) -> Reading:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        kept.append(b"x" * (64 * 2**20 + _peak_beyond_now()))
        return Reading()

    found = trials([0], folder, slow_and_large)
    assert found.seconds >= 0.2
    assert found.megabytes >= 60


def _peak_beyond_now() -> int:
    """How far below its peak this process is: what it takes before the peak grows."""
    words = dict(
        line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Vm")
    )
    return (int(words["VmHWM"].split()[0]) - int(words["VmRSS"].split()[0])) * 1024


@pytest.mark.parametrize("name", [name for name, _ in worst(1_000)])
def test_the_longest_table_files_are_refused_in_a_few_words(name: str) -> None:
    """What takes the square of a file's size would never end here; ``fuzz-files-worst`` takes the time."""
    with pytest.raises(SchemaError) as refused:
        parse_schema(dict(worst(2**18))[name])
    assert len(str(refused.value)) < 1_000


def test_what_is_fuzzed_begins_as_right_files(folder: Path) -> None:
    assert len(parse_schema(TABLE).constraints) == 4
    read(Sample("workspace", WORKSPACE.encode()), folder, MemoryLedger())
