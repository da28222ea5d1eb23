"""An analyst at another machine: the same commands with --server, and a token that is on no command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from journeys.clinic import WARDS
from journeys.documents import misfits
from journeys.served import Served
from siloquent.cli.app import run
from siloquent.errors import RequestError, SiloquentError
from siloquent.remote import connect
from siloquent.server.repeats import build_ledger_key


@pytest.fixture
def at(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """``at("ana", "tables")``: the exit status, standard output and standard error."""

    def run_at(who: str, *words: str) -> tuple[int, str, str]:
        file = tmp_path / f"{who}.token"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(served.texts[who])
        capsys.readouterr()
        status = run(["--server", served.address, "--token-file", str(file), *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run_at


def document(said: tuple[int, str, str]) -> dict[str, Any]:
    status, out, _ = said
    assert status == 0, said
    found: dict[str, Any] = json.loads(out)
    assert misfits(found) == []
    return found


def test_price_answer_and_free_repeat_as_on_this_machine(at: Any) -> None:
    assert "not read; nothing was spent" in at("ana", "explain", WARDS)[1]
    first = document(at("ana", "--json", "ask", WARDS, "--key", "cli", "--yes"))
    again = document(at("ana", "--json", "ask", WARDS, "--key", "cli", "--yes"))
    assert (first["rows"], first["receipt"]) == (again["rows"], again["receipt"])
    assert (first["replayed"], again["replayed"]) == (False, True)
    status, out, err = at("ana", "ask", WARDS, "--key", "cli", "--yes")
    assert (status, "nothing: this key was used before" in out) == (0, True)
    assert "--server http://127.0.0.1" in err
    assert "sq_" not in out + err


def test_what_spends_needs_a_yes(at: Any) -> None:
    status, _, err = at("ana", "ask", WARDS.replace("ERROR 200", "ERROR 130"))
    assert (status, "--yes" in err) == (2, True)


def test_a_refusal_has_the_same_exit_status_and_fix(at: Any) -> None:
    status, _, err = at("ana", "ask", WARDS.replace("ward", "wrad"), "--yes")
    assert (status, "unknown_name" in err) == (2, True)
    assert "explain 'SELECT ward, COUNT(*)" in err
    assert at("ana", "show", "vists")[0] == 2
    assert at("auditor", "ask", WARDS, "--yes")[0] == 8


def test_the_fix_of_a_refusal_by_the_server_is_a_command_to_paste_here(at: Any, served: Served, tmp_path: Path) -> None:
    status, _, err = at(
        "ana", "ask", WARDS.replace("ERROR 200", "ERROR 120"), "--key", "dear", "--max-cost", "0.00000001"
    )
    fix = next(line for line in err.splitlines() if line.startswith("Fix: ")).removeprefix("Fix: ")
    assert (status, fix.startswith(f"siloquent --server {served.address} ")) == (2, True)
    assert "--key dear --max-cost 0." in fix
    assert run(shlex.split(fix)[1:]) == 0
    with connect(served.address, token_file=tmp_path / "ana.token") as session:
        with pytest.raises(RequestError) as refused:
            session.ask(WARDS.replace("ERROR 200", "ERROR 90"), key="too dear", max_cost="0.00000001")
        assert refused.value.fix.startswith('max_cost="0.')
        with pytest.raises(SiloquentError) as unknown:
            session.explain(WARDS.replace("ward", "wrad"))
        assert unknown.value.fix.startswith("SELECT ward, COUNT(*) FROM visits")


def test_tables_history_releases_and_money_are_listed(at: Any) -> None:
    release = document(at("ana", "--json", "ask", WARDS, "--key", "listed", "--yes"))["id"]
    assert [one["name"] for one in document(at("ana", "--json", "tables"))["tables"]] == ["visits"]
    assert document(at("ana", "--json", "show", "visits"))["name"] == "visits"
    assert (
        document(at("ana", "--json", "history", "visits", "--last", "1"))["questions"][0]["account"] == "visits@1/ana"
    )
    assert release in [one["id"] for one in document(at("ana", "--json", "release", "list"))["releases"]]
    money = document(at("auditor", "--json", "ledger", "show", "--last", "2"))
    assert {one["name"] for one in money["accounts"]} >= {"visits@1", "visits@1/ana"}
    assert len(money["entries"]) == 2
    for words in (("tables",), ("show", "visits"), ("history", "visits"), ("release", "list"), ("ledger", "show")):
        status, out, _ = at("ana", *words)
        assert (status, "visits" in out or "ward" in out) == (0, True), words


@pytest.fixture
def both(served: Served, at: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    """``both("tables")``: what ana reads at the server, and what ana reads on the server's own machine."""

    def run_both(*words: str, key: tuple[str, ...] = (), own_key: tuple[str, ...] = ()) -> list[tuple[int, str]]:
        far = at("ana", *words, *key)
        status = run(["--workspace", str(served.folder), "--analyst", "ana", *words, *own_key])
        return [far[:2], (status, capsys.readouterr().out)]

    return run_both


