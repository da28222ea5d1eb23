"""The demo tells its story to the end, through the real ledger, and what it suggests next works."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from journeys.clinic import Done, Person
from siloquent.demo import DEMO_MARK, story


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Person, Done]:
    """The demo, run once in a folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    return Person(folder / "demo-clinic"), Person(folder).types("demo")


@pytest.mark.slow
def test_every_step_shows_its_command_and_the_story_ends_well(told: tuple[Person, Done]) -> None:
    _, done = told
    assert done.status == 0
    at = 0
    for step in story(roles_in=Path("demo-clinic")):
        line = shlex.join(["siloquent", "--workspace", "demo-clinic", *step.command])
        at = done.out.index(f"$ {line}\n", at) + 1
    assert "what to type next" in done.out[at:]


@pytest.mark.slow
def test_prices_answers_receipts_refusals_and_the_ledger_are_shown(told: tuple[Person, Done]) -> None:
    _, done = told
    for words in (
        "No value is more than 200 rows off, with probability 0.99.",
        "not read; nothing was spent",
        "nothing: this key was used before",
        "Differential privacy for all rows of one patient (at most 6 count)",
        "Verified 12 entries: none was altered.",
    ):
        assert words in done.out
    for words in ("Did you mean 'ward'", "[budget_exceeded]", "of what is left */", "Spent: nothing."):
        assert words in done.err


def test_the_answers_are_near_the_truth_of_the_generated_rows(told: tuple[Person, Done]) -> None:
    person, _ = told
    visits = pyarrow.parquet.read_table(person.folder / "data" / "visits.parquet")
    # At most six visits of a patient count, so a ward's count lies between its first six and all of its rows.
    truth = Counter(visits["ward"].to_pylist())
    left_out = sum(max(0, rows - 6) for rows in Counter(visits["patient"].to_pylist()).values())
    answer = person.types("release", "show", "r-000004", "--json").document
    assert len(answer["rows"]) == 8
    # The promise is 200 rows with probability 0.99; beyond 600 lies less than one run in 10^18.
    for ward, count, low, high in answer["rows"]:
        assert (low, high) == (count - 200, count + 200)
        assert truth[ward] - left_out - 600 < count < truth[ward] + 600


@pytest.mark.slow
def test_what_it_suggests_next_works(told: tuple[Person, Done]) -> None:
    person, done = told
    lines = done.out[done.out.index("what to type next") :].splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("  siloquent ")]
    assert len(commands) == 5
    for words in commands:
        if "ask" in words:
            words.append("--yes")
        assert person.types(*words[1:]).status == 0, words
    assert person.types("ledger", "verify", "--checkpoint", "../checkpoint.json").status == 0


@pytest.mark.slow
def test_the_quick_demo_is_the_first_answer_alone(tmp_path: Path) -> None:
    done = Person(tmp_path).types("demo", "--quick", "--folder", "mine")
    assert done.status == 0
    assert done.out.count("$ siloquent") == 4
    assert (tmp_path / "mine" / DEMO_MARK).is_file()


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("precious")
    done = Person(tmp_path).types("demo", "--folder", "mine")
    assert done.status == 2
    assert "is not a demo" in done.err
    assert "Fix: siloquent demo --folder" in done.err
    assert (tmp_path / "mine" / "diary.txt").read_text() == "precious"


def test_the_demo_is_no_document(tmp_path: Path) -> None:
    done = Person(tmp_path).types("demo", "--json")
    assert (done.status, done.document["code"]) == (2, "request_invalid")
