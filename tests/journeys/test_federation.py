"""A federation by its commands: real processes, a silo that is not there yet, a person who says yes, an end for all."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forked import build_command
from journeys.clinic import Person
from journeys.documents import faults
from journeys.test_federation_kills import free_port
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.role_process import moderate
from siloquent.session import create_workspace

LONG = 60.0
ASKED = Invitation(
    "share/1", "share", "sum", tables=("visits",), columns=("age",), statement="a sum", price="epsilon 1",
    body={"sum": {}}, min_parties=2, session_deadline_s=600,
)  # fmt: skip


class Silos:
    """Bundles, workspaces and processes below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.person = folder, Person(folder)
        kinds = {"north": "party", "river": "party", "w1": "worker", "w2": "worker", "office": "moderator"}
        roles = [f'{{ name = "{name}", kind = "{kind}", owner = "{name} house" }}' for name, kind in kinds.items()]
        relay = f"https://127.0.0.1:{free_port()}"
        (folder / "f.toml").write_text(f'name = "clinics"\nrelay = "{relay}"\nrole = [{", ".join(roles)}]\n')
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*build_command(), *words, "--bundle", f"b/{name}"],
                cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip

    def document(self, *words: str) -> dict[str, Any]:
        """What a command says with --json, of the kind that it claims."""
        said = self.person.types(*words, "--json")
        document = said.document
        kind = document["schema"].split("/")[1]
        assert list(faults(document, json_schema(kind))) == []
        return document

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)


@pytest.fixture
def silos(tmp_path: Path) -> Iterator[Silos]:
    made = Silos(tmp_path)
    yield made
    made.stop()


def eventually(look: Callable[[], bool]) -> None:
    until = time.monotonic() + LONG
    while not look():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.3)


@pytest.mark.slow
def test_a_session_from_init_to_its_end_by_commands(silos: Silos) -> None:
    assert silos.person.types("federation", "init", "f.toml", "-o", "b").status == 0
    assert silos.document("federation", "check", "--bundle", "b/north")["steps"][-1]["what"] == "tcp"  # no relay yet
    create_workspace(silos.folder / "clinic")
    silos.start("relay", "relay", "run")
    for name in ("w1", "w2"):
        silos.start(name, "worker", "run")
    silos.start("north", "--workspace", "clinic", "party", "run")
    eventually(lambda: bool(silos.document("federation", "check", "--bundle", "b/north")["ok"]))

    ended: list[ProtocolError] = []
    held: list[Channel] = []

    def hold() -> None:
        try:
            moderate(
                read_bundle(silos.folder / "b" / "office"), ASKED, ("north", "river", "w1", "w2"),
                lambda channel, invitation, desk: None, watch=lambda channel: held.append(channel),
            )  # fmt: skip
        except ProtocolError as failed:
            ended.append(failed)

    moderator = threading.Thread(target=hold)
    moderator.start()
    eventually(lambda: bool(silos.document("party", "list", "--bundle", "b/north")["sessions"]))
    (shown,) = silos.document("party", "list", "--bundle", "b/north")["sessions"]
    assert (shown["state"], shown["task"], shown["columns"], shown["price"]) == (
        "invited",
        "share",
        ["age"],
        "epsilon 1",
    )
    assert shown["workers"] == ["w1 (w1 house)", "w2 (w2 house)"]
    session = shown["session"][:10]

    unasked = silos.person.types("party", "approve", session, "--bundle", "b/north")
    assert all(words in unasked.out + unasked.err for words in ("min parties", "service"))
    assert (unasked.status, "--yes" in unasked.err) == (2, True)
    assert silos.person.types("party", "approve", session, "--yes", "--bundle", "b/north").status == 0
    again = silos.person.types("party", "refuse", session, "--bundle", "b/north")
    assert again.status == 2

    def waits_for_river_alone() -> bool:
        told = silos.document("federation", "status", session, "--bundle", "b/office")
        return "office waits for river since" in told["sentence"] and "(never seen)" in told["sentence"]

    eventually(waits_for_river_alone)
    assert "river" in silos.person.types("federation", "status", session, "--bundle", "b/w1").out

    with suppress(ProtocolError):
        held[-1].abort("peer_missing")
    moderator.join(LONG)
    assert [failed.code for failed in ended] == ["aborted_by"]
    eventually(lambda: silos.document("party", "list", "--bundle", "b/north")["sessions"][0]["state"] == "aborted")
    told = silos.document("federation", "status", "--bundle", "b/w1")["sessions"]
    assert [one["code"] for one in told] == ["peer_missing"]
    assert silos.person.types("federation", "verify", session, "--bundle", "b/north").status == 2
    second = silos.person.types("worker", "run", "--bundle", "b/w1")
    assert (second.status, "role_running_twice" in second.err) == (6, True)