SAME = {
    "explain": ("explain", WARDS),
    "explain several": ("explain", "SELECT AVG(cost) FROM visits ERROR 100 FOR AT LEAST 200 ROWS"),
    "tables": ("tables",),
    "show": ("show", "visits"),
    "history": ("history", "visits"),
    "last of history": ("history", "visits", "--last", "1"),
    "release list": ("release", "list"),
    "ledger show": ("ledger", "show"),
    "ledger show of a table": ("ledger", "show", "visits", "--last", "3"),
    "ledger show without entries": ("ledger", "show", "--last", "0"),
}


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("name", SAME)
def test_a_command_says_the_same_at_a_server_and_here(both: Any, at: Any, name: str, form: tuple[str, ...]) -> None:
    for number in range(2):
        assert at("ana", "ask", WARDS, "--key", f"same-{number}", "--yes")[0] == 0
    far, here = both(*SAME[name], *form)
    assert far == here
    assert here[0] == 0
    assert here[1].strip()


@pytest.mark.parametrize("form", [(), ("--json",), ("--full",)], ids=["text", "json", "full"])
def test_an_answer_says_the_same_at_a_server_and_here(both: Any, at: Any, form: tuple[str, ...]) -> None:
    assert at("ana", "ask", WARDS, "--key", "told", "--yes")[0] == 0
    keys = {"key": ("--key", "told"), "own_key": ("--key", build_ledger_key("ana", "told"))}
    far, here = both("ask", WARDS, "--yes", *form, **keys)
    assert (far[0], here[0]) == (0, 0)
    if form == ("--json",):
        told, kept = json.loads(far[1]), json.loads(here[1])
        assert {**told, "key": ""} == {**kept, "key": ""}
    else:
        assert far[1] == here[1]


@pytest.mark.slow
def test_a_job_is_started_awaited_and_fetched(at: Any, tmp_path: Path) -> None:
    spec = tmp_path / "map.toml"
    spec.write_text(
        'table = "visits"\nfeatures = ["age"]\nrows = 64\nwidth = 64\n'
        '[kernel]\nkind = "p-stable"\norder = 2\nbandwidth = 0.3\n[budget]\nepsilon = "20"\n'
    )
    job = document(at("ana", "--json", "job", "start", "sketch", str(spec), "--max-cost", "1000", "--key", "m"))
    assert (
        document(at("ana", "--json", "job", "start", "sketch", str(spec), "--max-cost", "1000", "--key", "m"))["id"]
        == job["id"]
    )
    done = document(at("ana", "--json", "job", "wait", job["id"]))
    assert done["state"] == "done", done
    assert job["id"] in at("ana", "job", "list")[1]
    assert done["result"]["release"] in at("ana", "job", "show", job["id"])[1]
    assert at("ana", "job", "fetch", done["result"]["release"], "-o", str(tmp_path / "got"))[0] == 0
    assert (tmp_path / "got" / "sketch.npz").exists() or list((tmp_path / "got").iterdir())
    assert at("bo", "job", "show", job["id"])[0] == 2


@pytest.mark.parametrize("words", [("doctor",), ("init", "x"), ("serve",), ("check",)])
def test_what_is_for_this_machine_says_so(at: Any, words: tuple[str, ...]) -> None:
    status, _, err = at("ana", *words)
    assert (status, "this machine" in err) == (2, True)


def test_a_server_and_a_folder_or_a_name_exclude_each_other(at: Any) -> None:
    assert at("ana", "--analyst", "bo", "tables")[0] == 2
    assert run(["job", "list"]) == 2
