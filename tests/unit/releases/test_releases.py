"""Releases are written whole, read without running anything, and verified against hashes and ledger."""

from __future__ import annotations

import dataclasses
import json
import pickle
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from siloquent.errors import ReleaseError, UnknownName
from siloquent.ledger import Ledger, MemoryLedger
from siloquent.privacy import Cost, DiscreteLaplace, Guarantee
from siloquent.releases import (
    FORMATS,
    Manifest,
    get_release_folder,
    guarantee_to_dict,
    list_releases,
    read_manifest,
    read_release,
    verify_release,
    write_release,
    write_table,
)

TABLE = pa.table({"ward": ["A", "=cmd|' /C calc'!A0", None], "count": [3, -1, 7]})


def paid(ledger: Ledger) -> dict[str, object]:
    ledger.open_account("t@1", accountant="pure", unit="row", adjacency="add-remove", limit=Cost(10**9))
    permit = ledger.reserve("t@1", DiscreteLaplace(Fraction(10), 1), key=None, digest="d")
    stored = ledger.settle(permit, permit.event, b"{}")
    return dataclasses.asdict(stored.receipt)


def manifest(receipt: dict[str, object], *, name: str = "r-000003") -> Manifest:
    guarantee = Guarantee("pure", "one row", "add-remove", "t@1", Fraction(0), Fraction(1, 10), epsilon=Fraction(1, 10))
    return Manifest(
        id=name,
        task="explore",
        package="siloquent 0.1.0",
        table="t",
        schema="sha256:ab",
        request={"query": "SELECT .."},
        guarantee=guarantee_to_dict(guarantee),
        accuracy={"alpha": "3"},
        receipt=receipt,
        files=(),
    )


@pytest.fixture
def ledger() -> Ledger:
    return MemoryLedger()


@pytest.fixture
def folder(tmp_path: Path, ledger: Ledger) -> Path:
    return write_release(tmp_path / "releases", manifest(paid(ledger)), TABLE, grid={"count": "1"})


def test_a_release_reads_back_as_it_was_written(folder: Path, ledger: Ledger) -> None:
    assert read_release(folder).equals(TABLE)
    page = read_manifest(folder)
    assert (page.id, page.files[0].rows, page.files[0].columns) == ("r-000003", 3, ("ward", "count"))
    assert "added or removed" in page.guarantee["sentence"]
    assert verify_release(folder, ledger, schema="ab").ok
    assert list_releases(folder.parent) == ["r-000003"]
    assert get_release_folder(folder.parent, "r-000003") == folder


def test_writing_the_same_release_again_changes_nothing_and_another_one_is_refused(folder: Path) -> None:
    page = read_manifest(folder)
    again = dataclasses.replace(page, files=())
    before = (folder / "answer.parquet").stat().st_mtime_ns
    assert write_release(folder.parent, again, TABLE, grid={}) == folder
    assert (folder / "answer.parquet").stat().st_mtime_ns == before
    with pytest.raises(ReleaseError):
        write_release(folder.parent, dataclasses.replace(again, receipt={"seq": 9}), TABLE, grid={})


def test_a_changed_or_missing_file_is_found(folder: Path, ledger: Ledger) -> None:
    file = folder / "answer.parquet"
    file.write_bytes(file.read_bytes() + b"x")
    assert "changed" in verify_release(folder, ledger).problems[0]
    with pytest.raises(ReleaseError):
        read_release(folder)
    file.unlink()
    assert "missing" in verify_release(folder, ledger).problems[0]


def test_a_receipt_of_another_ledger_or_place_is_found(folder: Path, ledger: Ledger) -> None:
    assert "another ledger" in verify_release(folder, MemoryLedger()).problems[0]
    path = folder / "manifest.json"
    plain = json.loads(path.read_text())
    for seq in (1, 99, 0, "2"):
        plain["receipt"]["seq"] = seq
        path.write_text(json.dumps(plain))
        assert not verify_release(folder, ledger).ok


def test_a_receipt_does_not_hide_behind_a_good_one(folder: Path, ledger: Ledger) -> None:
    path = folder / "manifest.json"
    plain = json.loads(path.read_text())
    good = dict(plain["receipt"])
    plain["receipt"] = {**good, "all": [good]}
    path.write_text(json.dumps(plain))
    assert verify_release(folder, ledger).ok
    for changed in ({"seq": 99}, {"hash": "00" * 32}, {"ledger": "ff" * 16}):
        plain["receipt"] = {**good, **changed, "all": [good]}
        path.write_text(json.dumps(plain))
        assert verify_release(folder, ledger).problems == ("Its receipt is not the first of those that it holds.",)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"format": 2}', '{"format": 1}', '{"format": 1, "files": [], "known": [], "odd": 1}', "[" * 10**5],
)
def test_a_broken_or_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ReleaseError):
        read_manifest(tmp_path)


def test_a_file_name_that_leaves_the_folder_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    for name in ("../../etc/passwd", "/etc/passwd", ".hidden"):
        plain = json.loads(path.read_text())
        plain["files"][0]["name"] = name
        path.write_text(json.dumps(plain))
        assert "plain file name" in verify_release(folder).problems[0]


def test_a_pickle_is_not_run(folder: Path, tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (tmp_path / "ran",)

    (folder / "answer.parquet").write_bytes(pickle.dumps(Runs()))
    with pytest.raises(ReleaseError):
        read_release(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_can_be_written(tmp_path: Path, form: str) -> None:
    write_table(tmp_path / "t", TABLE, form)
    assert (tmp_path / "t").stat().st_size > 0


def test_csv_cells_that_a_spreadsheet_would_run_are_quoted(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", TABLE, "csv")
    assert "\"'=cmd" in (tmp_path / "t.csv").read_text()


def test_another_format_and_an_unknown_release_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError):
        write_table(tmp_path / "t", TABLE, "xlsx")
    with pytest.raises(UnknownName):
        get_release_folder(tmp_path, "r-1")


def test_a_release_that_cannot_be_written_leaves_nothing(tmp_path: Path, ledger: Ledger) -> None:
    page = manifest(paid(ledger))
    with pytest.raises(ReleaseError):
        write_release(tmp_path, page, TABLE, grid={}, name="answer.xlsx")
    assert list_releases(tmp_path) == []
