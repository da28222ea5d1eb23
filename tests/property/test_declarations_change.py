"""A declaration changes after a charge: each change has a class, and the fix of a refusal works when it is pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import TOML, write_source
from siloquent.api import Session
from siloquent.cli.app import run
from siloquent.errors import LedgerError, SiloquentError
from siloquent.ledger import open_ledger
from siloquent.schema.changes import ChangeClass
from siloquent.session import create_workspace

QUESTION = "SELECT COUNT(*) FROM visits ERROR 300"
FINE = "SELECT COUNT(*) FROM visits ERROR 250"
USER = ('unit = { kind = "row" }', 'unit = { kind = "user", column = "patient", max_rows = 2 }')
EDITS: list[tuple[str, str, ChangeClass]] = [
    ("width = 20", "width = 10", "free"),
    ("size_hint = 3000", "size_hint = 4000", "free"),
    ('delta = "1e-6"', 'delta = "1e-6"\nreuse = "any"', "free"),
    ("hi = 1000", "hi = 2000", "free"),
    ('  { name = "note", type = "text", max_bytes = 100 },\n', "", "free"),
    ("data/visits.parquet", "data/./visits.parquet", "new version"),
    ('name = "visits"', 'name = "visits"\nversion = 2', "new version"),
    ('epsilon = "1"', 'epsilon = "2"', "budget"),
    ('bo = "0.001"', 'bo = "0.5"', "budget"),
    (*USER, "new epoch"),
    ('adjacency = "add-remove"', 'adjacency = "replace-one"', "new epoch"),
    ('accountant = "zcdp"\nepsilon = "1"\ndelta = "1e-6"', 'accountant = "pure"\nepsilon = "1"', "new epoch"),
    ("[budget]", "[budget]\nepoch = 2", "new epoch"),
    ("[budget]", "[budget]\nepoch = 7", "new epoch"),
]


def clinic(place: str, text: str = TOML) -> Path:
    workspace = create_workspace(Path(place) / "clinic")
    source = write_source(workspace.folder, "parquet")
    (workspace.schemas / "visits.toml").write_text(text.replace("SOURCE", source))
    return workspace.folder


def edit(folder: Path, *edits: tuple[str, str, ChangeClass]) -> set[ChangeClass]:
    """Make the edits that fit the file; return their classes."""
    file = folder / "schemas" / "visits.toml"
    text, made = file.read_text(), set[ChangeClass]()
    for before, after, kind in edits:
        made |= {kind} if before in text else set()
        text = text.replace(before, after, 1)
    file.write_text(text)
    return made


def ask(folder: Path, question: str = FINE) -> object:
    with siloquent.open(folder) as session:
        return session.ask(question)


def paste_fix(folder: Path, refused: SiloquentError) -> None:
    """Type the command that the refusal proposes, as its text shows it."""
    command = re.search(r"siloquent (?:budget|epoch) .*", refused.fix)
    line = command[0] if command else f"siloquent budget set {refused.fix.partition('set_budget(')[2][1:7]}"
    assert run(("--workspace", str(folder), *shlex.split(line)[1:])) == 0, line


@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(edits=st.lists(st.sampled_from(EDITS), min_size=1, max_size=4, unique_by=lambda one: one[0]))
@example(edits=[EDITS[9], EDITS[10]])
@example(edits=[EDITS[11], EDITS[12]])
@example(edits=[EDITS[7], EDITS[9]])
def test_a_refusal_names_the_change_and_its_fix_works_when_pasted(edits: list[tuple[str, str, ChangeClass]]) -> None:
    with TemporaryDirectory() as place:
        folder = clinic(place)
        ask(folder, QUESTION)
        with siloquent.open(folder) as session:
            spent = session.get_account("visits").spent
            assert session.list_changes("visits") == ()
        made = edit(folder, *edits)
        with siloquent.open(folder) as session:
            effects = {one.effect for one in session.list_changes("visits")}
        assert made - {"free"} <= effects, "of a user's rows, another column is a new version"
        fixed = 0
        for _ in range(3):
            try:
                ask(folder)
            except LedgerError as refused:
                paste_fix(folder, refused)
                fixed += 1
                continue
            break
        else:
            raise AssertionError("still refused")
        assert not fixed or effects & {"budget", "new epoch"}
        assert fixed or "new epoch" not in effects
        with siloquent.open(folder) as session:
            assert session.list_changes("visits") == ()
            assert session.ledger.get_account("visits@1").spent.amount >= spent.amount, "nothing is given back"
            assert session.ledger.verify().ok


@pytest.mark.parametrize("change", EDITS, ids=lambda one: one[1][:40])
def test_while_nothing_is_charged_everything_is_free(tmp_path: Path, change: tuple[str, str, ChangeClass]) -> None:
    folder = clinic(str(tmp_path))
    with siloquent.open(folder) as session:
        session.explain(QUESTION)
        session.check("visits")
        edit(folder, change)
        assert session.list_changes("visits") == ()
        assert session.check("visits").is_clean
        assert session.ask(FINE).cost.amount > 0


def test_an_account_that_only_a_look_opened_needs_no_statement(tmp_path: Path) -> None:
    """Earlier versions opened it at the first look."""
    folder = clinic(str(tmp_path))
    with siloquent.open(folder) as session:
        limit = session.get_account("visits").limit
        session.ledger.open_account("visits@1", limit=limit, accountant="zcdp", unit="row", adjacency="add-remove")
    edit(folder, (*USER, "new epoch"))
    with pytest.raises(LedgerError, match="nothing was charged") as refused:
        ask(folder)
    paste_fix(folder, refused.value)
    assert ask(folder)


def test_answers_about_other_rows_of_a_user_are_not_drawn_from(tmp_path: Path) -> None:
    """All columns together choose which rows of a user count: with another column, other rows may."""
    folder = clinic(str(tmp_path), TOML.replace(*USER))
    free = f"{QUESTION} REUSE ANY"
    ask(folder, QUESTION)
    with siloquent.open(folder) as session:
        assert session.explain(free).price == 0
    edit(folder, ("hi = 120", "hi = 130", "new version"))
    with siloquent.open(folder) as session:
        assert {one.effect for one in session.list_changes("visits")} == {"new version", "free"}
        assert session.explain(free).price > 0
        session.ask(QUESTION)
        assert session.explain(free).price == 0, "of the rows that count now"
    edit(folder, ("hi = 130", "hi = 120", "new version"))
    with siloquent.open(folder) as session:
        assert session.explain(free).price > 0


def test_a_new_epoch_that_changes_the_promise_survives_a_copy(tmp_path: Path) -> None:
    folder = clinic(str(tmp_path))
    ask(folder, QUESTION)
    edit(folder, (*USER, "new epoch"))
    assert run(("--workspace", str(folder), "epoch", "open", "visits", "--statement", "The budgets add up.")) == 0
    with siloquent.open(folder) as session:
        assert session.get_account("visits").unit == "user:patient:2"
        entry = list(session.ledger.iter_entries())[-1]
        assert (entry.kind, entry.body["statement"]) == ("changed-epoch", "the budgets add up")
    opened = open_ledger(str(folder / "ledger.sqlite"), head=folder / "ledger.head")
    assert opened.verify().ok
    opened.close()


def test_the_owner_reads_the_changes_in_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    folder = clinic(str(tmp_path))
    ask(folder, QUESTION)
    edit(folder, EDITS[0], EDITS[9])
    with siloquent.open(folder) as session:
        _read(session, "Bins of column 'age'", "changed_declaration", problem=False)
        _read(session, "The unit was one row", "changed_promise", problem=True)
    assert run(("--workspace", str(folder), "check", "visits")) == 1
    assert "epoch open visits --statement" in capsys.readouterr().out.replace("\n", " ")


def _read(session: Session, start: str, kind: str, *, problem: bool) -> None:
    (found,) = [one for one in session.check("visits").findings if one.sentence.startswith(start)]
    assert (found.kind, found.is_problem) == (kind, problem)
