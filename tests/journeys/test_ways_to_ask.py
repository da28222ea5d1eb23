"""The same question by every way in: as text, from a file, from standard input, with a limit on the price."""

from __future__ import annotations

import pytest

from journeys.clinic import WARDS, Person, Types


@pytest.mark.slow
def test_a_question_can_come_from_a_file_or_standard_input(owner: Person) -> None:
    (owner.folder / "question.sql").write_text(f"{WARDS}\n")
    plain = owner.types("explain", WARDS, "--json").document
    assert owner.types("explain", "--file", "question.sql", "--json").document == plain
    assert owner.types("explain", "-", "--json", stdin=WARDS).document == plain


@pytest.mark.parametrize(
    "words",
    [
        ("explain", WARDS),
        ("ask", WARDS, "--explain"),
        ("ask", f"EXPLAIN PRIVACY {WARDS}"),
        ("explain", f"EXPLAIN PRIVACY {WARDS}"),
    ],
    ids=["explain", "ask --explain", "ask EXPLAIN PRIVACY", "explain EXPLAIN PRIVACY"],
)
def test_an_explanation_costs_nothing_and_leads_to_the_answer(
    words: tuple[str, ...], types: Types, owner: Person
) -> None:
    done = types(*words)
    assert done.status == 0
    assert "nothing was spent" in done.out
    assert f"Next: siloquent ask '{WARDS}'" in done.err
    assert owner.spent() == 0


def test_options_may_stand_before_or_behind_the_command(owner: Person, types: Types) -> None:
    before = types("--json", "--analyst", "ana", "explain", WARDS).document
    assert types("explain", WARDS, "--json", "--analyst", "ana").document == before
    assert before["account"] == "visits@1/ana"
    assert types("--analyst", "bo", "explain", WARDS, "--json", "--analyst", "ana").document == before


@pytest.mark.slow
def test_a_workspace_can_be_named_from_anywhere(owner: Person) -> None:
    elsewhere = Person(owner.folder.parent)
    assert elsewhere.types("tables").status == 2
    done = elsewhere.types("--workspace", owner.folder.name, "explain", WARDS)
    assert done.status == 0
    assert f"Next: siloquent --workspace {owner.folder.name} ask" in done.err
    (owner.folder / "data" / "deep").mkdir()
    assert Person(owner.folder / "data" / "deep").types("tables").status == 0


def test_a_limit_on_the_price_is_a_yes_up_to_there(owner: Person, types: Types) -> None:
    price = types("explain", WARDS, "--json").document["cost"]["rho"]
    assert types("ask", WARDS, "--max-cost", price).status == 0
    assert owner.spent() > 0


def test_a_key_is_made_and_the_command_that_repeats_for_free_is_shown(owner: Person, types: Types) -> None:
    import shlex

    first = types("ask", WARDS, "--yes")
    spent = owner.spent()
    again = shlex.split(first.err[first.err.index("siloquent ask") :].strip())
    second = types(*again[1:])
    assert second.out.splitlines()[:8] == first.out.splitlines()[:8]
    assert "nothing: this key was used before" in second.out
    assert owner.spent() == spent


def test_two_analysts_may_use_the_same_key(types: Types) -> None:
    assert types("--analyst", "ana", "ask", WARDS, "--key", "monday", "--yes").status == 0
    wide = WARDS.replace("200", "900")
    assert types("--analyst", "bo", "ask", wide, "--key", "monday", "--yes").status == 0


def test_quiet_leaves_the_answer_alone(types: Types) -> None:
    done = types("ask", WARDS, "--yes", "--quiet")
    assert done.err == ""
    assert "icu" in done.out


def test_a_label_is_never_read_as_markup(types: Types, owner: Person) -> None:
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('"=1+1"', '"[bold red]x[/]"'))
    assert "[bold red]x[/]" in types("ask", WARDS, "--yes").out
    assert "[bold red]x[/]" in types("show", "visits").out


def test_a_key_knows_a_question_whatever_the_case_of_its_attributes(owner: Person, types: Types) -> None:
    first = types("ask", WARDS, "--yes", "--key", "k", "--json").document
    again = types("ask", WARDS.replace("ward", "Ward"), "--yes", "--key", "k", "--json").document
    assert again["replayed"] is True
    assert again["rows"] == first["rows"]
    assert again["columns"] == ["ward", "count", "low", "high"]
