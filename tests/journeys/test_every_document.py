"""Each command's document is as its published schema says, and each kind is written by a command or a route."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
import typer

from journeys.clinic import WARDS, Done, rows
from journeys.documents import documents_in, misfits
from journeys.served import clinic_workspace, serving
from journeys.silos import Silo, silo_workspace
from siloquent.cli.app import app, run
from siloquent.documents.kinds import kinds
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.relay.store import RelayStore
from siloquent.federation.role_process import open_journal
from siloquent.federation.transport import HttpTransport
from siloquent.server.described import DOCUMENTS
from unit.collect.shops import ORDERS, text

NO_DOCUMENT = {
    "demo": "a story for people, which says so",
    "openapi": "the description of an API, which is a standard's document",
    "schema": "a JSON Schema, which is a standard's document",
    "relay run": "it runs until it is stopped",
    "worker run": "it runs until it is stopped",
    "party run": "it runs until it is stopped",
    "collect perturb": "reports are bytes",
    "federation request": "its file is the request",
    "federation renew": "its file is the request",
}
"""Commands that write no document, and why."""
OF_PROCESSES = {
    "share sum": ("share-sum", "test_share_relay.py"),
    "profile run": ("fd-report", "profile/test_profile.py"),
}
"""Commands that need roles as processes of their own: their kinds, and the tests that check their documents."""
PROFILE = 'table = "visits"\ncolumns = ["age", "ward"]\nmax_lhs = 1\n'
FEDERATION = 'name = "two"\nrelay = "https://127.0.0.1:9"\nrole = [{ name = "north", kind = "party", owner = "N" }]\n'
RULE = "t1&t2&EQ(t1.ward,t2.ward)&IQ(t1.age,t2.age)\n"
SKETCH = ("--features", "age,cost", "--bandwidth", "0.3", "--epsilon", "1", "--rows", "64")
SYNTH = ("visits", "--epsilon", "5", "--quality", "fast", "--columns", "age,ward", "--targets", "ward")
SHARE = ("visits", "--label", "ward", "--features", "age,cost", "--epsilon", "5")
FIND = ("search", "find", "visits", "--target", "cost", "--features", "age", "--by", "ward")


@dataclass
class Commands:
    """Commands typed in this process; each document is checked, and remembered by its command."""

    captured: pytest.CaptureFixture[str]
    silo: Silo
    theirs: Path
    kinds: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    at: tuple[str, ...] = ()

    def __call__(self, *words: str, kind: str, status: int = 0) -> dict[str, Any]:
        self.captured.readouterr()
        done = run([*self.at, *words, "--json"])
        said = self.captured.readouterr()
        assert done == status, (words, said)
        document = Done(done, said.out, said.err).document
        assert document["schema"].split("/")[1] == kind, words
        self.kinds |= {one["schema"].split("/")[1] for one in documents_in(document)}
        typed = f"{' '.join(words)} "
        self.commands.add(next(name for name in COMMANDS if typed.startswith(f"{name} ")))
        return document


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """All commands of the command line."""
    for name, one in getattr(command, "commands", {}).items():
        yield from leaves(one, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path)


COMMANDS = sorted(leaves(typer.main.get_command(app)), key=len, reverse=True)


def a_workspace_and_its_tables(types: Commands) -> None:
    types("init", "other", kind="workspace")
    types("tables", kind="table-list")
    types("show", "visits", kind="table")
    types("report", kind="protection-report")
    types("show", "vists", kind="problem", status=2)
    types("draft", "data/visits.parquet", "--public", kind="draft")
    skip = ("--column", "rest = skip", "--accept", "--max-rows", "4")
    types("declare", "data/visits.parquet", "--name", "v", *skip, kind="declaration")
    Path("schemas/v.toml").unlink()
    file = types.theirs / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace("[budget]", '[budget]\ndelta_events = "5e-7"'))
    discover = ("discover", "visits", "note", "--epsilon", "0.5", "--workspace", str(types.theirs))
    types(*discover, "--explain", kind="discovery-plan")
    types(*discover, "--yes", kind="discovery")
    types("check", "visits", kind="check")
    types("refresh", "visits", kind="refresh")
    types("doctor", kind="doctor")


def questions_and_their_ledger(types: Commands) -> None:
    types("explain", WARDS, kind="explanation")
    types("explain", "SELECT AVG(age) FROM visits ERROR 9", kind="composite-explanation")
    asked = types("ask", WARDS, "--yes", kind="answer")["id"]
    types("history", "visits", kind="history")
    types("release", "list", kind="release-list")
    types("release", "show", asked, kind="release")
    types("release", "verify", asked, kind="release-verdict")
    types("verify", asked, kind="release-verdict")
    types("release", "export", asked, "-o", "out.csv", kind="export")
    types("ledger", "show", kind="ledger")
    types("ledger", "verify", kind="verdict")
    types("ledger", "checkpoint", "-o", "checkpoint.json", kind="checkpoint")
    Path("ledger.head").unlink()
    types("ledger", "adopt", "--statement", "this is the newest copy", kind="verdict")
    types("budget", "set", "visits", kind="account")


def sketches(types: Commands) -> None:
    types("sketch", "plan", "visits", *SKETCH, "-o", "plan.json", kind="sketch-plan")
    Path("points.csv").write_text("age,cost\n50,400\n200,900\n")
    built = ("sketch", "build", "visits", *SKETCH, "--plan", str(Path("plan.json").resolve()), "--yes", "-o")
    types(*built, "one", kind="sketch")
    types(*built, "two", "--workspace", str(types.theirs), kind="sketch")
    density = types("sketch", "ask", "one", "--density", "points.csv", kind="sketch-answer")
    assert [row[-1] for row in density["rows"]] == [False, True]
    for words in (("--modes", "2"), ("--anomaly", "points.csv"), ("--sample", "3")):
        types("sketch", "ask", "one", *words, kind="sketch-answer")
    types("sketch", "ask", "one", "--map", "age", kind="sketch-map")
    types("sketch", "merge", "one", str(types.theirs / "releases" / "two"), "-o", "both", kind="sketch")
    types("sketch", "show", "both", kind="sketch")


def synthetic_tables(types: Commands) -> None:
    types("synth", "plan", *SYNTH, kind="synth-plan")
    release = Path(types("synth", "run", *SYNTH, "--rows", "300", "--yes", kind="synth")["release"]).name
    types("synth", "rows", release, "--rows", "20", kind="synth-rows")
    types("synth", "report", release, kind="synth-report")
    types("synth", "check", release, kind="synth-check")
    pyarrow.csv.write_csv(rows(), "truth.csv")
    types("synth", "evaluate", release, "--truth", "truth.csv", kind="synth-evaluation")
    types("synth", "repair", "truth.csv", "--table", "visits", "-o", "repaired.csv", kind="synth-repair")
    Path("rules.ic").write_text(RULE)
    types("synth", "import-dcs", "rules.ic", kind="synth-constraints")


def search_and_sharing(types: Commands) -> None:
    offer = ("search", "offer", "visits", "--features", "age", "--by", "ward", "--epsilon", "5")
    types(*offer, "--explain", kind="offer-plan")
    made = types(*offer, "--yes", kind="offer")
    types("search", "catalogue", "add", "catalogue", Path(made["folder"]).name, kind="catalogue")
    listed = types("search", "catalogue", "list", "--for", "visits", kind="catalogue")
    assert listed["matching_keys"]
    types(*FIND, "-o", "found.json", kind="found")
    types("search", "augment", "found.json", "-o", "augmented.parquet", kind="augmented")
    types("share", "release", *SHARE, "--explain", kind="share-plan")
    types("share", "release", *SHARE, "--yes", kind="share")
    theirs = str(types.theirs / "theirs.share")
    types("share", "release", *SHARE, "--yes", "-o", theirs, "--workspace", str(types.theirs), kind="share")
    types("share", "advise", "visits", theirs, kind="advice")
    types("share", "learn", "visits", theirs, "--shared-only", "-o", "model.npz", kind="share-model")
    types("share", "synthesize", theirs, "--rows", "20", "-o", "drawn.csv", kind="share-rows")


def profiles(types: Commands) -> None:
    Path("rules.toml").write_text(PROFILE)
    types("profile", "local", "visits", "--columns", "age,ward", "--max-lhs", "1", kind="fd-local")
    types("profile", "plan", "rules.toml", kind="fd-plan")
    types("profile", "show", types.silo.report, kind="fd-report")
    types("profile", "verify", types.silo.report, kind="fd-verdict", status=1)
    adopt = ("--table", "visits", "--pick", "patient -> age", "--yes")
    types("profile", "adopt", types.silo.report, *adopt, kind="fd-adopted")
    Path("public.csv").write_text("age,ward\n" + "".join(f"{i % 7},{'AB'[i % 7 % 2]}\n" for i in range(90)))
    types("profile", "simulate", "rules.toml", "--data", "public.csv", "--workers", "2", kind="fd-report")


def collections(types: Commands) -> None:
    Path("shop.toml").write_text(text(ORDERS, epsilon="8", min_reports=100))
    types("collect", "design", "shop.toml", "-o", "./shop.json", kind="collect-design")
    types("collect", "check", "./shop.json", kind="collect-check")
    lines = ({"user": f"u{i}", "rows": [{"amount": i % 25, "gift": True}]} for i in range(150))
    Path("orders.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(["collect", "perturb", "./shop.json", "orders.jsonl", "--service", "orders", "-o", "./r.bin"]) == 0
    types("collect", "ingest", "./shop.json", "./r.bin", kind="collect-counters")
    types("collect", "show", "./shop.json", kind="collect-counters")
    types("collect", "estimate", "./shop.json", "SELECT COUNT(*) FROM orders", kind="collect-answer")


def a_federation_whose_relay_is_elsewhere(types: Commands) -> None:
    Path("two.toml").write_text(FEDERATION)
    types("federation", "init", "two.toml", "-o", "two", kind="federation-roster")
    types("federation", "accept", "two/ca/roster.json", "--bundle", "two/north", "--words", words_of("two/north"),
          kind="federation-roster")  # fmt: skip
    request = (
        "federation",
        "request",
        "lake",
        "--role",
        "party",
        "--owner",
        "L",
        "--bundle",
        "two/lake",
        "-o",
        "r.json",
    )
    assert run(request) == 0
    types("federation", "sign", "r.json", "--ca", "two/ca", "-o", "answers", kind="federation-roster")
    types("federation", "revoke", "north", "--ca", "two/ca", kind="federation-roster")
    types("federation", "check", kind="federation-check", status=6)
    session = types("federation", "status", kind="federation-sessions")["sessions"][0]["session"]
    relay = RelayStore(":memory:")
    relay.open_session("office", session, ["north", "office"], int(time.time()) + 600)
    relay.record_heartbeat("north", session, "running", "a1", ["office"], 2.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HttpTransport, "look", lambda _, session: relay.look("north", session))
        types("federation", "status", session, kind="federation-status")
    types("party", "list", kind="party-sessions")
    types("party", "approve", session, "--yes", kind="decision")
    types("party", "refuse", session, kind="problem", status=2)
    with open_journal(read_bundle(Path("bundle"))) as journal:
        journal.keep_result(session, b"no heads")
    types("federation", "verify", session, kind="federation-verdict", status=6)


def words_of(bundle: str) -> str:
    return read_bundle(Path(bundle)).roster.words


def a_server_and_its_machine(types: Commands) -> None:
    types("serve", "--show", kind="server-settings")
    types("server", "calibrate", "visits", "--answers", "2", kind="slots")
    made = types("token", "create", "cy", kind="token")["id"]
    types("token", "list", kind="token-list")
    assert types("token", "revoke", made, kind="token-list")["tokens"][0]["revoked"]
    with serving(types.silo.folder) as served:
        token = Path("ana.token")
        token.touch(mode=0o600)
        token.write_text(served.texts["ana"])
        types.at = ("--server", served.address, "--token-file", "ana.token")
        for words, kind in (
            (("tables",), "table-list"), (("show", "visits"), "table"), (("explain", WARDS), "explanation"),
            (("ask", WARDS, "--yes"), "answer"), (("history", "visits"), "history"), (("ledger", "show"), "ledger"),
            (("release", "list"), "release-list"),
        ):  # fmt: skip
            types(*words, kind=kind)
        Path("sketch.json").write_text(json.dumps(JOB))
        job = types("job", "start", "sketch", "sketch.json", "--max-cost", "9", kind="job")["id"]
        release = types("job", "wait", job, kind="job")["release"]
        types("job", "show", job, kind="job")
        types("job", "list", kind="job-list")
        types("job", "cancel", job, kind="job")
        types("job", "fetch", release, "-o", "fetched", kind="release")
        types.at = ()
    types("backup", "../kept", kind="backup")
    (kept,) = Path("../kept").iterdir()
    types("restore", str(kept), "../again", kind="restored")
    types("migrate", kind="migration")
    types("epoch", "open", "visits", "--statement", "these are new people", kind="account")


JOB = {
    "table": "visits", "features": ["age"], "rows": 64, "budget": {"epsilon": "1"},
    "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3},
}  # fmt: skip
STEPS = (
    a_workspace_and_its_tables, questions_and_their_ledger, sketches, synthetic_tables, search_and_sharing, profiles,
    collections, a_federation_whose_relay_is_elsewhere, a_server_and_its_machine,
)  # fmt: skip


@pytest.mark.slow
def test_every_command_writes_a_document_as_its_schema_says_and_every_kind_is_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    types = Commands(capfd, silo_workspace(tmp_path / "clinic"), clinic_workspace(tmp_path / "theirs"))
    monkeypatch.chdir(types.silo.folder)
    for step in STEPS:
        step(types)
    assert set(COMMANDS) - types.commands == {*NO_DOCUMENT, *OF_PROCESSES}
    told_by_routes = {kind for told in DOCUMENTS.values() for kind in told}
    told_by_processes = {kind for kind, _ in OF_PROCESSES.values()}
    assert set(kinds()) == types.kinds | told_by_processes | told_by_routes - {"kept-checkpoint"}


def test_documents_of_processes_are_checked_where_they_are_said_to_be() -> None:
    for kind, file in OF_PROCESSES.values():
        checks = (Path(__file__).parent / file).read_text()
        assert f'json_schema("{kind}")' in checks or "json_schema(kind)" in checks


def test_a_document_that_does_not_fit_or_has_no_schema_would_be_seen() -> None:
    good = {"schema": "siloquent/job-list/1", "jobs": []}
    assert misfits({"result": {"found": good}}) == []
    for wrong in ({**good, "more": 1}, {**good, "schema": "siloquent/job-list/9"}, {**good, "schema": "siloquent/x/1"}):
        assert len(misfits({"result": [wrong]})) == 1, wrong
        with pytest.raises(AssertionError):
            _ = Done(0, json.dumps(wrong) + "\n", "").document
