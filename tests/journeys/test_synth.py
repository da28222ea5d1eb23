"""A synthetic table from the command line: plan, run, rows, report, check; killed and gone on; refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.csv
import pytest

from journeys.clinic import Person, Types, rows
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import UnknownName

RUN = ("synth", "run", "visits", "--epsilon", "0.8", "--quality", "fast", "--rows", "400")


def spent(owner: Person) -> int:
    """What the table's account has spent; nothing where it was never opened."""
    try:
        return owner.spent()
    except UnknownName:
        return 0


def test_the_plan_shows_price_and_steps_and_costs_nothing(owner: Person, types: Types) -> None:
    said = types("synth", "plan", *RUN[2:])
    assert said.status == 0
    for words in ("rho 0.0", "more rows are free", "not read; nothing was spent", "single columns"):
        assert words in said.out
    document = types("synth", "plan", *RUN[2:], "--json").document
    assert list(faults(document, json_schema("synth-plan"))) == []
    assert spent(owner) == 0


def test_run_rows_report_check_and_verify(owner: Person, types: Types) -> None:
    made = types(*RUN, "--yes", "--key", "first", "--json")
    assert made.status == 0, made
    assert list(faults(made.document, json_schema("synth"))) == []
    assert made.document["rows"] == 400
    paid = owner.spent()
    release = Path(made.document["release"]).name
    again = types(*RUN, "--yes", "--key", "first", "--json").document
    assert again["receipt"] == made.document["receipt"]
    drawn = types("synth", "rows", release, "--rows", "50", "--where", "ward = 'icu'", "-o", "more.csv", "--json")
    assert list(faults(drawn.document, json_schema("synth-rows"))) == []
    table = pyarrow.csv.read_csv(owner.folder / "more.csv")
    assert (table.num_rows, table.column("ward").unique().to_pylist()) == (50, ["icu"])
    assert "ward" in types("synth", "rows", release, "--rows", "5").out
    report = types("synth", "report", release, "--json").document
    assert list(faults(report, json_schema("synth-report"))) == []
    assert types("synth", "report", release, "-o", "page.html").status == 0
    page = (owner.folder / "page.html").read_text()
    assert page.count("<svg") >= 3
    assert "<script" not in page
    assert "src=" not in page
    assert types("synth", "check", release).status == 0
    assert types("verify", release).status == 0
    assert owner.spent() == paid


def test_a_run_on_a_table_of_unknown_size_warns_before_it_asks_for_the_price(owner: Person, types: Types) -> None:
    table = owner.folder / "schemas" / "visits.toml"
    table.write_text(table.read_text().replace("size_hint = 3000\n", ""))
    refused = types("synth", "run", "visits", "--epsilon", "0.0001")
    assert refused.status == 2
    assert "rows it would be only noise; expect pairs off by about" in refused.err
    assert "rows it would be only noise" in types("synth", "plan", "visits", "--epsilon", "0.0001").err
    assert spent(owner) == 0


def test_a_spec_file_is_a_request(owner: Person, types: Types) -> None:
    (owner.folder / "spec.toml").write_text(
        'table = "visits"\nbudget = { epsilon = "0.5" }\ncolumns = ["age", "ward"]\n'
        'targets = ["ward"]\nquality = "fast"\n'
    )
    document = types("synth", "plan", "spec.toml", "--json").document
    assert document["columns"] == ["age", "ward"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('budgt = { epsilon = "1" }', "A synthesis has no 'budgt'. Did you mean 'budget'?"),
        ('budget = { epsilom = "1" }', "A budget has no 'epsilom'. Did you mean 'epsilon'?"),
        ('budget = { eps = "1" }', "A budget has no 'eps'."),
        ('rows = "many"', "A synthesis needs a budget"),
    ],
)
def test_a_word_that_no_spec_has_is_named_before_what_is_missing(
    owner: Person, types: Types, line: str, says: str
) -> None:
    (owner.folder / "s.toml").write_text(f'table = "visits"\n{line}\n')
    said = types("synth", "plan", "s.toml")
    assert said.status == 2
    assert says in said.err


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("synth", "run", "visits"), 2, "--epsilon 1"),
        ((*RUN, "--targets", "wrad", "--yes"), 2, "Did you mean 'ward'"),
        ((*RUN, "--engine", "magic", "--yes"), 2, "does not exist"),
        ((*RUN, "--rows", "0", "--yes"), 2, "rows must be a whole number"),
        (("synth", "run", "visits", "--epsilon", "0.0001", "--yes"), 4, "nothing could be learned"),
        (("synth", "run", "visits", "--rho", "50", "--yes"), 3, "left"),
        (RUN, 2, "standard input is not a terminal"),
        (("synth", "rows", "nothing"), 2, "does not exist"),
    ],
)
def test_what_cannot_be_done_costs_nothing(
    owner: Person, types: Types, words: tuple[str, ...], status: int, says: str
) -> None:
    said = types(*words)
    assert said.status == status, said
    assert says in said.err
    assert spent(owner) == 0


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("synth", "plan", "visits", "--epsilon", "-1"), "--epsilon 1"),
        (("synth", "plan", "visits", "--epsilon", "1", "--rows", "0"), "--rows 10000"),
        (("synth", "plan", "visits", "--epsilon", "1", "--report", "0.9"), "--report 0.02"),
        (("synth", "plan", "visits", "--epsilon", "1", "--engine", "magic"), "--engine chain"),
        (("synth", "check", "nope.csv", "--table", "visits"), "Fix: name an existing file"),
    ],
)
def test_what_mends_a_command_line_is_an_option_of_it(types: Types, words: tuple[str, ...], fix: str) -> None:
    said = types(*words)
    assert (said.status, fix in said.err) == (2, True), said.err


