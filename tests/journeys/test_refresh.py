"""New rows of a table: checked first, taken whole or not at all, and never mixed with answers about earlier ones."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import siloquent
from journeys.clinic import Types
from journeys.test_changed_sources import FILES, FRAMES, Place, rows
from siloquent.errors import LedgerError, NotAllowed, RequestError, SchemaError

ALL = "SELECT COUNT(*) FROM people ERROR 400 CONFIDENCE 0.999999999"
FREE = f"{ALL} REUSE ANY"
UNITS = {"row": '{ kind = "row" }', "user": '{ kind = "user", column = "who", max_rows = 2 }'}


def hold(folder: Path, kind: str, *, unit: str = "row", adjacency: str = "add-remove") -> Place:
    place = Place(folder, kind).hold(with_users(rows(6_000)))
    if kind in FILES:
        file = place.folder / "schemas" / "people.toml"
        text = file.read_text().replace('{ kind = "row" }', UNITS[unit]).replace('"add-remove"', f'"{adjacency}"')
        file.write_text(text.replace("attribute = [", 'attribute = [\n  { name = "who", type = "id" },'))
    return place


def with_users(table: pa.Table) -> pa.Table:
    return table.append_column("who", pa.array([f"p{i // 2}" for i in range(table.num_rows)]))


def write(place: Path, kind: str, table: pa.Table) -> Path:
    """Write rows with the column who as a file of ``kind``."""
    source, make = FILES[kind]
    file = place / f"new.{source.partition(':')[2].partition('#')[0].rpartition('.')[2]}"
    if kind.startswith("csv"):
        lines = [f"{row['ward']},{row['age']},{row['who']}" for row in table.to_pylist()]
        file.write_text("\n".join(["ward,age,who", *lines, ""]), encoding="utf-8")
    else:
        make(file, table)
    return file


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["row", "user"])
@pytest.mark.parametrize("kind", FILES)
def test_answers_about_earlier_rows_are_replayed_but_not_drawn_from(
    tmp_path: Path, kind: str, unit: str, adjacency: str
) -> None:
    place = hold(tmp_path, kind, unit=unit, adjacency=adjacency)
    session = place.session
    source = place.folder / FILES[kind][0].partition(":")[2].partition("#")[0]
    source.unlink()
    write(tmp_path, kind, with_users(rows(6_000))).rename(source)
    first = session.ask(ALL, key="monday")
    assert session.explain(FREE).price == 0
    spent = session.get_account("people").spent

    made = session.refresh("people", write(tmp_path, kind, with_users(rows(9_000))))
    assert (made.check.rows, made.version) == (9_000, 2)
    assert session.get_account("people").spent == spent, "nothing is given back"
    assert session.explain(FREE).price > 0
    again = session.ask(ALL, key="monday")
    assert (again.replayed, again.rows) == (True, first.rows)
    assert session.find_rows_of("people", first.receipt.seq) is None
    later = place.again().ask(ALL, key="tuesday")
    assert abs(int(later.rows[0][0]) - 9_000) < 500
    assert place.session.explain(FREE).price == 0
    found = place.session.find_rows_of("people", later.receipt.seq)
    assert found is not None
    assert (found.count, found.seq) == (1, made.entry)
    assert place.session.ledger.verify().ok


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_replaced_by_a_frame(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path, kind).hold(rows(6_000))
    place.session.ask(ALL)
    assert place.session.refresh("people", FRAMES[kind](rows(9_000))).check.rows == 9_000
    assert abs(int(place.session.ask(ALL).rows[0][0]) - 9_000) < 500
    with pytest.raises(SchemaError, match="no rows"):
        place.session.refresh("people", FRAMES[kind](rows(0)))
    assert abs(int(place.session.ask(f"{ALL} REUSE NONE").rows[0][0]) - 9_000) < 500


BROKEN = {
    "no rows": "ward,age,who\n",
    "a column is missing": "ward,who\nA,p1\n",
    "a line has too many fields": "ward,age,who\nA,1,p1\nA,1,2,p1\n",
    "a number cannot be read": "ward,age,who\nA,old,p1\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_file_that_does_not_fit_replaces_nothing(tmp_path: Path, text: str) -> None:
    place = hold(tmp_path, "csv")
    source = place.folder / "rows.csv"
    write(tmp_path, "csv", with_users(rows(600))).rename(source)
    place.session.ask(ALL)
    before, head = source.read_bytes(), place.session.ledger.read_head()
    file = tmp_path / "broken.csv"
    file.write_text(text)
    with pytest.raises(SchemaError):
        place.session.refresh("people", file)
    assert source.read_bytes() == before
    assert place.session.ledger.read_head() == head
    assert sorted(one.name for one in place.folder.glob(".rows*")) == []


@pytest.mark.parametrize("call", ["copyfile", "fsync"])
def test_a_full_disk_is_called_one_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    place = hold(tmp_path, "parquet")
    before, new = place.session.check("people").rows, write(tmp_path, "parquet", with_users(rows(9_000)))

    def no_room(source: object, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source if call == "copyfile" else None)

    with monkeypatch.context() as patched:
        patched.setattr(shutil if call == "copyfile" else os, call, no_room)
        with pytest.raises(RequestError, match="No space left on device; nothing was replaced"):
            place.session.refresh("people", new)
    assert place.again().check("people").rows == before
    assert not list(place.folder.glob("**/.*people*"))


def test_the_owner_may_take_rows_with_findings_and_nobody_else_refreshes(tmp_path: Path) -> None:
    place = hold(tmp_path, "csv")
    source = place.folder / "rows.csv"
    write(tmp_path, "csv", with_users(rows(600))).rename(source)
    file = tmp_path / "broken.csv"
    file.write_text("ward,age,who\nA,1,p1\nA,1,2,p1\n")
    with siloquent.open(place.folder, analyst="ana") as other, pytest.raises(NotAllowed):
        other.refresh("people", file)
    made = place.session.refresh("people", file, despite_findings=True)
    assert (made.check.rows, made.version, made.entry) == (1, 1, 0), "nothing is charged: nothing to record"


def test_a_source_that_changed_by_itself_is_recorded_as_it_is(tmp_path: Path) -> None:
    place = hold(tmp_path, "csv")
    source = place.folder / "rows.csv"
    write(tmp_path, "csv", with_users(rows(6_000))).rename(source)
    first = place.session.ask(ALL)
    write(tmp_path, "csv", with_users(rows(9_000))).rename(source)
    assert place.session.find_rows_of("people", first.receipt.seq) is None, "known by its mark"
    assert not place.session.check("people").is_clean
    assert place.session.refresh("people").version == 2
    assert place.session.check("people").is_clean, "told once"


def test_a_changed_promise_is_decided_before_rows_are_replaced(tmp_path: Path) -> None:
    place = hold(tmp_path, "csv")
    source = place.folder / "rows.csv"
    write(tmp_path, "csv", with_users(rows(600))).rename(source)
    place.session.ask(ALL)
    file = place.folder / "schemas" / "people.toml"
    file.write_text(file.read_text().replace('"add-remove"', '"replace-one"'))
    before = source.read_bytes()
    with pytest.raises(LedgerError, match="adjacency was add-remove and is replace-one"):
        place.session.refresh("people", write(tmp_path, "csv", with_users(rows(700))))
    assert source.read_bytes() == before


def test_the_command_says_the_version_and_an_old_answer_as_of_when(types: Types, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from journeys.clinic import WARDS
    from journeys.clinic import rows as visits

    assert types("ask", WARDS, "--key", "monday", "--yes").status == 0
    pq.write_table(visits().slice(0, 2_000), tmp_path / "new.parquet")
    done = types("refresh", "visits", str(tmp_path / "new.parquet"), "--json")
    assert (done.document["version"], done.document["rows"]) == (2, 2_000)
    assert "they were replaced since" in types("ask", WARDS, "--key", "monday", "--yes").out
    assert "version 2, since " in types("ask", WARDS, "--key", "tuesday", "--yes").out
    assert types("--analyst", "ana", "refresh", "visits").status == 8
    assert types("refresh", "visits", "nowhere.parquet").status == 2


def test_how_the_source_is_read_is_part_of_what_is_recorded(tmp_path: Path) -> None:
    place = hold(tmp_path, "csv")
    write(tmp_path, "csv", with_users(rows(6_000))).replace(place.folder / "rows.csv")
    place.session.ask(ALL)
    file = place.folder / "schemas" / "people.toml"
    file.write_text(file.read_text() + '\n[reading]\nmissing = ["A"]\n')
    with siloquent.open(place.folder) as session:
        (change,) = session.list_changes("people")
    assert (change.subject, change.effect) == ("how the source is read", "new version")


def test_a_packed_file_without_a_header_line_is_replaced(tmp_path: Path) -> None:
    place = hold(tmp_path, "csv")
    packed = place.folder / "people.csv.gz"
    file = place.folder / "schemas" / "people.toml"
    text = file.read_text().replace("csv:rows.csv", "csv:people.csv.gz")
    file.write_text(text + '\n[reading]\nnames = ["ward", "age", "who"]\n')
    for name in (packed, tmp_path / "next.csv.gz"):
        name.write_bytes(gzip.compress(b"".join(b"A,%d,p%d\n" % (i % 9, i) for i in range(3_000))))
    with siloquent.open(place.folder) as session:
        session.refresh("people", tmp_path / "next.csv.gz")
        assert session.check("people").rows == 3_000


@pytest.mark.parametrize("where", ["file", "source"])
def test_the_fix_of_rows_that_do_not_fit_is_the_call_that_takes_them(tmp_path: Path, where: str) -> None:
    place = hold(tmp_path, "csv")
    file = write(place.folder, "csv", with_users(rows(60)))
    file.write_text(file.read_text() + "A,old,p1\n")
    given = str(file) if where == "file" else None
    if where == "source":
        file.rename(place.folder / "rows.csv")
    with pytest.raises(SchemaError) as refused:
        place.session.refresh("people", given)
    named = f", {given!r}" if given else ""
    assert refused.value.fix.endswith(f"as it is: session.refresh('people'{named}, despite_findings=True)")
    assert place.session.refresh("people", given, despite_findings=True).check.rows == 61
