"""A steward who cannot list a column's values: discover them, declare them, ask by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journeys.clinic import Person, Types
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import UnknownName

LISTED = '{ name = "ward", type = "category", values = ["A", "B", "=1+1", "icu"], null = "drop" }'
TEXT = '{ name = "ward", type = "text", max_bytes = 100 }'
FIND = ("discover", "visits", "ward", "--epsilon", "0.5")


def spent(owner: Person) -> int:
    try:
        return owner.spent()
    except UnknownName:
        return 0


def declare(owner: Person, ward: str = TEXT) -> None:
    file = owner.folder / "schemas" / "visits.toml"
    text = file.read_text()
    for old in (LISTED, TEXT):
        text = text.replace(old, ward)
    file.write_text(text if "delta_events" in text else text.replace("[budget]", '[budget]\ndelta_events = "5e-7"'))


@pytest.fixture
def steward(owner: Person) -> Person:
    declare(owner)
    return owner


def test_the_price_comes_first_and_costs_nothing(steward: Person, types: Types) -> None:
    said = types(*FIND, "--explain")
    assert said.status == 0
    for words in ("epsilon 0.5", "not read; nothing was spent", "probability 0.95", "domains/visits-ward.toml"):
        assert words in said.out
    document = types(*FIND, "--explain", "--json").document
    assert list(faults(document, json_schema("discovery-plan"))) == []
    assert document["threshold"] < document["sure_from"]
    assert spent(steward) == 0
    refused = types(*FIND)
    assert refused.status != 0
    assert "--yes" in refused.err
    assert spent(steward) == 0


def test_values_are_discovered_declared_and_asked_by(steward: Person, types: Types) -> None:
    found = types(*FIND, "--yes", "--key", "monday")
    assert found.status == 0, found.err
    assert found.out.splitlines() == ["=1+1", "A", "B", "icu"]
    paid = spent(steward)
    again = types(*FIND, "--yes", "--key", "monday", "--json").document
    assert list(faults(again, json_schema("discovery"))) == []
    assert again["keys"] == ["=1+1", "A", "B", "icu"]
    assert spent(steward) == paid
    declare(steward, again["declaration"])
    assert types("check", "visits").status == 0
    table = types("show", "visits", "--json").document
    assert "=1+1" in json.dumps(table)
    asked = types("ask", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300", "--yes", "--json")
    assert asked.status == 0, asked.err
    assert "(other)" in asked.out
    replayed = types(*FIND, "--yes", "--key", "monday", "--json")
    assert replayed.document["keys"] == again["keys"]
    assert types("ledger", "verify").status == 0


def test_a_second_discovery_has_another_name(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    paid = spent(steward)
    refused = types(*FIND, "--yes")
    assert refused.status == 2
    assert "--name visits-ward-2" in refused.err
    assert spent(steward) == paid


def test_bounds_are_proposed_and_nothing_is_written(owner: Person, types: Types) -> None:
    said = types("discover", "visits", "cost", "--epsilon", "0.5", "--yes", "--json").document
    assert list(faults(said, json_schema("discovery"))) == []
    assert 0 <= float(said["lo"]) < 50
    assert 500 < float(said["hi"]) <= 1000
    assert not (owner.folder / "domains").exists()


def test_the_same_as_text(steward: Person, types: Types) -> None:
    text = "DISCOVER ward FROM visits AT LEAST 20 UNITS BUDGET 0.5 EPSILON AS wards"
    assert "not read" in types("ask", text, "--explain").out
    assert "not read" in types("ask", f"EXPLAIN PRIVACY {text}").out
    assert spent(steward) == 0
    found = types("ask", text, "--yes", "--json").document
    assert list(faults(found, json_schema("discovery"))) == []
    assert (found["keys"], found["name"], found["at_least"]) == (["=1+1", "A", "B", "icu"], "wards", 20)
    assert (steward.folder / "domains" / "wards.toml").is_file()
    bounds = types("ask", "DISCOVER BOUNDS OF cost FROM visits BUDGET 0.3 EPSILON", "--yes")
    assert bounds.out.startswith("lo = ")
    wrong = types("ask", "DISCOVER cost FROM visits BUDGET 0.3 EPSILON", "--yes")
    assert wrong.status == 2
    assert "BOUNDS OF cost" in wrong.err


def test_a_backup_holds_what_was_released(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    folder = steward.folder.parent / "backups"
    made = types("backup", str(folder))
    assert made.status == 0, made.err
    assert list(folder.rglob("domains/visits-ward.toml"))


def test_an_account_without_deltas_is_told_what_to_write(owner: Person, types: Types) -> None:
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace(LISTED, TEXT))
    refused = types(*FIND, "--yes")
    assert refused.status == 2
    assert 'delta_events = "0.0000001"' in refused.err
    file.write_text(file.read_text().replace("[budget]", '[budget]\ndelta_events = "0.0000001"'))
    assert types("budget", "set", "visits").status == 0
    assert types(*FIND, "--yes").status == 0


def test_a_domain_that_is_not_there_is_refused_with_the_way_to_it(steward: Person, types: Types) -> None:
    declare(steward, '{ name = "ward", type = "category", values = { released = "wards" }, null = "drop" }')
    refused = types("show", "visits")
    assert refused.status == 2
    assert "siloquent discover" in refused.err
    assert Path("domains").exists() is False
