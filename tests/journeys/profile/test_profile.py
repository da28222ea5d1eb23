"""Profiles from the command line: three clinics' workspaces, a report, a constraint adopted; and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from journeys.clinic import Person
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.demo.profiling import PARTIES
from siloquent.demo.profiling_tables import AT_HOME, EVERYWHERE, SILOS, add_prices
from siloquent.session import create_workspace

RUN = ("profile", "run", "prices.toml", *PARTIES)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """An office with three clinics below it, and the report of one session."""
    folder = tmp_path_factory.mktemp("profile") / "office"
    create_workspace(folder)
    (folder / "data").mkdir()
    add_prices(folder, seed=3)
    done = Person(folder).types(*RUN, "--yes", "--json", "-o", "rules")
    assert done.status == 0, done.err
    return folder, done.document


@pytest.fixture
def office(prepared: tuple[Path, dict[str, Any]]) -> Person:
    return Person(prepared[0])


@pytest.fixture
def report(prepared: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return prepared[1]


@pytest.mark.slow
def test_what_was_built_into_the_tables_is_found_and_nothing_else(report: dict[str, Any]) -> None:
    assert list(faults(report, json_schema("fd-report"))) == []
    assert {(lhs[0], rhs) for lhs, rhs in report["ufd"]} == set(EVERYWHERE)
    assert {(lhs[0], rhs) for lhs, rhs in report["cfd"]} == set(EVERYWHERE) | set(AT_HOME)
    assert report["leakage"]["sets"] <= 25
    assert report["leakage"]["passes"] <= 8
    assert report["canaries"]["failed"] == 0


@pytest.mark.slow
def test_each_clinics_ledger_says_what_was_revealed(office: Person) -> None:
    for silo in SILOS:
        there = Person(office.folder / "silos" / silo)
        kinds = [entry["kind"] for entry in there.types("ledger", "show", "--json").document["entries"]]
        assert kinds == ["open-account", "reserve", "settle"]
        assert there.spent("prices@1") == 0
        assert there.types("ledger", "verify").status == 0


@pytest.mark.slow
def test_a_plan_says_what_would_be_shown_and_touches_nothing(office: Person) -> None:
    document = office.types("profile", "plan", "prices.toml", "--json").document
    assert list(faults(document, json_schema("fd-plan"))) == []
    assert document["data_touched"] is False
    words = office.types("profile", "plan", "prices.toml").out
    assert "last worker" in words
    assert "Not differential privacy" in words
    assert office.types(*RUN, "--explain").out == words


@pytest.mark.slow
def test_a_report_is_shown_and_verified_and_an_edited_one_is_not(
    office: Person, report: dict[str, Any], tmp_path: Path
) -> None:
    assert "within each silo, not over all rows" in office.types("profile", "show", "rules").out
    assert office.types("profile", "verify", "rules").status == 0
    plain = json.loads((office.folder / "releases" / "rules" / "report.json").read_text())
    plain["ufd"] = plain["ufd"][1:]
    (tmp_path / "report.json").write_text(json.dumps(plain))
    done = office.types("profile", "verify", str(tmp_path / "report.json"), "--json")
    assert done.status == 1
    assert list(faults(done.document, json_schema("fd-verdict"))) == []
    assert len(done.document["problems"]) == 3
    shown = office.types("release", "show", "rules", "--json").document
    assert len(shown["rows"]) == len(report["cfd"])
    assert office.types("verify", "rules").status == 0
    assert office.types("release", "list").status == 0
    file = office.folder / "releases" / "rules" / "report.json"
    text = file.read_text()
    file.write_text(text.replace("city", "town"))
    assert "changed after its release" in office.types("profile", "show", "rules").err
    assert office.types("verify", "rules").status == 1
    file.write_text(text)


@pytest.mark.slow
def test_a_rule_of_all_is_adopted_once_and_a_rule_of_the_house_is_refused(office: Person) -> None:
    words = ("profile", "adopt", "rules", "--table", "prices", "--yes")
    done = office.types(*words, "--pick", "supplier -> city", "--json")
    assert list(faults(done.document, json_schema("fd-adopted"))) == []
    assert done.document["changed"] is True
    text = (office.folder / "schemas" / "prices.toml").read_text()
    assert 'source = "profile:f-' in text
    assert office.types(*words, "--pick", "supplier -> city", "--json").document["changed"] is False
    assert (office.folder / "schemas" / "prices.toml").read_text() == text
    assert office.types("show", "prices").status == 0
    refused = office.types(*words, "--pick", "ward -> specialty")
    assert refused.status == 2
    assert "holds in each party, but not over all rows" in refused.err
    assert "is not among those found" in office.types(*words, "--pick", "city -> supplier").err
    assert "is not a dependency" in office.types(*words, "--pick", "city").err


@pytest.mark.slow
def test_an_owner_profiles_the_own_rows_and_an_analyst_may_not(office: Person) -> None:
    document = office.types("profile", "local", "prices", "--max-lhs", "1", "--json").document
    assert list(faults(document, json_schema("fd-local"))) == []
    assert {(lhs[0], rhs) for lhs, rhs in document["dependencies"]} >= set(EVERYWHERE)
    same = office.types("profile", "local", "data/prices.parquet", "--max-lhs", "1", "--json").document
    assert same["dependencies"] == document["dependencies"]
    assert office.types("--analyst", "ana", "profile", "local", "prices").status == 8
    assert "supplier" in office.types("profile", "local", "prices", "--columns", "supplier,city").out


def test_public_rows_are_profiled_by_all_roles_in_memory(office: Person) -> None:
    rng = np.random.default_rng(2)
    item = rng.integers(0, 20, 120)
    table = pyarrow.table({"item": item, "kind": item % 4, "price": rng.integers(0, 9, 120)})
    pyarrow.parquet.write_table(table, office.folder / "data" / "public.parquet")
    (office.folder / "public.toml").write_text('table = "public"\ncolumns = ["item", "kind", "price"]\n')
    words = ("profile", "simulate", "public.toml", "--data", "data/public.parquet", "--split", "3", "--workers", "2")
    document = office.types(*words, "--json").document
    assert list(faults(document, json_schema("fd-report"))) == []
    assert document["ufd"] == [[["item"], "kind"]]


@pytest.mark.parametrize("words", [("--resume", "abc"), ("--without", "north")])
def test_what_is_about_a_federation_asks_for_its_bundle(office: Person, words: tuple[str, ...]) -> None:
    refused = office.types(*RUN, *words, "--yes")
    assert (refused.status, "--bundle DIR" in refused.err) == (2, True)


@pytest.mark.slow
def test_nothing_is_revealed_without_a_yes(office: Person) -> None:
    refused = office.types(*RUN)
    assert refused.status == 2
    assert "standard input is not a terminal" in refused.err
    assert office.types("profile", "run", "prices.toml", "--party", "north=silos/north", "--yes").status == 2
    assert office.types("profile", "run", "prices.toml", "--party", "North", "--yes").status == 2


def test_a_clinic_whose_account_records_no_disclosures_declines(office: Person, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    create_workspace(closed)
    (closed / "data").mkdir()
    (closed / "data" / "prices.parquet").write_bytes((office.folder / "data" / "prices.parquet").read_bytes())
    text = (office.folder / "silos" / "river" / "schemas" / "prices.toml").read_text()
    (closed / "schemas" / "prices.toml").write_text(
        "\n".join(line for line in text.splitlines() if not line.startswith("disclosures"))
    )
    done = office.types(
        "profile", "run", "prices.toml", "--party", "north=silos/north", "--party", f"shut={closed}", "--yes"
    )
    assert done.status == 6
    assert "policy_refused" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('table = "prices"\ncolumns = ["item"]\n', "2 to 16 distinct columns"),
        ('table = "prices"\ncolumns = ["item", "vat"]\ncolour = 1\n', "no 'colour'"),
        ('table = "prices"\ncolumns = ["item", "vat"]\nprotocol = "plain"\n', "padded, fast, smfd"),
        ('table = "prices"\ncolumns = ["item", "vat"]\nmin_rows = 1\n', "at least 2"),
        ('table = "prices"\ncolumns = ["item", "vat"]\nmax_lhs = 0\n', "max_lhs must be between 1"),
        ('table = "prices"\ncolumns = "item"\n', "columns is a list"),
        ('table = "prices"\ncolumns = ["item", "colour"]\n', "Did you mean|No attribute"),
    ],
)
def test_a_spec_that_cannot_be_run_is_refused_with_the_reason(
    office: Person, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "spec.toml").write_text(text)
    refused = office.types("profile", "plan", str(tmp_path / "spec.toml"))
    assert refused.status == 2
    assert any(word in refused.err for word in words.split("|"))