def test_a_budget_that_is_short_for_a_synthesis_speaks_of_no_error(types: Types) -> None:
    said = types("synth", "run", "visits", "--rho", "50", "--yes")
    assert said.status == 3
    assert "at most; see siloquent ledger show visits" in said.err
    assert "error" not in said.err


def test_a_run_that_was_killed_goes_on_without_paying_twice(owner: Person, types: Types) -> None:
    words = ["--workspace", str(owner.folder), *RUN, "--quality", "best", "--key", "long", "--yes"]
    process = subprocess.Popen([sys.executable, "-m", "siloquent", *words], env={**os.environ, "COLUMNS": "80"})
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None and not list((owner.folder / "runs").rglob("step-00*.npz")):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    paid = owner.spent()
    assert paid > 0
    done = types(*RUN, "--quality", "best", "--key", "long", "--yes", "--json")
    assert done.status == 0, done
    assert owner.spent() == paid
    assert not list((owner.folder / "runs").rglob("*.npz"))


@pytest.mark.slow
def test_an_owner_compares_the_output_with_the_truth_and_nobody_else_does(owner: Person, types: Types) -> None:
    made = types(*RUN, "--targets", "ward", "--yes", "--json").document
    release = Path(made["release"]).name
    before = sorted(file.name for file in Path(made["release"]).iterdir())
    pyarrow.csv.write_csv(rows(), owner.folder / "truth.csv")
    paid = owner.spent()
    said = types("synth", "evaluate", release, "--truth", "truth.csv")
    assert said.status == 0, said
    assert "for the owner only" in said.out + said.err
    document = types("synth", "evaluate", release, "--truth", "truth.csv", "--json").document
    truth = (owner.folder / "truth.csv").read_text()
    (owner.folder / "ragged.csv").write_text(truth + "1,2,3,4,5,6,7,8,9,10,11,12\n")
    ragged = types("synth", "evaluate", release, "--truth", "ragged.csv", "--json")
    assert ragged.document == document
    assert (
        "1 line has a different number of columns" in types("synth", "evaluate", release, "--truth", "ragged.csv").err
    )
    assert list(faults(document, json_schema("synth-evaluation"))) == []
    assert document["private"]
    assert 0 < document["single"]["mean"] < 0.6
    assert [one["target"] for one in document["classifiers"]] == ["ward"] * 3
    assert types("--analyst", "ana", "synth", "evaluate", release, "--truth", "truth.csv").status != 0
    assert types("synth", "evaluate", release, "--truth", "none.csv").status == 2
    assert owner.spent() == paid
    assert sorted(file.name for file in Path(made["release"]).iterdir()) == before


def test_a_chain_is_asked_for_where_the_account_can_pay_for_it(owner: Person, types: Types) -> None:
    said = types("synth", "plan", "visits", "--epsilon", "1", "--engine", "chain", "--preset", "paper")
    assert said.status == 2
    assert "delta_events" in said.err
    assert types("synth", "plan", "visits", "--epsilon", "1", "--engine", "chain", "--preset", "no").status == 2
