"""Errors, columns, keys, order, prices, receipts, releases and logs say nothing about rows.

Neighbouring tables go through every verb, and all that can be seen of one must be seen of the other, byte by byte, once
noisy values and random ids are masked. A door that leaks is caught by the same comparison.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.sameness.compare import CODES, FEW, Seen, asked, compare, differences, observe
from benchmarks.sameness.tables import LARGEST, SETTINGS, SOME_SETTINGS, Pair, Setting, pairs
from siloquent.api import Session, read_schema
from siloquent.cli.app import run
from siloquent.data import table as data_room
from siloquent.errors import DataError, SiloquentError
from siloquent.explore import Answer
from siloquent.ledger import MemoryLedger
from siloquent.schema.workspace import Workspace
from siloquent.session import create_workspace

ENOUGH = list(pairs(SOME_SETTINGS, each=1))
"""Every base with every nasty unit, in one of the settings in turn; the benchmark takes all settings."""
PARTS = 4
ROWS = Setting("pure", "row", "add-remove", "typed")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_verb_shows_which_of_two_neighbours_it_was_asked_of(part: int, tmp_path: Path) -> None:
    assert len(ENOUGH) >= 120
    found = compare(ENOUGH[part * len(ENOUGH) // PARTS : (part + 1) * len(ENOUGH) // PARTS], tmp_path, labels=FEW)
    assert found.differences == []
    assert found.codes == CODES


@pytest.mark.slow
def test_every_question_is_answered_alike(tmp_path: Path) -> None:
    chosen = [pair for pair in pairs(SETTINGS[-2:-1]) if "NULL everywhere" in pair.name or "huge" in pair.name]
    assert compare(chosen, tmp_path).differences == []


class Leaks(Session):
    """A door that knows how many rows its frame has."""

    @property
    def frame(self) -> pa.Table:
        return self._frames["visits"][1]

    def ask(self, question: Any, **named: Any) -> Answer:
        try:
            return self.leak(super().ask(question, **named))
        except SiloquentError as error:
            self.blurt(error)
            raise

    def leak(self, answer: Answer) -> Answer:
        return answer

    def blurt(self, error: SiloquentError) -> None:
        pass


class KeysReadOffRows(Leaks):
    """Groups without rows are left out."""

    def leak(self, answer: Answer) -> Answer:
        there = set(self.frame.column("ward").to_pylist())
        kept = tuple(row for row in answer.rows if answer.columns[0] != "ward" or row[0] in there)
        return dataclasses.replace(answer, rows=kept)


class OrderedByTrueCounts(Leaks):
    """The largest group first."""

    def leak(self, answer: Answer) -> Answer:
        wards = self.frame.column("ward").to_pylist()
        return dataclasses.replace(answer, rows=tuple(sorted(answer.rows, key=lambda row: -wards.count(row[0]))))


class CountsInErrors(Leaks):
    """A refusal says how many rows there are."""

    def blurt(self, error: SiloquentError) -> None:
        error.detail += f" ({self.frame.num_rows} rows)"


class CountsInLogs(Leaks):
    """So does a line of the log."""

    def leak(self, answer: Answer) -> Answer:
        logging.getLogger("siloquent.explore").info("answered over %d rows", self.frame.num_rows)
        return answer


class PricesByRows(Leaks):
    """More rows cost more."""

    def leak(self, answer: Answer) -> Answer:
        paid = dataclasses.replace(answer.cost, amount=answer.cost.amount + Fraction(self.frame.num_rows, 10**6))
        return dataclasses.replace(answer, cost=paid)


class TypesByRows(Leaks):
    """Values are whole where the number of rows is even."""

    def leak(self, answer: Answer) -> Answer:
        kind = float if self.frame.num_rows % 2 else int
        rows = tuple((*row[:-1], kind(row[-1])) if answer.columns[-1] == "high" else row for row in answer.rows)
        return dataclasses.replace(answer, rows=rows)


class SkipsEmptyTables(Leaks):
    """Nothing is measured, or charged, where there is nothing."""

    def ask(self, question: Any, **named: Any) -> Answer:
        if not self.frame.num_rows:
            raise DataError()
        return super().ask(question, **named)


LEAKS = {
    KeysReadOffRows: "ask groups",
    OrderedByTrueCounts: "ask groups",
    CountsInErrors: "refused unknown table",
    CountsInLogs: "log",
    PricesByRows: "ask groups",
    TypesByRows: "ask groups",
    SkipsEmptyTables: "ledger",
}


def pair_of(base: str, nasty: str) -> Pair:
    return next(pair for pair in pairs((ROWS,)) if pair.name.startswith(f"{base}, and one more: {nasty} ("))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_door_that_leaks_is_caught(leak: type[Leaks], tmp_path: Path) -> None:
    pair = pair_of("no rows", "the usual")
    if leak is OrderedByTrueCounts:  # the new row makes B the larger ward
        pair = pair_of("one row", "the usual")
        second = tuple("B" if value == "A" else value for value in pair.other.rows[-1])
        b = dataclasses.replace(pair.other, rows=(second, second))
        pair = Pair("B and B, A and B", b, dataclasses.replace(b, rows=(pair.one.rows[0], second)))
    sides = [observe(side, tmp_path / "w", door=leak, labels=FEW) for side in (pair.one, pair.other)]
    assert LEAKS[leak] in differences(*sides)


def large(rows: int) -> Seen:
    """What sums show over ``rows`` rows with the largest value: with 2^22 rows they stay just below 2^62."""
    seen = Seen(Path("nowhere"))
    frame = pa.table(
        {
            **dict.fromkeys(("patient", "smoker", "day", "note"), pa.nulls(rows, pa.string())),
            "age": np.zeros(rows),
            "cost": np.zeros(rows),
            "ward": pa.array(["A"]).take(pa.array(np.zeros(rows, dtype=np.int32))),
            "big": np.full(rows, LARGEST),
        }
    )
    with Session(Workspace(Path("nowhere")), MemoryLedger()) as session:
        session.add_frame(read_schema(ROWS.declaration()), frame)
        for question in ("SELECT SUM(big) FROM visits", "SELECT ward, SUM(big) FROM visits GROUP BY ward"):
            seen.attempt(question, asked, session, f"{question} ERROR 100000000000000")
    return seen


def test_a_row_that_brings_a_sum_to_2_to_the_62_does_not_show() -> None:
    below, above = large(2**22), large(2**22 + 1)
    assert (below.codes, above.codes) == (set(), set())
    assert differences(below, above) == {}


def test_a_sum_that_fails_from_2_to_the_62_on_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data_room.combine_sums

    def overflows(*halves: Any) -> Any:
        sums = whole(*halves)
        if sums.sum() >= 2**62:
            raise OverflowError
        return sums

    monkeypatch.setattr(data_room, "combine_sums", overflows)
    assert differences(large(2**22), large(2**22 + 1))


# What a person types, and what a program reads; every answer but the last one's groups is of all declared groups.
GROUPS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50"
FRESH = f"{GROUPS} REUSE NONE"
TOP = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR 50"
TYPED: list[tuple[str, ...]] = [
    ("tables",),
    ("show", "visits"),
    ("explain", GROUPS),
    ("explain", GROUPS, "--json"),
    ("ask", GROUPS, "--yes", "--key", "k", "--json"),
    ("ask", GROUPS, "--yes", "--key", "k", "--json"),
    ("ask", "SELECT ward, SUM(big) FROM visits GROUP BY ward ERROR 100000000000000", "--yes", "--key", "s", "--json"),
    ("ask", TOP, "--yes", "--key", "t", "--json"),
    ("ask", GROUPS.replace("50", "60"), "--yes", "--key", "k"),
    ("ask", "SELECT COUNT(*) FROM visits WHERE ward = 'Z' ERROR 9", "--yes"),
    ("ask", "SELECT SUM(big) FROM visits ERROR 1", "--yes", "--json"),
    ("ask", "SELECT COUNT(*) FORM visits ERROR 9", "--yes"),
    ("ask", FRESH, "--max-cost", "0.00000001", "--json"),
    ("--analyst", "bo", "ask", FRESH, "--yes"),
    ("--analyst", "eve", "ask", FRESH, "--yes", "--json"),
    ("--analyst", "ana", "check", "visits"),
    ("ledger", "show"),
    ("ledger", "show", "--json"),
    ("ledger", "verify"),
    ("ledger", "checkpoint", "--output", "checkpoint.json"),
    ("release", "list"),
    ("release", "show", "r-000003", "--json"),
    ("release", "verify", "r-000003", "--json"),
    ("release", "verify", "r-000099"),
]
BROKEN: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "a release whose table was changed": (
        lambda folder: (folder / "releases" / "r-000003" / "manifest.json").write_text("{"),
        ("release", "show", "r-000003", "--json"),
        "release_invalid",
    ),
    "a source that cannot be read": (
        lambda folder: (folder / "data" / "visits.parquet").write_bytes(b"PAR1" + bytes(99) + b"PAR1"),
        ("ask", FRESH, "--yes", "--json"),
        "data_source_failed",
    ),
    "a ledger behind its head": (
        lambda folder: (folder / "ledger.head").write_text(f"999 {'0' * 64}\n"),
        ("ask", FRESH, "--yes", "--json"),
        "ledger_rolled_back",
    ),
}


def masked(text: str) -> str:
    """Without what is random or noisy: hashes and ids, moments, the numbers of rows of answers."""
    if text.startswith("{"):
        document = json.loads(text)
        if "rows" in document and "columns" in document:
            values = 3 if document["columns"][-1] == "high" else 0
            keys = [row[: len(row) - values] for row in document["rows"]]
            document["rows"] = [[*key, values] for key in keys] if values else len(keys)
            if "shown" in document:  # the same rows as people read them
                shown = [row[: len(row) - values] for row in document["shown"]["rows"]]
                document["shown"]["rows"] = shown if values else len(shown)
        text = json.dumps(document)
    text = re.sub(r"urn:uuid:[0-9a-f-]{36}", "UUID", text)
    text = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?", "MOMENT", text)


@pytest.fixture
def typed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Pair], list[dict[str, str]]]:
    """What the command line shows of both sides of a pair, in files, with a ledger in SQLite."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")

    def says(*words: str) -> str:
        capfd.readouterr()
        status = run(words)
        said = capfd.readouterr()
        return f"{status}\n{masked(said.out)}\n{masked(said.err)}"

    def both(pair: Pair) -> list[dict[str, str]]:
        shown: list[dict[str, str]] = []
        for name, side in (("one", pair.one), ("other", pair.other)):
            folder = tmp_path / name / "clinic"
            side.write(create_workspace(folder).folder)
            monkeypatch.chdir(folder)
            texts = {f"{number} {' '.join(words)}": says(*words) for number, words in enumerate(TYPED)}
            for fault, (breaks, words, code) in BROKEN.items():
                breaks(folder)
                texts[fault] = says(*words)
                assert f'"{code}"' in texts[fault]
            shown.append({label: text.replace(str(folder), "FOLDER") for label, text in texts.items()})
        return shown

    return both


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "nasty"),
    [
        ("no rows", "the usual"),
        ("one row", "a day of no calendar"),
        ("five rows", "NaN"),
        ("five rows", "huge numbers"),
    ],
)
def test_the_command_line_shows_neighbours_alike(
    base: str, nasty: str, typed: Callable[[Pair], list[dict[str, str]]]
) -> None:
    setting = Setting("zcdp", "user" if base == "five rows" else "row", "add-remove", "parquet")
    pair = next(pair for pair in pairs((setting,)) if pair.name.startswith(f"{base}, and one more: {nasty} ("))
    one, other = typed(pair)
    assert one == other
    assert {text.partition("\n")[0] for text in one.values()} >= {"0", "2", "3", "4", "5", "7", "8"}


def test_pairs_are_neighbours() -> None:
    """Each pair differs in one unit: a row more, a user's rows more, or one of them replaced."""
    for pair in pairs():
        one, other = pair.one, pair.other
        assert one.setting == other.setting
        units = [changed(side.rows, one.setting.unit) for side in (one, other)]
        gone, new = units[0] - units[1], units[1] - units[0]
        assert len(new) <= 1
        assert len(gone) == (len(new) if one.setting.adjacency == "replace-one" else 0)


def changed(rows: tuple[Any, ...], unit: str) -> set[Any]:
    """The units of a table: numbered rows, or users with their rows."""
    if unit == "row":
        return {(row[0], str(row)) for row in rows}
    return {(user, str([row for row in rows if row[0] == user])) for user in {row[0] for row in rows}}
