"""Five clinics, two workers, a relay and a registry as processes of their own: one secure sum, by the command line."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet
import pytest

from forked import build_command
from journeys.clinic import Person
from journeys.documents import faults
from journeys.test_federation_kills import free_port
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.federation.identity.operator import FederationDescription, init
from siloquent.session import create_workspace
from siloquent.share import ShareRelease, load_release
from siloquent.share.files import format_release_id
from unit.share.tables import TOML, ZCDP, rows

CLINICS = ("north", "river", "hill", "lake", "moor")
SPEC = """\
table = "patients"
label = "sick"
features = ["age", "dose", "ward"]
method = "gram"
trust = "sum"
agents = 5
honest = 4
budget = { epsilon = "2" }
"""
POLICY = """\
[[allow]]
task = "share"
tables = ["patients"]
columns = ["age", "dose", "ward", "sick"]
protocols = ["share/1"]
max_price = "2"
moderators = ["office"]
approve = "auto"
max_sessions = 20
"""


def workspace(folder: Path, count: int, seed: int) -> None:
    """A clinic's workspace, whose policy says yes to sums for sharing; the registry's has no rows to speak of."""
    made = create_workspace(folder)
    (folder / "data").mkdir()
    pyarrow.parquet.write_table(rows(count, seed=seed), folder / "data" / "patients.parquet")
    text = TOML.format(budget=ZCDP, unit='{ kind = "row" }', adjacency="add-remove", size="", outside="drop")
    text = text.replace('name = "patients"', 'name = "patients"\nsource = "parquet:data/patients.parquet"')
    (made.schemas / "patients.toml").write_text(text)
    (folder / "federation.toml").write_text(POLICY)


@contextmanager
def running(folder: Path, commands: list[list[str]]) -> Iterator[None]:
    """``siloquent`` processes that are ended at the end; each writes to a log beside the bundles."""
    started = []
    try:
        for words in commands:
            log = (folder / f"{'-'.join(words[:2])}-{len(started)}.log").open("w")
            command = [*build_command(), *words]
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
            if words[0] == "relay":
                time.sleep(2)
        yield
    finally:
        for process in reversed(started):  # the relay last: it waits for open connections
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.mark.slow
def test_five_processes_and_a_relay_make_one_release(tmp_path: Path) -> None:
    roles = [(name, "party", name.title()) for name in CLINICS]
    roles += [("w1", "worker", "University"), ("w2", "worker", "Institute"), ("office", "moderator", "Registry")]
    bundles = tmp_path / "bundles"
    init(FederationDescription("clinics", f"https://127.0.0.1:{free_port()}", tuple(roles)), bundles)
    for seed, name in enumerate((*CLINICS, "office")):
        workspace(tmp_path / name, 1 if name == "office" else 300, seed)
    (tmp_path / "office" / "sum.toml").write_text(SPEC)
    commands = [["relay", "run", "--bundle", str(bundles / "relay")]]
    commands += [["worker", "run", "--bundle", str(bundles / w)] for w in ("w1", "w2")]
    commands += [
        ["party", "run", "--bundle", str(bundles / name), "--workspace", str(tmp_path / name)] for name in CLINICS
    ]
    with running(tmp_path, commands):
        done = Person(tmp_path / "office").types(
            "share", "sum", "sum.toml", "--bundle", str(bundles / "office"), "--json"
        )
        assert done.status == 0, (done.err, [log.read_text()[-600:] for log in tmp_path.glob("*.log")])
        document = done.document
        assert list(faults(document, json_schema("share-sum"))) == []
        assert document["silos"] == list(CLINICS)
        kept = [_release(tmp_path / name) for name in CLINICS]
        _refused_for_another_declaration(tmp_path, bundles)
    assert len({release.counts.tobytes() for release in kept}) == 1
    assert all("as long as 4 of the 5 silos" in release.describe_guarantee() for release in kept)
    assert all(Person(tmp_path / name).spent("patients@1") > 0 for name in CLINICS)
    assert Person(tmp_path / "hill").types("verify", format_release_id(kept[2])).status == 0


def _refused_for_another_declaration(folder: Path, bundles: Path) -> None:
    """The same processes, asked again after one clinic declared a column otherwise: it is named, and nobody pays."""
    file = folder / "hill" / "schemas" / "patients.toml"
    file.write_text(file.read_text().replace('outside = "drop"', 'outside = "clamp"'))
    before = [Person(folder / name).spent("patients@1") for name in CLINICS]
    (folder / "office" / "again.toml").write_text(SPEC.replace('"age", ', ""))
    refused = Person(folder / "office").types("share", "sum", "again.toml", "--bundle", str(bundles / "office"))
    assert refused.status == 6
    assert "hill" in refused.err
    assert "'dose' differs" in " ".join((folder / log).read_text() for log in folder.glob("party-*.log"))
    assert [Person(folder / name).spent("patients@1") for name in CLINICS] == before


def _release(folder: Path) -> ShareRelease:
    """The one release in a workspace; a party writes it a moment after the moderator has ended."""
    for _ in range(100):
        found = sorted((folder / "releases").glob("r-*"))
        if found:
            return load_release(found[0])
        time.sleep(0.2)
    raise AssertionError(f"no release in {folder}")
