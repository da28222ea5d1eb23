"""Looking never writes: whatever is read of a workspace, by command, in Python or over HTTP, its ledger stays the same.

An account that was opened by a look would fix the unit of a table to which nothing was ever charged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import TOML, WARDS, write_source
from journeys.served import Served, serving
from siloquent.cli.app import run
from siloquent.errors import SiloquentError
from siloquent.session import create_workspace

PHASES = (Phase.explicit, Phase.generate)  # a failure is short already, and shrinking it takes minutes
MORE = ["SELECT COUNT(*) FROM visits ERROR 100", "SELECT COUNT(*) FROM visits ERROR 0.0001", "SELECT no FROM visits"]
CHANGES = [
    ('adjacency = "add-remove"', 'adjacency = "replace-one"'),
    ('epsilon = "1"', 'epsilon = "2"'),
    ("[budget]", "[budget]\nepoch = 2"),
    ("size_hint = 3000", "size_hint = 5000"),
    ('unit = { kind = "row" }', 'unit = { kind = "user", column = "patient", max_rows = 3 }'),
]
WORDS = [
    ("tables",),
    ("show", "visits"),
    ("check",),
    ("check", "visits"),
    ("explain", WARDS),
    *(("explain", text) for text in MORE),
    ("ask", WARDS),
    ("ask", MORE[2], "--yes"),
    ("history", "visits"),
    ("ledger", "show"),
    ("ledger", "show", "visits"),
    ("ledger", "verify"),
    ("release", "list"),
    ("doctor",),
    ("budget", "set", "visits"),
    ("epoch", "open", "visits", "--statement", "these are new people"),
]
LOOKS: list[Callable[[Any], object]] = [
    lambda session: session.list_tables(),
    lambda session: session.schema("visits"),
    lambda session: session.get_account("visits"),
    lambda session: session.get_remaining("visits"),
    lambda session: session.list_accounts(),
    lambda session: session.explain(WARDS),
    lambda session: session.prepare(WARDS).explanation,
    lambda session: session.check("visits"),
    lambda session: session.table("visits"),
    lambda session: session.discover.explain("visits", "ward", epsilon="0.1"),
    lambda session: session.ledger.verify(),
]
PLACES = [
    "me", "tables", "tables/visits", "tables/visits/history", "accounts", "accounts/visits@1/entries", "ledger/head",
    "spending", "releases", "jobs",
]  # fmt: skip


def clinic(folder: Path) -> Path:
    workspace = create_workspace(folder / "clinic")
    source = write_source(workspace.folder, "parquet")
    (workspace.schemas / "visits.toml").write_text(TOML.replace("SOURCE", source))
    return workspace.folder


def stamp(folder: Path) -> tuple[str, ...]:
    """Return the digests of the ledger's files, and which of them exist."""
    files = sorted(one for one in folder.glob("ledger.*") if one.suffix != ".lock" and one.name != "ledger.marks")
    return tuple(f"{one.name} {hashlib.sha256(one.read_bytes()).hexdigest()}" for one in files)


def change(folder: Path, edit: tuple[str, str] | None) -> None:
    file = folder / "schemas" / "visits.toml"
    if edit is not None:
        file.write_text(file.read_text().replace(*edit))


@settings(max_examples=12, deadline=None, phases=PHASES)
@given(
    who=st.sampled_from([(), ("--analyst", "ana"), ("--analyst", "bo")]),
    typed=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    edit=st.sampled_from([None, *CHANGES]),
)
def test_commands_that_look_leave_every_byte_of_the_ledger(
    who: tuple[str, ...], typed: list[tuple[str, ...]], edit: tuple[str, str] | None
) -> None:
    with TemporaryDirectory() as place:
        folder = clinic(Path(place))
        before = stamp(folder)
        for words in typed:
            run(("--workspace", str(folder), *who, *words, "--json"))
            assert stamp(folder) == before, words
        change(folder, edit)
        run(("--workspace", str(folder), *who, "show", "visits"))
        assert stamp(folder) == before, edit


@settings(max_examples=12, deadline=None, phases=PHASES)
@given(
    analyst=st.sampled_from([None, "ana"]),
    looks=st.lists(st.sampled_from(LOOKS), min_size=1, max_size=5),
    edit=st.sampled_from([None, *CHANGES]),
)
def test_a_session_that_looks_leaves_every_byte_of_the_ledger(
    analyst: str | None, looks: list[Callable[[Any], object]], edit: tuple[str, str] | None
) -> None:
    with TemporaryDirectory() as place:
        folder = clinic(Path(place))
        before = stamp(folder)
        for look in looks:
            # A refusal writes nothing either.
            with siloquent.open(folder, analyst=analyst) as session, suppress(SiloquentError):
                look(session)
            assert stamp(folder) == before
        change(folder, edit)
        with siloquent.open(folder) as session:
            assert session.get_account("visits").spent.amount == 0, "nothing is fixed while nothing is spent"
            assert session.get_account("visits").adjacency == session.schema("visits").adjacency


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(clinic(tmp_path_factory.mktemp("served"))) as made:
        yield made


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(who=st.sampled_from(["ana", "owner", "auditor"]), place=st.sampled_from(PLACES), text=st.sampled_from(MORE))
def test_requests_that_look_add_no_entry(served: Served, who: str, place: str, text: str) -> None:
    with served.client(who) as client:
        assert client.get(f"/v1/{place}").status_code in (200, 403, 404)
        client.post("/v1/explanations", json={"sql": text})
        assert client.get("/v1/ledger/head").json()["seq"] == 0
    with served.client("owner") as client:
        assert client.post("/v1/tables/visits/check").status_code == 200
        assert client.get("/v1/ledger/head").json()["seq"] == 0
        names = [one["name"] for one in client.get("/v1/accounts").json()["accounts"]]
        assert names == ["visits@1"], "what it may spend is told before anything is spent"


def test_the_first_charge_opens_the_account(tmp_path: Path) -> None:
    folder = clinic(tmp_path)
    with siloquent.open(folder, analyst="ana") as session:
        session.explain(WARDS)
        assert session.ledger.read_head().seq == 0
        session.ask(WARDS)
        kinds = [(one.kind, one.body["account"]) for one in session.ledger.iter_entries()]
    assert kinds == [
        ("open-account", "visits@1"),
        ("open-account", "visits@1/ana"),
        ("reserve", "visits@1/ana"),
        ("settle", "visits@1/ana"),
    ]
