"""The server's parts by themselves: settings, tokens, buckets, slots."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from siloquent.errors import LedgerError, NotAllowed, RequestError, SchemaError, UnknownName
from siloquent.server.access.limits import Places, RequestRates, Slots
from siloquent.server.access.tokens import Tokens
from siloquent.server.failures.problems import Refused
from siloquent.server.observability import Metrics
from siloquent.server.session_pool import SessionPool
from siloquent.server.settings import Settings, build_client_reader, read_settings
from siloquent.server.store import STEPS, VERSION, MigrationResult, Store, migrate
from siloquent.session import create_workspace


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "server.sqlite")
    yield opened
    opened.close()


def test_the_store_is_readable_by_its_owner_alone_and_holds_no_token(tmp_path: Path, store: Store) -> None:
    text = Tokens(store).create("ana", "analyst")
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert text[12:].encode() not in file.read_bytes()


def of_the_first_format(path: Path) -> Path:
    """A store as the first version wrote it, with one token."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(STEPS[0])
        db.execute("INSERT INTO token VALUES ('1', x'00', 'ana', 'analyst', '[]', 1, 2, NULL)")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    return path


def test_a_store_of_the_first_format_is_led_forward_and_its_copy_stays_as_it_was(tmp_path: Path) -> None:
    path = of_the_first_format(tmp_path / "s.sqlite")
    with pytest.raises(LedgerError, match="older") as refused:
        Store(path)
    assert "siloquent migrate --workspace" in refused.value.fix
    done = migrate(path)
    assert (done.found, done.now) == (1, VERSION)
    with closing(Store(path)) as store:
        assert store.fetch_one("SELECT name FROM token") == {"name": "ana"}
        assert store.fetch_all("SELECT * FROM denial") == []
    assert done.copy is not None
    assert stat.S_IMODE(done.copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(done.copy)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT name FROM token").fetchall() == [("ana",)]
    assert migrate(path) == MigrationResult(VERSION, VERSION)


def test_a_step_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = of_the_first_format(tmp_path / "s.sqlite")
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE denial (something TEXT)")  # in the way of the second format's
    with pytest.raises(LedgerError, match="as it was"):
        migrate(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_store_of_a_later_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "s.sqlite").close()
    with closing(sqlite3.connect(tmp_path / "s.sqlite")) as db:
        db.execute("PRAGMA user_version = 99")
    for opening in (Store, migrate):
        with pytest.raises(LedgerError, match="newer"):
            opening(tmp_path / "s.sqlite")


def test_a_token_says_who_what_and_where_until_it_is_revoked(store: Store) -> None:
    tokens = Tokens(store)
    text = tokens.create("ana", "analyst", tables=("visits",), days=3)
    person = tokens.find_by_text(text)
    assert person is not None
    assert (person.name, person.analyst, person.may_see("visits"), person.may_see("x")) == ("ana", "ana", True, False)
    tokens.revoke(person.token)
    assert tokens.find_by_text(text) is None
    assert tokens.list()[0]["revoked"] is True
    with pytest.raises(UnknownName):
        tokens.revoke("00000000")


@pytest.mark.parametrize(
    ("name", "role", "days"),
    [("", "analyst", 9), ("a b", "analyst", 9), ("a", "king", 9), ("a", "owner", 0), ("a", "owner", 366)],
)
def test_a_token_that_cannot_be_is_refused(store: Store, name: str, role: str, days: int) -> None:
    with pytest.raises(RequestError):
        Tokens(store).create(name, role, days=days)


def test_a_login_link_opens_one_session_and_only_for_a_minute(store: Store) -> None:
    tokens = Tokens(store)
    number = tokens.create("ana", "analyst")[3:11]
    secret = tokens.create_login_link(number)
    cookie = tokens.log_in(secret, hours=1)
    person = tokens.find_by_cookie(cookie)
    assert person is not None
    assert person.csrf
    with pytest.raises(NotAllowed):
        tokens.log_in(secret, hours=1)
    late = tokens.create_login_link(number)
    store.write("UPDATE login SET expires = ?", int(time.time()) - 1)
    with pytest.raises(NotAllowed):
        tokens.log_in(late, hours=1)
    tokens.log_out(cookie)
    assert tokens.find_by_cookie(cookie) is None


def test_revoking_a_token_ends_its_sessions_and_links(store: Store) -> None:
    tokens = Tokens(store)
    text = tokens.create("ana", "analyst")
    cookie, link = tokens.log_in(text, hours=1), tokens.create_login_link(text[3:11])
    tokens.revoke(text[3:11])
    assert tokens.find_by_cookie(cookie) is None
    with pytest.raises(NotAllowed):
        tokens.log_in(link, hours=1)


def test_a_bucket_gives_a_burst_then_a_rate_and_says_when_to_come_again() -> None:
    now = [0.0]
    rates = RequestRates(rate=2, burst=3, clock=lambda: now[0])
    for _ in range(3):
        rates.take("ana")
    with pytest.raises(Refused) as refused:
        rates.take("ana")
    assert refused.value.headers == {"Retry-After": "1", "RateLimit": '"person";r=0;t=1'}
    rates.take("bo")
    now[0] = 0.5
    rates.take("ana")
    with pytest.raises(Refused):
        rates.take("ana")


def test_room_is_kept_for_each_and_for_all_and_is_given_back_after_errors() -> None:
    async def walk() -> None:
        room = Places(each=1, all_=8)
        async with room.hold_place("ana"), room.hold_place("bo"):
            for who in ("ana", "bo"):
                with pytest.raises(Refused):
                    async with room.hold_place(who):
                        pass
            async with room.hold_place("cy"):
                pass
        with pytest.raises(ZeroDivisionError):
            async with room.hold_place("ana"):
                raise ZeroDivisionError
        async with room.hold_place("ana"):
            pass

    asyncio.run(walk())


def test_what_ends_well_and_what_fails_leave_at_the_same_multiple_of_a_slot() -> None:
    async def walk(work: float, fails: bool) -> float:
        slots, started = Slots(), time.monotonic()
        try:
            async with slots.hold_slot() as slot:
                slot.length_ms = 200
                await asyncio.sleep(work)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        return time.monotonic() - started

    for fails in (False, True):
        assert asyncio.run(walk(0.01, fails)) >= 0.2
        assert asyncio.run(walk(0.21, fails)) >= 0.4


def test_an_error_after_its_waiter_has_gone_is_told_to_no_log(tmp_path: Path) -> None:
    logged: list[object] = []

    async def walk() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        desk, begun, goes_on = SessionPool(tmp_path / "w", workers=1), threading.Event(), threading.Event()

        def work(_: object) -> None:
            begun.set()
            goes_on.wait()
            raise RequestError("nobody hears this")

        waiter = asyncio.create_task(desk.run(None, work))
        await asyncio.to_thread(begun.wait)
        waiter.cancel()
        goes_on.set()
        await asyncio.to_thread(desk.close)
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert desk.waiting == 0

    create_workspace(tmp_path / "w")
    asyncio.run(walk())
    gc.collect()
    assert logged == []


def test_settings_come_from_file_then_environment_then_flags(tmp_path: Path) -> None:
    workspace = create_workspace(tmp_path / "w")
    file = workspace.folder / "siloquent.toml"
    file.write_text(file.read_text() + "\n[server]\nport = 9000\nburst = 7\nworkers = 3\n")
    found = read_settings(
        workspace.folder,
        environment={"SILOQUENT_PORT": "9001", "SILOQUENT_BURST": "8"},
        flags={"port": 9002, "host": None},
    )
    assert (found.port, found.burst, found.workers) == (9002, 8, 3)


@pytest.mark.parametrize(
    "line", ["prot = 1", "port = 'x'", "port = true", "port = 70000", "burst = 0", "tls_cert = 'a.pem'"]
)
def test_settings_that_cannot_be_are_refused_with_their_name(tmp_path: Path, line: str) -> None:
    workspace = create_workspace(tmp_path / "w")
    file = workspace.folder / "siloquent.toml"
    file.write_text(file.read_text() + f"\n[server]\n{line}\n")
    with pytest.raises(SchemaError, match=line[:4]):
        read_settings(workspace.folder, environment={})


def test_without_tls_only_this_machine_is_spoken_to() -> None:
    with pytest.raises(SchemaError, match="TLS"):
        Settings(host="0.0.0.0")
    assert Settings(host="0.0.0.0", trusted_proxy="10.0.0.1").is_secure


def test_the_log_after_a_moved_one_is_its_owners_alone_too(tmp_path: Path, store: Store) -> None:
    log = tmp_path / "access.log"
    watch = Metrics(store, log=str(log))
    watch.record_request({"path": "/v1/me"}, "1", 200, 0.1)
    log.rename(tmp_path / "access.log.1")
    watch.record_request({"path": "/v1/me"}, "2", 200, 0.1)
    assert log.stat().st_mode & 0o777 == 0o600
    assert '"request": "2"' in log.read_text()


@pytest.mark.parametrize("made", [False, True])
def test_an_access_log_that_cannot_be_written_is_said_with_its_fix(tmp_path: Path, made: bool) -> None:
    place = tmp_path / "log"
    if made:
        place.mkdir()
    with pytest.raises(SchemaError, match="access_log names") as refused:
        Metrics(Store(tmp_path / "server.sqlite"), log=str(place if made else place / "access.log"))
    assert "LogsDirectory" in refused.value.fix


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "::ffff:203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("127.0.0.1", ""),
    ],
)
def test_connections_are_counted_by_address_and_in_ipv6_by_network(address: str, counted: str) -> None:
    class Transport:
        def get_extra_info(self, name: str) -> tuple[str, int]:
            return (address, 1)

    assert build_client_reader(Settings(trusted_proxy="127.0.0.1"))(Transport()) == counted
