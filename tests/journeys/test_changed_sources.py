"""Earlier answers are about the rows of their time: once the source holds others, nothing is drawn from them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import siloquent
from siloquent.api import Session
from siloquent.cli.app import run
from siloquent.errors import DataError, LedgerError
from siloquent.explore.spec.stored_measurement import OTHER_ROWS, describe_changed
from siloquent.ledger.marks import KEY_BYTES, SourceMark
from siloquent.schema import TableSchema

DECLARATION = """
format = 1
attribute = [
  {{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }},
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" }},
]
[table]
name = "people"
{source}
version = {version}
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{accountant}"
epsilon = "20"
{delta}
"""
ALL = "SELECT COUNT(*) FROM people ERROR 400 CONFIDENCE 0.999999999 REUSE ANY"
YOUNG = "SELECT COUNT(*) FROM people WHERE age < 50 ERROR 900 CONFIDENCE 0.999999999 REUSE ANY"
WARDS = "SELECT ward, COUNT(*) FROM people GROUP BY ward ERROR 150 CONFIDENCE 0.999999999 REUSE ANY"
MEDIAN = "SELECT MEDIAN(age) FROM people ERROR 2000 CONFIDENCE 0.99 REUSE ANY"


def declared(source: str = "", *, version: int = 1, accountant: str = "zcdp") -> str:
    return DECLARATION.format(
        source=f'source = "{source}"' if source else "",
        version=version,
        accountant=accountant,
        delta='delta = "1e-6"' if accountant == "zcdp" else "",
    )


def rows(count: int) -> pa.Table:
    return pa.table({"ward": ["A", "B"] * (count // 2) + ["A"] * (count % 2), "age": [i % 100 for i in range(count)]})


def csv(file: Path, table: pa.Table) -> None:
    lines = [f"{row['ward']},{row['age']}" for row in table.to_pylist()]
    file.write_text("\n".join(["ward,age", *lines, ""]), encoding="utf-8")


def duckdb_file(file: Path, table: pa.Table) -> None:
    import duckdb

    new = file.with_suffix(".new")
    with duckdb.connect(str(new)) as opened:
        opened.register("given", table)
        opened.execute("CREATE TABLE people AS SELECT * FROM given")
    new.replace(file)  # the session has the old one open


FILES: dict[str, tuple[str, Callable[[Path, pa.Table], None]]] = {
    "csv": ("csv:rows.csv", csv),
    "csv-records": ("csv-records:rows.csv", csv),
    "parquet": ("parquet:rows.parquet", lambda file, table: pq.write_table(table, file)),
    "duckdb": ("duckdb:rows.duckdb#people", duckdb_file),
}
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: polars.DataFrame(table),
}


class Place:
    """A workspace whose one table can be given other rows, and another version."""

    def __init__(self, folder: Path, kind: str, *, accountant: str = "zcdp") -> None:
        self.folder, self.kind, self.accountant = folder / "w", kind, accountant
        siloquent.create_workspace(self.folder)
        self.version, self.count = 1, 0
        self.session = siloquent.open(self.folder)

    def hold(self, table: pa.Table, *, version: int = 1) -> Place:
        self.version = version
        if self.kind in FRAMES:
            schema = siloquent.read_schema(declared(version=version, accountant=self.accountant))
            self.session.add_frame(schema, FRAMES[self.kind](table))
            return self
        source, write = FILES[self.kind]
        write(self.folder / source.partition(":")[2].partition("#")[0], table)
        text = declared(source, version=version, accountant=self.accountant)
        (self.folder / "schemas" / "people.toml").write_text(text, encoding="utf-8")
        return self

    def again(self) -> Session:
        """The same workspace, as another process opens it."""
        self.session.close()
        self.session = siloquent.open(self.folder)
        return self.session


KINDS = [*FILES, *FRAMES]


def told(answer: Any) -> list[str]:
    return [note for note in answer.notes if "other rows" in note]


@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_source_is_counted_anew_and_owner_and_answer_are_told(kind: str, tmp_path: Path) -> None:
    """59,762 rows become 14,999 and the version stays: 26,040 was answered for 7,003."""
    place = Place(tmp_path, kind).hold(rows(59_762))
    first = place.session.ask(ALL)
    assert abs(first.rows[0][0] - 59_762) <= 400
    assert place.session.ask(ALL).cost.amount == 0
    place.hold(rows(14_999))
    planned = place.session.explain(ALL)
    assert planned.price == first.cost.amount
    assert told(planned) == [OTHER_ROWS]
    second = place.session.ask(ALL)
    assert abs(second.rows[0][0] - 14_999) <= 400
    assert second.accuracy.label == "fresh"
    newest = first.receipt.seq + 2  # the free repeat was the last answer about the old rows
    assert told(second) == [OTHER_ROWS]
    found = [one for one in place.session.check("people").findings if one.kind == "source_changed"]
    assert [one.is_problem for one in found] == [True]
    assert str(newest) in found[0].sentence
    assert "version" in found[0].fix
    # What is known about the new rows serves the next question, and the old ones are not mixed in.
    third = place.session.ask(YOUNG)
    assert abs(third.rows[0][0] - 7_500) <= 900
    assert first.receipt.seq not in third.accuracy.sources
    assert place.session.verify(place.session.save(second)).ok
    assert place.session.ledger.verify().ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_nobody_has_asked_about_is_checked_as_ever(kind: str, tmp_path: Path) -> None:
    report = Place(tmp_path, kind).hold(rows(40)).session.check("people")
    assert (report.rows, report.is_clean) == (40, True)


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize("question", [ALL, WARDS, YOUNG, MEDIAN])
def test_one_row_more_is_another_source_for_every_kind_of_answer(
    question: str, accountant: str, tmp_path: Path
) -> None:
    place = Place(tmp_path, "csv", accountant=accountant).hold(rows(4_000))
    first = place.session.ask(question)
    assert place.session.ask(question).cost.amount == 0
    place.hold(rows(4_001))
    again = place.session.ask(question)
    assert again.cost.amount == first.cost.amount
    assert not set(again.accuracy.sources)
    assert len(told(again)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_version_is_said_once_and_nothing_more_is_told(kind: str, tmp_path: Path) -> None:
    place = Place(tmp_path, kind).hold(rows(4_000))
    for question in (ALL, MEDIAN):
        place.session.ask(question)
    place.hold(rows(2_000), version=2)
    answers = [place.session.ask(question) for question in (ALL, MEDIAN)]
    assert [told(one) for one in answers] == [[], []]
    assert all(one.cost.amount for one in answers)
    assert not [one for one in place.session.check("people").findings if one.kind == "source_changed"]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["A", "B", "C"]), st.just("raise"), st.just("ask")), min_size=3, max_size=8))
@example(["A", "ask", "B", "ask", "A", "ask", "ask", "B", "ask"])
@example(["A", "ask", "raise", "ask", "B", "ask", "raise", "ask", "A", "ask"])
def test_one_sentence_is_true_in_every_order_of_replacing_returning_and_raising(steps: list[str]) -> None:
    counts, held, version = {"A": 4_000, "B": 2_000, "C": 3_000}, "A", 1
    asked: list[tuple[int, int, str]] = []  # entry, version and rows of each answer
    with TemporaryDirectory() as folder:
        place = Place(Path(folder), "csv").hold(rows(counts[held]))
        for step in [*steps, "ask"]:
            if step != "ask":
                held, version = (held, version + 1) if step == "raise" else (step, version)
                place.hold(rows(counts[held]), version=version)
                continue
            others = [seq for seq, of, about in asked if of == version and about != held]
            found = [one for one in place.session.check("people").findings if one.kind == "source_changed"]
            assert len(found) == bool(others)
            assert all(f"when entry {max(others)} was answered" in one.sentence for one in found)
            assert told(place.session.explain(ALL)) == [OTHER_ROWS] * bool(others)
            answer = place.session.ask(ALL)
            assert told(answer) == [OTHER_ROWS] * bool(others)
            assert abs(answer.rows[0][0] - counts[held]) <= 400
            assert bool(answer.cost.amount) == ((version, held) not in {(of, about) for _, of, about in asked})
            asked.append((answer.receipt.seq, version, held))


def test_answers_of_earlier_revisions_keep_their_words() -> None:
    words = "the source has changed since entry 7, so nothing is drawn from it: declare a new version"
    assert describe_changed(b'{"format":1,"changed":7}') == words
    assert (describe_changed(b'{"format":1}'), describe_changed(b"\xff")) == ("", "")


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_are_one_source_whoever_wrote_them_and_when(kind: str, tmp_path: Path) -> None:
    place = Place(tmp_path, kind).hold(rows(4_000))
    place.session.ask(ALL)
    session = place.again()
    place.hold(rows(4_000))
    if kind in ("csv", "csv-records", "parquet"):
        file = place.folder / FILES[kind][0].partition(":")[2]
        os.utime(file, (1, 1))
    if kind == "duckdb":  # written anew, the bytes of such a file are others: here they stay
        return
    free = session.ask(ALL)
    assert free.cost.amount == 0
    assert told(free) == []


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_what_is_not_declared_does_not_make_another_frame(kind: str, tmp_path: Path) -> None:
    place = Place(tmp_path, kind).hold(rows(4_000))
    place.session.ask(ALL)
    place.hold(rows(4_000).append_column("other", pa.array(range(4_000))))
    assert place.session.ask(ALL).cost.amount == 0


def test_a_stored_answer_replays_by_its_key_whatever_the_source_holds_now(tmp_path: Path) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    first = place.session.ask(ALL, key="monday")
    place.hold(rows(2_000))
    again = place.session.ask(ALL, key="monday")
    assert (again.rows, again.receipt, again.notes) == (first.rows, first.receipt, first.notes)
    (place.folder / "rows.csv").unlink()
    assert place.again().ask(ALL, key="monday").rows == first.rows


def test_where_the_source_is_gone_what_is_known_of_it_stays_known(tmp_path: Path) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    first = place.session.ask(ALL)
    (place.folder / "rows.csv").unlink()
    free = place.again().ask(ALL)
    assert (free.rows, free.cost.amount, told(free)) == (first.rows, 0, [])
    place.hold(rows(2_000))  # and what was answered meanwhile is not taken for an answer about what comes
    second = place.session.ask(ALL)
    assert abs(second.rows[0][0] - 2_000) <= 400
    assert second.cost.amount


def test_answers_of_an_earlier_revision_have_no_marks_and_serve_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    with monkeypatch.context() as earlier:
        earlier.setattr(Session, "compute_table_mark", lambda self, name: "")
        earlier.setattr(SourceMark, "draw_mark", lambda self: "")
        place.session.ask(ALL)
    bodies = [entry.body for entry in place.session.ledger.iter_entries()]
    assert not any("source_mark" in body for body in bodies)
    free = place.again().ask(ALL)
    assert (free.cost.amount, told(free)) == (0, [])
    assert place.session.ledger.verify().ok


# What a mark tells, and to whom


def marks_of(session: Session) -> list[str]:
    return [entry.body["source_mark"] for entry in session.ledger.iter_entries() if "source_mark" in entry.body]


def test_marks_stand_in_the_ledger_and_nowhere_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    answers = [place.session.ask(ALL, key="a"), place.session.ask(WARDS)]
    place.hold(rows(4_001))
    answers.append(place.session.ask(ALL))
    folders = [place.session.save(one) for one in answers]
    marks = marks_of(place.session)
    assert len(marks) == 2 * len(answers)
    seen = "".join(json.dumps(one.to_json()) + str(one) + repr(one) for one in answers)
    seen += "".join(file.read_text(errors="replace") for folder in folders for file in folder.iterdir())
    for words in (["history", "people"], ["check"], ["ask", ALL, "--key", "a", "--yes"], ["ask", "SELECT nonsense"]):
        run(["--workspace", str(place.folder), *words])
    said = capsys.readouterr()
    seen += said.out + said.err
    assert not any(part in seen for mark in marks for part in mark.split(":")[1:])


def test_a_reader_of_the_ledger_cannot_tell_equal_rows_from_others(tmp_path: Path) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    place.session.ask(ALL)
    place.session.ask(WARDS)
    place.hold(rows(4_001))
    place.session.ask(ALL)
    marks = marks_of(place.session)
    assert len({part for mark in marks for part in mark.split(":")[1:]}) == 2 * len(marks)  # nothing occurs twice
    # Nor does the file itself help, guessed right, without the secret.
    digest = place.session.table("people").compute_source_digest()
    for key in (b"", bytes(KEY_BYTES), place.session.ledger.id.encode()):
        assert not any(SourceMark(key, "people@1", digest).fits(mark) for mark in marks)
    secret = (place.folder / "ledger.marks").read_bytes()
    assert [SourceMark(secret, "people@1", digest).fits(mark) for mark in marks] == [False] * 4 + [True] * 2
    assert not any(SourceMark(secret, "other@1", digest).fits(mark) for mark in marks)


def test_the_secret_is_its_owners_and_one_that_is_lost_costs_earlier_answers(tmp_path: Path) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    first = place.session.ask(ALL)
    file = place.folder / "ledger.marks"
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_size) == (0o600, KEY_BYTES)
    file.unlink()
    assert place.again().ask(ALL).cost.amount == first.cost.amount
    assert file.stat().st_size == KEY_BYTES
    file.write_bytes(b"short")
    before = place.session.ledger.read_head().seq
    with pytest.raises(LedgerError, match="not a key") as refused:
        place.again().ask(WARDS)
    assert refused.value.spent == "nothing"
    assert place.session.ledger.read_head().seq == before


def test_an_answer_after_a_crash_is_marked_by_the_rows_that_it_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, "csv").hold(rows(4_000))
    with monkeypatch.context() as crash:
        crash.setattr("siloquent.explore.task.measure_all", _crash)
        with pytest.raises(DataError):
            place.session.ask(ALL, key="k")
    place.hold(rows(2_000))
    late = place.session.ask(ALL, key="k")
    assert abs(late.rows[0][0] - 2_000) <= 400
    assert place.session.ask(ALL).cost.amount == 0  # it is about the rows that are there
    place.hold(rows(4_000))
    back = place.session.ask(ALL)
    assert abs(back.rows[0][0] - 4_000) <= 400
    assert back.cost.amount


def _crash(*_: object) -> None:
    raise DataError(charged=True)


def test_a_source_whose_changes_go_unseen_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SourceMark, "_is_match", lambda self, mark: True)
    with pytest.raises(AssertionError):
        test_a_replaced_source_is_counted_anew_and_owner_and_answer_are_told("csv", tmp_path)


def test_a_file_is_read_once_for_its_mark_and_again_when_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from siloquent.data import digests

    read: list[str] = []
    whole = digests._read
    monkeypatch.setattr(digests, "_read", lambda path: (read.append(path), whole(path))[1])
    place = Place(tmp_path, "csv").hold(rows(4_000))
    for question in (ALL, WARDS, YOUNG, ALL):
        place.session.ask(question)
    place.again().ask(ALL)
    assert len(read) == 1
    place.hold(rows(4_001))
    place.session.ask(ALL)
    assert len(read) == 2


def test_pandas_and_schema_are_what_they_were(tmp_path: Path) -> None:
    """Marking a frame changes nothing in it."""
    frame = pandas.DataFrame({"ward": ["A"] * 50, "age": range(50)})
    before = frame.copy(deep=True)
    schema: TableSchema = siloquent.read_schema(declared())
    place = Place(tmp_path, "pandas")
    place.session.add_frame(schema, frame)
    place.session.ask(ALL)
    pandas.testing.assert_frame_equal(frame, before)
