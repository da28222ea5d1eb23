"""The owner's money: limits, epochs, checkpoints, and what a cut tail looks like."""

from __future__ import annotations

import shutil

import pytest

from journeys.clinic import WARDS, Person, Types


def test_a_larger_budget_counts_once_the_owner_says_so(owner: Person, types: Types) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('epsilon = "1"', 'epsilon = "2"'))
    refused = types("ask", WARDS, "--yes", "--json")
    assert (refused.status, refused.document["code"]) == (7, "ledger")
    assert "siloquent budget set visits" in refused.document["fix"]
    assert types("budget", "set", "visits").out.startswith("visits@1 had the limit")
    assert types("ask", WARDS, "--yes").status == 0
    kinds = [entry["kind"] for entry in types("ledger", "show", "--json").document["entries"]]
    assert "set-limit" in kinds


def test_a_limit_never_falls_below_what_is_spent(owner: Person, types: Types) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('epsilon = "1"', 'epsilon = "0.0001"'))
    refused = types("budget", "set", "visits", "--json")
    assert refused.status == 2
    assert "already spent" in refused.document["detail"]


def test_a_new_epoch_needs_the_sentence_and_keeps_the_rest_of_the_file(owner: Person, types: Types) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text() + "# the end\n")
    before = file.read_text()
    spent = owner.spent()

    refused = types("epoch", "open", "visits", "--statement", "whatever", "--json")
    assert refused.status == 2
    assert refused.document["fix"].endswith("--statement 'the budgets add up'")
    assert file.read_text() == before

    opened = types("epoch", "open", "visits", "--statement", "these are new people", "--json").document
    assert (opened["name"], opened["spent"]) == ("visits@2", "0")
    assert file.read_text() == before.replace("[budget]", "[budget]\nepoch = 2")
    assert types("ask", WARDS, "--yes").status == 0
    assert (owner.spent("visits@1"), owner.spent("visits@2")) == (spent, spent)

    assert types("epoch", "open", "visits", "--statement", "These are new people.").status == 0
    assert "epoch = 3" in file.read_text()
    assert "epoch = 2" not in file.read_text()
    assert types("ledger", "verify").status == 0


def test_an_epoch_that_the_file_does_not_name_yet_can_be_finished(owner: Person, types: Types) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    file = owner.folder / "schemas" / "visits.toml"
    before = file.read_text()
    assert types("epoch", "open", "visits", "--statement", "these are new people").status == 0
    file.write_text(before)  # as if the machine had stopped between ledger and file
    assert types("ask", WARDS, "--yes").status != 0
    assert types("epoch", "open", "visits", "--statement", "these are new people").status == 0
    assert types("ask", WARDS, "--yes").status == 0
    assert owner.spent("visits@2") > 0


def test_a_cut_tail_shows_against_a_checkpoint_that_was_kept_elsewhere(owner: Person, types: Types) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    shutil.copytree(owner.folder, owner.folder.parent / "old")
    assert types("ask", WARDS, "--yes").status == 0
    kept = owner.folder.parent / "checkpoint.json"
    assert types("ledger", "checkpoint", "-o", str(kept)).status == 0
    assert types("ledger", "verify", "--checkpoint", str(kept)).status == 0

    old = Person(owner.folder.parent / "old")
    assert old.types("ledger", "verify").status == 0
    cut = old.types("ledger", "verify", "--checkpoint", str(kept), "--json")
    assert (cut.status, cut.document["ok"]) == (1, False)


def test_a_checkpoint_never_replaces_another(owner: Person, types: Types) -> None:
    kept = owner.folder / "checkpoint.json"
    assert types("ledger", "checkpoint", "-o", str(kept)).status == 0
    before, head = kept.read_text(), owner.head()
    refused = types("ledger", "checkpoint", "-o", str(kept), "--json")
    assert refused.status == 2
    assert kept.read_text() == before
    assert owner.head() == head


def test_a_backup_restored_without_its_head_is_used_only_after_the_owner_vouches_for_it(
    owner: Person, types: Types
) -> None:
    assert types("ask", WARDS, "--yes").status == 0
    (owner.folder / "ledger.head").unlink()
    refused = types("ask", WARDS, "--yes", "--json")
    assert (refused.status, refused.document["code"]) == (7, "ledger_rolled_back")
    assert types("ledger", "adopt", "--json").document["code"] == "request_invalid"
    assert types("--analyst", "ana", "ledger", "adopt").status == 8
    assert types("ledger", "adopt", "--statement", "This is the newest copy.").status == 0
    assert types("ask", WARDS, "--yes").status == 0
    assert types("ledger", "adopt", "--statement", "this is the newest copy").status == 7


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2}', "\x00\x01"])
def test_what_is_no_checkpoint_is_refused(text: str, owner: Person, types: Types) -> None:
    (owner.folder / "fake.json").write_text(text)
    refused = types("ledger", "verify", "--checkpoint", "fake.json", "--json")
    assert refused.status == 7
    assert "checkpoint" in refused.document["fix"]


def test_a_checkpoint_that_is_not_there_is_a_plain_refusal(types: Types) -> None:
    assert types("ledger", "verify", "--checkpoint", "nowhere.json", "--json").status == 2


def test_an_analyst_sees_their_own_account_alone(types: Types) -> None:
    assert types("--analyst", "ana", "ask", WARDS, "--yes").status == 0
    types("--analyst", "bo", "ask", WARDS, "--yes")
    seen = types("--analyst", "bo", "ledger", "show", "--json").document
    assert [account["name"] for account in seen["accounts"]] == ["visits@1/bo"]
    assert {entry["account"] for entry in seen["entries"]} == {"visits@1/bo"}
    whole = types("ledger", "show", "visits", "--last", "2", "--json").document
    assert len(whole["entries"]) == 2
    assert [account["name"] for account in whole["accounts"]] == ["visits@1", "visits@1/ana", "visits@1/bo"]


def test_the_shown_price_is_what_the_ledger_charges_however_little_that_is(types: Types, owner: Person) -> None:
    question = "SELECT COUNT(*) FROM visits ERROR 1000000000"
    shown = types("explain", question, "--json").document
    answer = types("ask", question, "--yes", "--json").document
    assert owner.spent() == 1
    assert shown["cost"]["rho"] == answer["cost"]["rho"] == "0.000000000001"
    assert {one["max_cost"] for one in shown["candidates"]} == {"0.000000000001"}
