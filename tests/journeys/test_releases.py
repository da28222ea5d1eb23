"""Answers as files: found again, exported without formulas, verified, and never confused with other folders."""

from __future__ import annotations

import csv
from typing import Any

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
    assert types("verify", answer["id"]).out == f"{answer['id']} is what it says: files, receipt and declaration fit.\n"


def test_an_answer_that_nobody_keeps_leaves_no_folder(types: Types, owner: Person) -> None:
    assert types("ask", WARDS, "--yes", "--no-save").status == 0
    assert list((owner.folder / "releases").iterdir()) == []
    assert "Nothing was released" in types("release", "list").err


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
        (("-o", "siloquent.toml", "--format", "csv"), "there already"),
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
