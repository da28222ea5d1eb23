"""Sharing from the command line: price, release, advice, model, rows, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from journeys.clinic import Done, Person, Types
from journeys.documents import faults
from siloquent.cli.app import run
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import UnknownName
from siloquent.session import create_workspace
from unit.share.tables import TOML, ZCDP, rows

RELEASE = ("share", "release", "patients", "--label", "sick", "--features", "age,dose,ward,smoker", "--epsilon", "8")
SILOS = ("north", "river", "hill")


@pytest.fixture
def silos(tmp_path: Path) -> dict[str, Path]:
    """Three workspaces; hill has few rows."""
    made = {}
    for seed, name in enumerate(SILOS):
        folder = made[name] = tmp_path / name
        workspace = create_workspace(folder)
        (folder / "data").mkdir()
        table = rows(80 if name == "hill" else 3_000, seed=seed)
        pyarrow.parquet.write_table(table, folder / "data" / "patients.parquet")
        budget = ZCDP.replace('rho = "1000"', 'epsilon = "20"')
        text = TOML.format(budget=budget, unit='{ kind = "row" }', adjacency="add-remove", size="", outside="drop")
        text = text.replace('name = "patients"', 'name = "patients"\nsource = "parquet:data/patients.parquet"')
        (workspace.schemas / "patients.toml").write_text(text)
    return made


@pytest.fixture
def at(silos: dict[str, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Types:
    """``siloquent --workspace SILO WORDS`` in this process."""
    monkeypatch.setenv("COLUMNS", "140")

    def typed(silo: str, *words: str) -> Done:
        capfd.readouterr()
        status = run(["--workspace", str(silos[silo]), *words])
        said = capfd.readouterr()
        return Done(status, said.out, said.err)

    return typed


def spent(folder: Path) -> int:
    """What the table's account has spent; nothing where it was never opened."""
    try:
        return Person(folder).spent("patients@1")
    except UnknownName:
        return 0


@pytest.mark.slow
def test_three_clinics_release_ask_and_learn(silos: dict[str, Path], at: Types) -> None:
    priced = at("north", *RELEASE, "--explain")
    assert priced.status == 0
    for words in ("on its own", "not read; nothing was spent", "bins", "equal at every silo"):
        assert words in priced.out
    assert list(faults(at("north", *RELEASE, "--explain", "--json").document, json_schema("share-plan"))) == []
    assert spent(silos["north"]) == 0
    for name in ("north", "river"):
        made = at(name, *RELEASE, "--yes", "--key", "k", "-o", f"{name}.share", "--json")
        assert list(faults(made.document, json_schema("share"))) == []
    paid = spent(silos["north"])
    again = at("north", *RELEASE, "--yes", "--key", "k", "-o", "north.share", "--json")
    assert (again.status, spent(silos["north"])) == (0, paid)
    assert at("north", "verify", again.document["id"]).status == 0
    assert at("north", "release", "show", again.document["id"]).status == 0
    north, river = (str(silos[name] / f"{name}.share") for name in ("north", "river"))
    helped = at("hill", "share", "advise", "patients", north)
    assert helped.status == 0
    assert "it is not a release. Nothing was spent." in helped.out
    told = at("hill", "share", "advise", "patients", north, "--json").document
    assert list(faults(told, json_schema("advice"))) == []
    assert told["recommended"] == told["sentence"].startswith("Yes")
    assert [model["model"] for model in told["models"]] == ["constant", "alone", "shared", "stacked"]
    learnt = at("hill", "share", "learn", "patients", north, river, "-o", "model.npz")
    assert "computed from your exact rows: do not share it" in learnt.out
    given = at("hill", "share", "learn", "patients", north, "--shared-only", "-o", "given.npz", "--json").document
    assert list(faults(given, json_schema("share-model"))) == []
    assert given["holds_own_rows"] is False
    drawn = at("hill", "share", "synthesize", north, "--rows", "50", "-o", "rows.csv", "--json").document
    assert list(faults(drawn, json_schema("share-rows"))) == []
    assert len((silos["hill"] / "rows.csv").read_text().splitlines()) == 51
    assert spent(silos["hill"]) == 0


def test_who_names_no_key_is_told_how_it_is_free_the_second_time(silos: dict[str, Path], at: Types) -> None:
    once = at("north", *RELEASE, "--yes", "-o", "north.share")
    paid = spent(silos["north"])
    assert once.again[:2] == ("--workspace", str(silos["north"]))
    again = at("north", *once.again[2:])
    assert (again.status, spent(silos["north"])) == (0, paid)


def test_a_file_describes_a_release(silos: dict[str, Path], at: Types, tmp_path: Path) -> None:
    path = tmp_path / "ill.toml"
    path.write_text(
        'table = "patients"\nlabel = "sick"\nfeatures = ["age"]\nmethod = "gram"\nbudget = { epsilon = "1" }\n'
    )
    assert at("north", "share", "release", str(path), "--yes").status == 0
    path.write_text('table = "patients"\nlabels = "sick"\n')
    said = at("north", "share", "release", str(path), "--yes")
    assert (said.status, "has no 'labels'" in said.err) == (2, True)


def test_a_release_of_other_bins_is_refused_by_its_name(silos: dict[str, Path], at: Types) -> None:
    assert at("north", *RELEASE, "--yes", "-o", "north.share").status == 0
    assert at("river", *RELEASE[:-1], "4", "--yes", "-o", "river.share").status == 0
    files = [str(silos[name] / f"{name}.share") for name in ("north", "river")]
    said = at("hill", "share", "advise", "patients", *files)
    assert said.status == 2
    assert "The release of river was made under another agreement than that of north" in said.err
    data = bytearray((silos["north"] / "north.share").read_bytes())
    data[len(data) // 2] ^= 255
    (silos["north"] / "bent.share").write_bytes(bytes(data))
    bent = at("hill", "share", "advise", "patients", str(silos["north"] / "bent.share"))
    assert (bent.status, "bent" in bent.err) == (2, True)


REFUSED = {
    "nobody agreed": (RELEASE, "standard input is not a terminal", 2),
    "no label": (("share", "release", "patients", "--epsilon", "1"), "needs a label and features", 2),
    "no price": (RELEASE[:-2], "--epsilon 1", 2),
    "an unknown label": ((*RELEASE[:4], "sik", *RELEASE[5:], "--yes"), "Did you mean 'sick'", 2),
    "an unknown method": ((*RELEASE, "--method", "magic", "--yes"), "method must be one of", 2),
    "too dear": ((*RELEASE, "--max-cost", "0.0001"), "more than the 0.0001 that you allow", 2),
    "more than the budget": ((*RELEASE[:-1], "900", "--yes"), "has", 3),
    "a release that is not there": (("share", "advise", "patients", "r-000009"), "No release named", 2),
    "an ending that nobody writes": (("share", "synthesize", "nowhere", "-o", "rows.xls"), "No release named", 2),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_says_how_to_mend_it_and_costs_nothing(
    silos: dict[str, Path], at: Types, case: tuple[tuple[str, ...], str, int]
) -> None:
    words, said, status = case
    done = at("north", *words)
    assert (done.status, said in done.err) == (status, True), done.err
    assert spent(silos["north"]) == 0
    assert json.loads(at("north", *words, "--json").out)["spent"] == "nothing"
