"""Answers as files: found again, exported without formulas, verified, and never confused with other folders."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from journeys.clinic import WARDS, Person, Types


@pytest.fixture
def answer(types: Types) -> dict[str, Any]:
    """An answer that was released."""
    return types("ask", WARDS, "--yes", "--json").document


def test_an_answer_can_be_found_and_shown_again(types: Types, answer: dict[str, Any]) -> None:
    assert answer["id"] in types("release", "list").out
    shown = types("release", "show", answer["id"]).out
    assert "icu" in shown
    assert "Differential privacy for one row" in shown
    said = types("verify", answer["id"]).out
    assert said == (
        f"{answer['id']} is valid: files, receipt, and every number and promise against what the ledger keeps.\n"
    )


def test_an_answer_that_nobody_keeps_leaves_no_folder(types: Types, owner: Person) -> None:
    assert types("ask", WARDS, "--yes", "--no-save").status == 0
    assert list((owner.folder / "releases").iterdir()) == []
    assert "no releases yet" in types("release", "list").err


def test_a_csv_export_holds_no_formula(types: Types, owner: Person, answer: dict[str, Any]) -> None:
    assert types("release", "export", answer["id"], "-o", "out.csv").status == 0
    with (owner.folder / "out.csv").open(newline="") as file:
        cells = [row["ward"] for row in csv.DictReader(file)]
    assert cells == ["A", "B", "'=1+1", "icu"]


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_an_export_takes_its_format_from_its_name_or_option(
    form: str, types: Types, owner: Person, answer: dict[str, Any]
) -> None:
    assert types("release", "export", answer["id"], "-o", f"out.{form}").status == 0
    assert types("release", "export", answer["id"], "-o", "other", "--format", form).status == 0
    assert (owner.folder / "other").read_bytes() == (owner.folder / f"out.{form}").read_bytes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-o", "out.xls"), "csv, parquet, arrow"),
        (("-o", "siloquent.toml", "--format", "csv"), "already exists"),
        (("-o", "nowhere/out.csv"), "cannot be written"),
    ],
)
def test_an_export_that_cannot_be_is_refused(
    words: tuple[str, ...], reason: str, types: Types, owner: Person, answer: dict[str, Any]
) -> None:
    before = (owner.folder / "siloquent.toml").read_bytes()
    refused = types("release", "export", answer["id"], *words, "--json")
    assert refused.status == 2
    assert reason in refused.document["detail"]
    assert (owner.folder / "siloquent.toml").read_bytes() == before


@pytest.mark.parametrize("release", ["r-999999", "..", "../..", "releases/../..", "/etc", ".hidden"])
def test_what_is_no_release_is_refused(release: str, types: Types, answer: dict[str, Any]) -> None:
    for command in (("release", "show"), ("verify",)):
        refused = types(*command, release, "--json")
        assert refused.status == 2
        assert refused.document["code"] in ("unknown_name", "release_invalid")
        assert refused.document["fix"]


def test_a_near_id_is_offered(types: Types, answer: dict[str, Any]) -> None:
    assert f"Did you mean '{answer['id']}'" in types("release", "show", answer["id"][:-1] + "9").err


def test_values_are_rounded_to_their_noise_unless_all_digits_are_asked_for(types: Types) -> None:
    first = types("ask", WARDS, "--key", "k", "--yes").out
    full = types("ask", WARDS, "--key", "k", "--yes", "--full").out
    exact = types("ask", WARDS, "--key", "k", "--yes", "--json").document["rows"]
    for ward, count, _, _ in exact:
        assert any(ward in line and f"{count:,}" in line for line in full.splitlines())
        assert any(ward in line and f"{round(count, -1):,}" in line for line in first.splitlines())


def rehashed(folder: Path) -> None:
    """Write the hash of what is there now into the manifest, as whoever forges a release would."""
    page = json.loads((folder / "manifest.json").read_text())
    page["files"][0]["sha256"] = hashlib.sha256((folder / "answer.parquet").read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(page))


def test_other_numbers_are_found_even_with_their_own_hash_in_the_manifest(
    types: Types, owner: Person, answer: dict[str, Any]
) -> None:
    folder = owner.folder / "releases" / answer["id"]
    table = pq.read_table(folder / "answer.parquet")
    forged = table.set_column(1, "count", pa.array([9999] * table.num_rows, table["count"].type))
    pq.write_table(forged, folder / "answer.parquet")
    rehashed(folder)
    verdict = types("verify", answer["id"], "--json")
    assert verdict.status == 1
    assert verdict.document["problems"] == ["answer.parquet does not hold what the ledger keeps."]


def leaves(plain: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document."""
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    if not inner:
        yield path
    for key, value in inner:
        yield from leaves(value, *path, key)


@pytest.mark.slow
def test_every_changed_value_of_a_manifest_is_found(types: Types, owner: Person, answer: dict[str, Any]) -> None:
    file = owner.folder / "releases" / answer["id"] / "manifest.json"
    text = file.read_text()
    # Package and rules only say who made it: whatever they say, everything is compared.
    places = [place for place in leaves(json.loads(text)) if place != ("package",) and "rules" not in place]
    assert len(places) > 25
    for *outer, last in places:
        page = inner = json.loads(text)
        for key in outer:
            inner = inner[key]
        inner[last] = 7 if inner[last] != 7 else 8
        file.write_text(json.dumps(page))
        assert types("verify", answer["id"]).status != 0, (*outer, last)
    file.write_text(text)
    assert types("verify", answer["id"]).status == 0


def test_a_release_under_another_name_is_found(types: Types, owner: Person, answer: dict[str, Any]) -> None:
    releases = owner.folder / "releases"
    shutil.copytree(releases / answer["id"], releases / "r-000099")
    verdict = types("verify", "r-000099")
    assert verdict.status == 1
    assert "The folder is named 'r-000099'" in verdict.out
    shutil.copytree(releases / answer["id"], owner.folder / "for the board")
    assert types("verify", str(owner.folder / "for the board")).status == 0


def test_a_release_is_still_what_it_was_when_a_new_epoch_has_begun(
    types: Types, owner: Person, answer: dict[str, Any]
) -> None:
    assert types("epoch", "open", "visits", "--statement", "these are new people").status == 0
    verdict = types("verify", answer["id"])
    assert verdict.status == 0
    assert "is valid" in verdict.out
    assert "key" not in verdict.err


def test_a_changed_declaration_is_said_and_is_no_fault_of_the_release(
    types: Types, owner: Person, answer: dict[str, Any]
) -> None:
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace("size_hint = 3000", "size_hint = 5000"))
    verdict = types("verify", answer["id"])
    assert verdict.status == 0, verdict.out
    assert "is valid as far as it could be checked: only file hashes and the receipt" in verdict.out
    assert "The table's declaration has changed since" in verdict.err
    page = owner.folder / "releases" / answer["id"] / "manifest.json"
    page.write_text(page.read_text().replace('"schema": "sha256:', '"schema": "sha256:00'))
    assert "does not confirm the declaration" in types("verify", answer["id"]).out


@pytest.mark.parametrize(
    "question",
    [
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 260",
        "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 700 ERROR 200",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward BUDGET 0.01 RHO",
    ],
)
def test_answers_of_every_kind_and_drawn_ones_are_compared(question: str, types: Types, answer: dict[str, Any]) -> None:
    later = types("--analyst", "ana", "ask", question, "--yes", "--json").document
    verdict = types("verify", later["id"], "--json")
    assert (verdict.status, verdict.document["compared"], verdict.document["problems"]) == (0, True, [])
