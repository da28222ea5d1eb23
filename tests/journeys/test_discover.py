"""A steward who cannot list a column's values: discover them, declare them, ask by them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import siloquent
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


def test_a_doubtful_purchase_is_told_before_it_is_made(steward: Person, types: Types) -> None:
    """With --yes nobody is asked: then the warning stands before the result."""
    declared = steward.folder / "schemas" / "visits.toml"
    declared.write_text(declared.read_text().replace("size_hint = 3000", "size_hint = 110"))
    bought = types("discover", "visits", "ward", "--epsilon", "0.5", "--yes")
    assert bought.status == 0, bought.err
    assert "about 110 rows" in bought.err
    assert "at most one" in bought.err
    asked = types("discover", "visits", "age", "--epsilon", "0.001", "--yes")
    assert asked.status != 0
    assert "Nothing would be proposed" in asked.err
    assert "nothing" in asked.err


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


def test_every_fix_is_the_whole_command_of_the_asker(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    asked = ["--keys-each", "1", "--at-least", "20", "--analyst", "ana", "--key", "it's mine", "--max-cost", "0.1"]
    refused = types(*FIND, *asked, "--json")
    assert refused.status == 2
    words = shlex.split(refused.document["fix"])[1:]
    for part in ("--analyst", "ana", "--epsilon", "0.5", "--at-least", "--key", "it's mine", "--max-cost"):
        assert part in words
    assert types(*words, "--json").document["name"] == "visits-ward-2"


def test_what_is_left_of_delta_is_shown_and_a_refusal_says_what_to_write(steward: Person, types: Types) -> None:
    said = types(*FIND, "--yes", "--delta", "4e-7")
    assert said.status == 0
    for command in (("ledger", "show"), ("tables",), ("show", "visits"), (*FIND, "--name", "b", "--explain")):
        assert "delta 1" in types(*command).out, command
    assert types("tables", "--json").document["tables"][0]["delta_left"].startswith("0.0000001")
    refused = types(*FIND, "--name", "b", "--yes", "--delta", "3e-7", "--json")
    assert refused.status == 3
    assert "exceeds what is left" in types(*FIND, "--name", "b", "--explain", "--delta", "3e-7").err
    fix = shlex.split(refused.document["fix"])[1:]
    assert "--delta" in fix
    assert types(*fix).status == 0
    for number in range(9):
        refused = types(*FIND, "--name", f"more{number}", "--yes", "--delta", "9e-8", "--json")
        if refused.status and not types(*shlex.split(refused.document["fix"])[1:]).out:
            break
    assert "owner" not in refused.document["fix"]


def test_an_edited_domain_is_noticed_at_every_place(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    assert "1 as released" in types("doctor").out
    file = steward.folder / "domains" / "visits-ward.toml"
    file.write_text(file.read_text().replace('"icu"', '"icu", "nobody"'))
    for command in (("doctor",), ("ledger", "verify")):
        said = types(*command)
        assert said.status == 1, command
        assert "was edited" in said.out
    document = types("ledger", "verify", "--json").document
    assert list(faults(document, json_schema("verdict"))) == []
    assert (document["ok"], document["domains"][0]["name"]) == (False, "visits-ward")
    file.unlink()
    before = spent(steward)
    again = types(*shlex.split(document["domains"][0]["fix"].partition("then: ")[2])[1:])
    assert again.status == 0, again.err
    assert "nothing was charged" in again.err
    assert spent(steward) == before
    assert types("ledger", "verify").status == 0


def test_names_that_look_like_options_are_asked_about(steward: Person, types: Types) -> None:
    file = steward.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace(TEXT, TEXT.replace('"ward"', '"-v"')))
    refused = types("discover", "visits", "--json", "--delta", "9e-7", "--epsilon", "0.5", "--", "-v")
    fix = shlex.split(refused.document["fix"])[1:]
    assert fix[-3:] == ["--", "visits", "-v"]
    assert types(*fix, "--explain").status == 2  # "--explain" stands behind "--" here
    assert types(fix[0], "--explain", *fix[1:]).status == 0


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


def test_history_lists_discoveries_with_their_prices(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    asked = types("ask", "SELECT COUNT(*) FROM visits ERROR 500", "--yes")
    assert asked.status == 0, asked.err
    first, second = types("history", "visits", "--json").document["questions"]
    assert first["request"] == "DISCOVER ward FROM visits"
    assert float(first["cost"].get("epsilon") or first["cost"]["rho"]) > 0
    assert second["request"].startswith("SELECT COUNT(*)")
    with siloquent.open(steward.folder) as session:
        assert session.list_history("visits")[0].request == first["request"]


def test_a_discovered_domain_is_verified_by_its_name(steward: Person, types: Types) -> None:
    assert types(*FIND, "--yes").status == 0
    verified = types("verify", "visits-ward", "--json")
    assert (verified.status, verified.document["outcome"]) == (0, "verified"), verified
    file = steward.folder / "domains" / "visits-ward.toml"
    file.write_text(file.read_text(encoding="utf-8").replace('"icu"', '"icy"'), encoding="utf-8")
    edited = types("verify", "visits-ward")
    assert edited.status == 1
    assert "was edited: it has 1 more and 1 fewer values" in edited.out
    assert types("verify", "visits-wrd").status != 0
