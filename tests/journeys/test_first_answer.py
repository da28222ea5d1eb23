"""From nothing to an answer, its free repeat, a refusal and a verified ledger, on every kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from journeys.clinic import SOURCES, TOML, WARDS, Person, Types, write_source
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema

TRUTH = {"A": 1200, "B": 900, "=1+1": 600, "icu": 300}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_a_person_gets_from_nothing_to_a_verified_ledger(tmp_path: Path, kind: str) -> None:
    outside = Person(tmp_path)
    made = outside.types("init", "clinic")
    assert (made.status, made.out) == (0, "Created a workspace in clinic.\n")
    assert "siloquent --workspace clinic check" in made.err

    folder = tmp_path / "clinic"
    (folder / "schemas" / "visits.toml").write_text(TOML.replace("SOURCE", write_source(folder, kind)))
    person = Person(folder)
    assert person.types("check").status == 0

    before = person.head()
    priced = person.types("--analyst", "ana", "explain", WARDS, "--json").document
    assert priced["promise"].startswith("No value is more than 200 rows off")
    assert person.types("--analyst", "ana", "explain", WARDS).status == 0

    asked = person.types("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes", "--json").document
    assert [row[0] for row in asked["rows"]] == ["A", "B", "=1+1", "icu"]
    assert asked["cost"]["rho"] == priced["cost"]["rho"]
    # 200 rows with probability 0.99 each time; at 2,000 the test itself fails once in e^-100 runs.
    assert all(abs(count - TRUTH[ward]) < 2_000 for ward, count, _, _ in asked["rows"])
    assert person.head() != before

    head = person.head()
    again = person.types("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes", "--json").document
    assert again == {**asked, "replayed": True}
    assert person.head() == head

    refused = person.types("--analyst", "bo", "ask", f"{WARDS} REUSE NONE", "--yes")
    assert refused.status == 3
    assert "[budget_exceeded]" in refused.err
    assert "Fix: siloquent --analyst bo ask 'SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR" in refused.err
    assert "Spent: nothing." in refused.err
    assert refused.out == ""

    verified = person.types("ledger", "verify")
    assert verified.status == 0
    assert "none was altered" in verified.out


@pytest.mark.slow
def test_the_fix_of_a_refusal_can_be_pasted_and_fits(owner: Person) -> None:
    import shlex

    refused = owner.types("--analyst", "bo", "ask", WARDS, "--yes", "--json")
    fix = shlex.split(refused.document["fix"])
    assert fix[0] == "siloquent"
    assert owner.types(*fix[1:], "--yes").status == 0


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("tables",), "table-list"),
        (("show", "visits"), "table"),
        (("explain", WARDS), "explanation"),
        (("ask", WARDS, "--yes"), "answer"),
        (("ask", "SELECT age, ward FROM visits GROUP BY age, ward HAVING COUNT(*) > 90 ERROR 80", "--yes"), "answer"),
        (("ask", "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 90000", "--yes"), "answer"),
        (("check",), "check"),
        (("ledger", "show"), "ledger"),
        (("ledger", "verify"), "verdict"),
        (("ledger", "checkpoint", "-o", "checkpoint.json"), "checkpoint"),
        (("budget", "set", "visits"), "account"),
        (("epoch", "open", "visits", "--statement", "these are new people"), "account"),
        (("release", "list"), "release-list"),
        (("doctor",), "doctor"),
        (("draft", "data/visits.parquet", "--public"), "draft"),
        (
            ("declare", "data/visits.parquet", "--name", "v", "--column", "rest = skip", "--accept", "--max-rows", "4"),
            "declaration",
        ),
        (("init", "other"), "workspace"),
        (("show", "vists"), "problem"),
        (("shwo", "visits"), "problem"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
)
def test_json_is_one_document_of_the_promised_kind(types: Types, words: tuple[str, ...], kind: str) -> None:
    if words[0] == "epoch":  # only what was charged once has a next epoch
        assert types("ask", WARDS, "--yes").status == 0
    done = types(*words, "--json")
    assert list(faults(done.document, json_schema(kind))) == []


def test_json_of_releases(types: Types) -> None:
    asked = types("ask", WARDS, "--yes", "--json").document
    for words, kind in (
        (("release", "show", asked["id"]), "release"),
        (("release", "list"), "release-list"),
        (("verify", asked["id"]), "release-verdict"),
        (("release", "export", asked["id"], "-o", "out.csv"), "export"),
    ):
        done = types(*words, "--json")
        assert list(faults(done.document, json_schema(kind))) == [], words
    shown = types("release", "show", asked["id"], "--json").document
    assert [row[:2] for row in shown["rows"]] == [row[:2] for row in asked["rows"]]
