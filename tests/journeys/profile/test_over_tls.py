"""A profile by real processes over loopback TLS: relay, parties, workers, moderator; two are killed on the way."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet
import pytest

from forked import build_command
from journeys.clinic import Person
from siloquent.demo.profiling_tables import SILOS, add_prices
from siloquent.session import create_workspace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("profile-over-tls")]
WORKERS = ("w1", "w2")
SPEC = 'table = "prices"\ncolumns = ["supplier", "city", "ward", "specialty"]\n'
POLICY = """\
[[allow]]
task = "profile"
tables = ["prices"]
columns = ["supplier", "city", "ward", "specialty"]
protocols = ["padded/1"]
max_sets = 400
max_sessions = 20
moderators = ["office"]
approve = "auto"
"""


class Federation:
    """Bundles, workspaces and processes below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.office = folder, Person(folder / "office")
        create_workspace(self.office.folder)
        (self.office.folder / "data").mkdir()
        add_prices(self.office.folder, seed=3)
        (self.office.folder / "rules.toml").write_text(SPEC)
        for silo in SILOS:
            (self.office.folder / "silos" / silo / "federation.toml").write_text(POLICY)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        roles = [f'{{ name = "{n}", kind = "party", owner = "{n} clinic" }}' for n in SILOS]
        roles += [f'{{ name = "{n}", kind = "worker", owner = "host {n}" }}' for n in WORKERS]
        roles += ['{ name = "office", kind = "moderator", owner = "registry" }']
        relay = '{ name = "relay", kind = "relay", owner = "registry" }'
        text = f'name = "clinics"\nrelay = "https://127.0.0.1:{port}"\nrole = [{", ".join([relay, *roles])}]\n'
        (folder / "clinics.toml").write_text(text)
        bundles = str(folder / "bundles")
        done = self.office.types("federation", "init", str(folder / "clinics.toml"), "-o", bundles)
        assert done.status == 0, done.err
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def bundle(self, name: str) -> str:
        return str(self.folder / "bundles" / name)

    def start(self, name: str) -> None:
        kind = "relay" if name == "relay" else "worker" if name in WORKERS else "party"
        where = self.office.folder / "silos" / name if kind == "party" else self.office.folder
        words = ["--workspace", str(where), kind, "run", "--bundle", self.bundle(name)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen([*build_command(), *words], stdout=log, stderr=subprocess.STDOUT)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()  # how soon a role ends is its own journey's concern
            process.wait(20)

    def wait_for(self, words: str, log: Path, seconds: float = 90) -> None:
        until = time.monotonic() + seconds
        while words not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    made = Federation(tmp_path_factory.mktemp("federation"))
    for name in ("relay", *WORKERS, *SILOS):
        made.start(name)
    yield made
    made.stop()


def test_a_profile_survives_the_death_of_a_worker_and_a_party(federation: Federation) -> None:
    log = federation.folder / "run.log"
    words = ["profile", "run", "rules.toml", "--bundle", federation.bundle("office"), "--yes", "-o", "rules"]
    with log.open("wb") as out:
        run = subprocess.Popen(
            [*build_command(), "--workspace", str(federation.office.folder), *words],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    federation.wait_for("votes: round 1", log)
    for name in ("w1", "north"):
        federation.kill(name)
        federation.start(name)
    assert run.wait(150) == 0, log.read_text()
    office = federation.office
    report = office.types("profile", "show", "rules", "--json").document
    assert report["ufd"] == [[["supplier"], "city"]]
    assert {(lhs[0], rhs) for lhs, rhs in report["cfd"]} == {
        ("supplier", "city"),
        ("ward", "specialty"),
        ("specialty", "ward"),
    }
    assert set(report["signatures"]) == set(SILOS)
    assert office.types("profile", "verify", "rules").status == 0
    for silo in SILOS:
        there = Person(office.folder / "silos" / silo)
        kinds = [entry["kind"] for entry in there.types("ledger", "show", "--json").document["entries"]]
        assert kinds == ["open-account", "reserve", "settle"]
    relay = b"".join(
        path.read_bytes() for path in (federation.folder / "bundles" / "relay").rglob("*") if path.is_file()
    )
    assert b"supplier 3" not in relay


def test_a_moderator_that_was_killed_goes_on_with_the_beginning_of_its_sessions_id(federation: Federation) -> None:
    office, bundle, log = federation.office, federation.bundle("office"), federation.folder / "killed.log"
    words = ["profile", "run", "rules.toml", "--bundle", bundle, "--yes", "-o", "killed"]
    before = {silo: spent(federation, silo) for silo in SILOS}
    with log.open("wb") as out:
        run = subprocess.Popen([*build_command(), "--workspace", str(office.folder), *words], stdout=out, stderr=out)
    federation.wait_for("parties joined", log)
    run.kill()
    run.wait(10)
    begun = office.types("federation", "status", "--bundle", bundle, "--json").document["sessions"][-1]["session"]
    done = office.types(*words, "--resume", begun[:12])
    assert done.status == 0, done.err
    assert {silo: spent(federation, silo) - count for silo, count in before.items()} == dict.fromkeys(SILOS, 2)
    over = office.types(*words, "--resume", begun[:12])
    assert (over.status, f"siloquent federation status --bundle {bundle}" in over.err) == (6, True), over.err
    wrong = office.types(*words, "--resume", "no such")
    assert (wrong.status, f"status --bundle {bundle}" in wrong.err) == (2, True)


def test_a_name_that_is_taken_and_a_role_that_is_unknown_are_refused_before_anybody_is_invited(
    federation: Federation,
) -> None:
    office, bundle = federation.office, federation.bundle("office")
    (office.folder / "releases" / "taken").mkdir(parents=True)
    before = office.types("federation", "status", "--bundle", bundle, "--json").document
    words = ["profile", "run", "rules.toml", "--bundle", bundle, "--yes", "-o"]
    taken = office.types(*words, "taken")
    assert (taken.status, "taken already exists" in taken.err) == (2, True)
    unknown = office.types(*words, "free", "--without", "nroth")
    assert (unknown.status, "Did you mean 'north'?" in unknown.err) == (2, True)
    assert f"--bundle {bundle} --without north" in unknown.err
    assert office.types("federation", "status", "--bundle", bundle, "--json").document == before


def refused(federation: Federation, spec: str = "rules.toml") -> str:
    """What the office reads of a session that must not end well; there is no report of it."""
    words = ["profile", "run", spec, "--bundle", federation.bundle("office"), "--yes", "-o", "never"]
    done = federation.office.types(*words)
    assert done.status == 6, done.out
    assert not (federation.office.folder / "releases" / "never").exists()
    return done.err


def spent(federation: Federation, silo: str) -> int:
    """How many entries a silo's ledger has but for opened accounts; its chain must be whole."""
    there = Person(federation.office.folder / "silos" / silo)
    assert there.types("ledger", "verify").status == 0
    entries = there.types("ledger", "show", "--json").document["entries"]
    return sum(entry["kind"] != "open-account" for entry in entries)


def test_a_silo_with_another_schema_is_named_before_it_pays(federation: Federation) -> None:
    path = federation.office.folder / "silos" / "hill" / "schemas" / "prices.toml"
    text, before = path.read_text(), spent(federation, "hill")
    kept = [line for line in text.splitlines() if 'name = "specialty"' not in line]
    path.write_text("\n".join(kept))
    try:
        told = refused(federation)
    finally:
        path.write_text(text)
    assert "role hill" in told
    assert "policy_refused" in told
    assert "specialty" not in told, "why is the silo's own business"
    assert "specialty" in (federation.folder / "hill.log").read_text()
    assert spent(federation, "hill") == before


def test_a_silo_of_one_row_declines_and_its_own_log_says_why(federation: Federation) -> None:
    path = federation.office.folder / "silos" / "hill" / "data" / "prices.parquet"
    whole = path.read_bytes()
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).slice(0, 1), path)
    try:
        told = refused(federation)
    finally:
        path.write_bytes(whole)
    assert "role hill" in told
    assert "policy_refused" in told
    assert "fewer rows" in (federation.folder / "hill.log").read_text()


def test_a_silo_that_stays_away_is_named_with_its_step_at_the_deadline(federation: Federation) -> None:
    federation.kill("hill")
    (federation.office.folder / "soon.toml").write_text(SPEC + "deadline = 6\n")
    before = spent(federation, "hill")
    told = refused(federation, "soon.toml")
    assert "role hill, step join" in told
    assert "peer_missing" in told
    assert spent(federation, "hill") == before
    federation.start("hill")
    words = ["profile", "run", "rules.toml", "--bundle", federation.bundle("office"), "--yes", "-o", "again"]
    assert federation.office.types(*words).status == 0, "the next session is none the worse for it"
