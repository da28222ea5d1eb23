"""The relay over real TLS: who is refused before a byte of payload is read, on every route, and what is said."""

from __future__ import annotations

import http.client
import json
import secrets
import select
import shutil
import socket
import sqlite3
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import hypothesis
import pytest
from hypothesis import strategies as st

from contract.channel_contract import LONG, MEMBERS, ChannelContract, Network
from siloquent.cli.base.fixes import CommandLanguage
from siloquent.errors import NotAllowed, ProtocolError, SiloquentError
from siloquent.federation.channel import Channel
from siloquent.federation.channel.relay import RelayChannel
from siloquent.federation.connection_check import check
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import Bundle, read_bundle, read_small, write_private
from siloquent.federation.identity.certificates import encode_cert_pem, make_leaf, read_key
from siloquent.federation.identity.operator import FederationDescription
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import RoleJournal, SessionRecord
from siloquent.federation.messages.message import Envelope, Header, compute_pair_genesis
from siloquent.federation.peer import Peer
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.relay import server
from siloquent.federation.relay.app import Relay
from siloquent.federation.relay.envelope_files import INLINE_BYTES
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.relay.server import CurrentRoster, make_server
from siloquent.federation.relay.store import RelayStore
from siloquent.federation.role import begin
from siloquent.federation.role_process import open_journal, open_peer, serve
from siloquent.federation.transport import HttpTransport, explain_connection

SESSION = "ab" * 32
ROUTES = (
    ("POST", "/v1/sessions", b"{}"),
    ("PUT", f"/v1/sessions/{SESSION}/messages/w1/a/0/0", b"x" * 200),
    ("GET", "/v1/inbox", b""),
    ("POST", "/v1/inbox/ack", b'{"upto": 1}'),
    ("POST", f"/v1/sessions/{SESSION}/beat", b'{"state": "x"}'),
    ("POST", f"/v1/sessions/{SESSION}/close", b'{"code": "quota"}'),
    ("GET", f"/v1/sessions/{SESSION}", b""),
)


def say(refused: SiloquentError) -> str:
    """The fix as the command line shows it."""
    return refused.remedy.render(CommandLanguage())


class Place:
    """A federation with its relay, which serves from a thread."""

    def __init__(self, folder: Path, rates: RelayRates | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        roles = tuple((m.name, m.kind, m.owner) for m in MEMBERS)
        self.folder, self.described = (
            folder / "all",
            FederationDescription("clinics", f"https://127.0.0.1:{port}", roles),
        )
        operator.init(self.described, self.folder)
        bundle = self.bundle("relay")
        self.store = RelayStore(bundle.state / "relay.sqlite")
        roster = CurrentRoster(bundle)
        rates = rates or RelayRates(rate=10_000, burst=10_000)
        self.relay = Relay(self.store, roster.admit, roster.list_members, rates)
        self.server = make_server(bundle, self.relay, "127.0.0.1", port)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until = time.monotonic() + LONG
        while not self.server.started and time.monotonic() < until:
            time.sleep(0.02)

    def bundle(self, name: str) -> Bundle:
        return read_bundle(self.folder / name)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(LONG)
        self.store.close()

    def leaf(self, name: str, **change: Any) -> ssl.SSLContext:
        """A client that trusts this relay and shows a certificate of this CA with ``change``."""
        authority = operator.open_authority(self.folder / "ca")
        key = read_key(read_small(self.folder / "north" / "tls.key"))
        asked: dict[str, Any] = {"kind": "party", "name": name, **change}
        pem = encode_cert_pem(make_leaf(authority.certificate, authority.key, key.public_key(), **asked))
        path = self.folder / f"odd-{secrets.token_hex(4)}.pem"
        write_private(path, pem)
        context = self.anonymous()
        context.load_cert_chain(path, self.folder / "north" / "tls.key")
        return context

    def anonymous(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "north" / "ca.pem")
        return context


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("relay"))
    made.store.open_session("office", SESSION, [m.name for m in MEMBERS if m.name != "river"], int(time.time()) + 600)
    yield made
    made.stop()


def contexts(place: Place, fault: str, folder: Path) -> ssl.SSLContext:
    """A client with one fault in its certificate."""
    past = datetime.now(UTC) - timedelta(days=100)
    if fault == "none":
        return place.anonymous()
    if fault == "other CA":
        if not (folder / "other").exists():
            operator.init(place.described, folder / "other")
        context = place.anonymous()
        context.load_cert_chain(folder / "other" / "north" / "tls.pem", folder / "other" / "north" / "tls.key")
        return context
    if fault == "expired":
        return place.leaf("north", now=past, days=90)
    if fault == "used as server":
        return place.leaf("relay", kind="relay", host="127.0.0.1")
    if fault == "unknown role":
        return place.leaf("nobody")
    if fault == "other kind":
        return place.leaf("north", kind="worker")
    raise AssertionError(fault)


@pytest.mark.parametrize(("method", "path", "body"), ROUTES, ids=[f"{m} {p.split('/')[-1]}" for m, p, _ in ROUTES])
@pytest.mark.parametrize("fault", ["none", "other CA", "expired", "used as server", "unknown role", "other kind"])
def test_a_faulty_certificate_is_refused_on_every_route(
    place: Place, tmp_path_factory: pytest.TempPathFactory, fault: str, method: str, path: str, body: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "faulty"
    folder.mkdir(exist_ok=True)
    waiting = place.store.compute_totals()
    with httpx.Client(verify=contexts(place, fault, folder), trust_env=False, base_url=place.described.relay) as client:
        try:
            status = client.request(method, path, content=body or None).status_code
        except httpx.TransportError:
            status = 0  # refused in the handshake
    assert status == (403 if fault in ("unknown role", "other kind") else 0)
    assert place.store.compute_totals() == waiting


@pytest.mark.parametrize(("method", "path", "body"), ROUTES[1:2] + ROUTES[4:])
def test_a_session_does_not_exist_for_a_role_that_is_not_in_it(
    place: Place, method: str, path: str, body: bytes
) -> None:
    bundle = place.bundle("river")
    with httpx.Client(verify=bundle.build_client_context(), trust_env=False, base_url=place.described.relay) as client:
        answer = client.request(method, path, content=body or None)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_session")
    assert answer.headers["content-type"] == "application/problem+json"


def test_moderators_alone_open_sessions(place: Place) -> None:
    with closing(HttpTransport(place.bundle("north"))) as transport, pytest.raises(NotAllowed):
        transport.open_session("cd" * 32, ["north", "office"], int(time.time()) + 60)


def envelope(part: int) -> bytes:
    """A message from north to river as the relay sees it: it can open none, so any bytes will do."""
    start = compute_pair_genesis(SESSION, "north", "river")
    header = Header(SESSION, "north", "river", "a", 0, part, 99, 0, start, "0" * 64, "json", 60, "0" * 64)
    return Envelope(header.encode(), bytes(64), bytes(60)).encode()


def test_what_others_send_uses_up_no_receivers_rate(tmp_path: Path) -> None:
    place, sent, left = Place(tmp_path, RelayRates(rate=1e-6, burst=100)), 60, 5
    place.store.open_session("office", SESSION, [m.name for m in MEMBERS], int(time.time()) + 600)
    with closing(HttpTransport(place.bundle("north"))) as north, closing(HttpTransport(place.bundle("river"))) as river:
        for _ in range(100 - left):
            assert river.fetch_next(0, 0) is None
        for part in range(sent):
            assert north.put((SESSION, "river", "a", 0, part), envelope(part))
        last = 0
        for _ in range(sent):
            found = river.fetch_next(last, 5)
            assert found is not None
            last = found.seq
            river.acknowledge(last)
        for again in (0, last, 0):  # what the receiver asks beside it is its own
            assert river.fetch_next(again, 0) is None
        river.acknowledge(last)
        river.acknowledge(last)
        with pytest.raises(ProtocolError) as refused:
            river.fetch_next(0, 0)
    assert refused.value.code == "quota"
    place.stop()


def test_a_role_that_leaves_while_it_sends_writes_no_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    context, before = place.bundle("north").build_client_context(), place.relay.requests.get("north", 0)
    heads = [f"{method} {path}" for method, path, _ in ROUTES if method != "GET"]
    for head in heads:
        with (
            socket.create_connection(("127.0.0.1", place.server.config.port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as channel,
        ):
            channel.sendall(f"{head} HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\nx".encode())
            time.sleep(0.2)
    until = time.monotonic() + LONG
    while place.relay.requests.get("north", 0) < before + len(heads) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    assert [one for one in caplog.records if one.levelname == "ERROR" or one.exc_info] == []


def test_an_envelope_that_is_fetched_again_and_again_is_counted(tmp_path: Path) -> None:
    place = Place(tmp_path, RelayRates(rate=1e-6, burst=10))
    place.store.open_session("office", SESSION, [m.name for m in MEMBERS], int(time.time()) + 600)
    with closing(HttpTransport(place.bundle("north"))) as north, closing(HttpTransport(place.bundle("river"))) as river:
        assert north.put((SESSION, "river", "a", 0, 0), envelope(0))
        for _ in range(1 + 10):
            assert river.fetch_next(0, 0) is not None
        with pytest.raises(ProtocolError) as refused:
            river.fetch_next(0, 0)
    assert refused.value.code == "quota"
    place.stop()


HUGE = ("9" * 17, "9" * 30, "9" * 400, "9" * 4_301, "-1", "1e999", "nan", "inf", "1_0", "\u0661", "", "true", "x" * 900)
VALUES = st.one_of(
    st.sampled_from([10**30, -(10**30), 2**63, 1e308, True, None, "\ud800", "\x00", "a" * 64, SESSION]),
    st.integers(), st.floats(allow_nan=False), st.text(max_size=70), st.lists(st.text(max_size=40), max_size=40),
)  # fmt: skip
BODIES = st.one_of(
    st.dictionaries(
        st.sampled_from(["upto", "session", "members", "deadline", "since_s", "waiting_for", "state", "step", "code"]),
        VALUES,
    ).map(lambda told: json.dumps(told).encode()),
    st.sampled_from([b"[" * 60_000, b'{"a":' * 10_000, b"9" * 5_000, b"\xff", b"NaN", b'{"upto": 1e999}']),
    st.binary(max_size=300),
)  # fmt: skip
PATHS = st.one_of(
    st.sampled_from([path for _, path, _ in ROUTES]),
    st.sampled_from(HUGE).map(lambda text: f"/v1/inbox?after={quote(text)}&wait=0"),
    st.sampled_from(["nan", "-inf", "-1", "1_0", "x" * 900]).map(lambda text: f"/v1/inbox?after=0&wait={text}"),
    st.tuples(st.sampled_from(HUGE), st.sampled_from(HUGE)).map(
        lambda two: f"/v1/sessions/{SESSION}/messages/w1/a/{quote(two[0]) or 0}/{quote(two[1]) or 0}"
    ),
    st.text(max_size=40).map(lambda text: f"/v1/sessions/{quote(text.encode('utf-8', 'replace'), safe='')}/beat"),
)


def test_whatever_a_member_sends_is_answered_and_never_by_a_fault_of_the_relays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.store.open_session("office", SESSION, [m.name for m in MEMBERS], int(time.time()) + 600)
    bundle = place.bundle("office")  # a moderator: every route is open to it

    @hypothesis.given(st.sampled_from(["GET", "POST", "PUT"]), PATHS, BODIES)
    @hypothesis.settings(max_examples=250, deadline=None, database=None, derandomize=True)
    def sent(method: str, path: str, body: bytes) -> None:
        answer = client.request(method, path, content=body, timeout=LONG)
        assert answer.status_code < 500, (method, path, body[:80], answer.text)

    with httpx.Client(verify=bundle.build_client_context(), trust_env=False, base_url=place.described.relay) as client:
        sent()
        for method, path, body in (  # the listed cases, each by its right answer
            ("GET", f"/v1/inbox?after={'9' * 30}", b""),
            ("POST", "/v1/inbox/ack", b'{"upto": 1' + b"0" * 30 + b"}"),
            ("POST", "/v1/inbox/ack", b"[" * 60_000),
            ("PUT", f"/v1/sessions/{SESSION}/messages/w1/a/{'9' * 4_301}/0", b"x" * 200),
        ):
            answer = client.request(method, path, content=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "bad_encoding"), (path[:60], answer.text)
    place.stop()


@pytest.mark.parametrize(
    "failure",
    [
        sqlite3.OperationalError("database is locked"),
        sqlite3.DatabaseError("database disk image is malformed"),
        OSError(28, "No space left on device"),
    ],
)
def test_a_store_that_cannot_be_used_is_said_to_be_and_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(place.store, "acknowledge", fails)
    bundle = place.bundle("north")
    with httpx.Client(verify=bundle.build_client_context(), trust_env=False, base_url=place.described.relay) as client:
        answer = client.post("/v1/inbox/ack", json={"upto": 0})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", "relay_unreachable")
    with closing(HttpTransport(bundle)) as transport, pytest.raises(ProtocolError) as refused:
        transport.acknowledge(0)
    assert refused.value.code == "relay_unreachable"


def test_a_large_body_on_its_way_to_the_disk_holds_up_no_other_role(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    write = place.store._files.write

    def waits(digest: str, wire: bytes) -> bytes | None:
        if len(wire) > INLINE_BYTES:
            begun.set()
            assert goes_on.wait(LONG)
        return write(digest, wire)

    monkeypatch.setattr(place.store._files, "write", waits)
    start = compute_pair_genesis(SESSION, "north", "w1")
    header = Header(SESSION, "north", "w1", "large", 0, 0, 1, 0, start, "0" * 64, "json", 2 * INLINE_BYTES, "0" * 64)
    wire = Envelope(header.encode(), bytes(64), bytes(2 * INLINE_BYTES)).encode()
    sent: list[int] = []

    def send() -> None:
        with httpx.Client(verify=place.bundle("north").build_client_context(), trust_env=False) as client:
            path = f"/v1/sessions/{SESSION}/messages/w1/large/0/0"
            sent.append(client.put(f"{place.described.relay}{path}", content=wire, timeout=LONG).status_code)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert begun.wait(LONG)
        with closing(HttpTransport(place.bundle("w2"))) as transport:
            assert transport.fetch_next(0, 0) is None
        assert sent == []
    finally:
        goes_on.set()
        thread.join()
    assert sent == [201]


def test_members_of_a_session_are_roles_of_the_roster(place: Place) -> None:
    later = int(time.time()) + 60
    with closing(HttpTransport(place.bundle("office"))) as transport:
        for made_up in ("nobody", "relay"):
            with pytest.raises(ProtocolError) as refused:
                transport.open_session("cd" * 32, ["north", "office", made_up], later)
            assert refused.value.code == "unknown_session"
        assert transport.open_session("cd" * 32, ["north", "office"], later)


@pytest.mark.parametrize("off_s", [-3_600, 40 * 86_400])
def test_a_clock_that_is_off_is_told_beside_the_relays(place: Place, off_s: int) -> None:
    with closing(HttpTransport(place.bundle("office"))) as transport:
        with pytest.raises(ProtocolError) as refused:
            transport.open_session("ef" * 32, ["north", "office"], int(time.time()) + off_s)
        today = time.strftime("%Y-%m-%d", time.gmtime())
        assert refused.value.detail.count(today) >= 2
        assert "this machine's clock says" in refused.value.detail
        assert "the relay's" in refused.value.detail


def test_a_revoked_certificate_is_refused_once_the_relay_has_the_roster(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        with closing(HttpTransport(place.bundle("w1"))) as transport:
            assert transport.fetch_next(0, 0) is None
            operator.revoke(operator.open_authority(place.folder / "ca"), "w1")
            operator.accept(read_small(place.folder / "ca" / "roster.json"), place.folder / "relay")
            with pytest.raises(ProtocolError) as refused:
                transport.fetch_next(0, 0)
        assert refused.value.code == "certificate_refused"
    finally:
        place.stop()


@pytest.mark.slow
def test_a_role_that_is_revoked_while_it_runs_ends_with_what_to_do_and_ends_no_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        bundle, walks = place.bundle("w1"), ProtocolRegistry()
        walks.add("worker", "echo", lambda channel, invitation, desk: None)
        with open_peer(place.bundle("office")) as office:
            asked = Invitation("echo/1", "test", service="echo", tables=("visits",), columns=("age",))
            session = begin(office, asked, tuple(m.name for m in MEMBERS if m.kind != "relay"))
            known = office.journal.find_session(session)
        assert known is not None
        with open_journal(bundle) as journal:
            journal.add_session(known)
        operator.revoke(operator.open_authority(place.folder / "ca"), "w1")
        operator.accept(read_small(place.folder / "ca" / "roster.json"), place.folder / "relay")
        with pytest.raises(ProtocolError) as refused:
            serve(bundle, walks, threading.Event())
        assert (refused.value.code, refused.value.exit_status) == ("certificate_refused", 6)
        assert f"federation check --bundle {bundle.folder}; ask the operator whether w1" in say(refused.value)
        with open_journal(bundle) as journal:
            assert not journal.list_sessions()[0].is_over
    finally:
        place.stop()


def test_a_role_whose_own_certificate_expires_is_told_to_renew_and_a_relays_is_waited_for(
    place: Place, tmp_path: Path
) -> None:
    north = place.bundle("north")
    expired, refused, gone = map(ProtocolError, ("certificate_expired", "certificate_refused", "relay_unreachable"))
    assert north.explain_refusal(expired, 9) is None  # our own certificate is good: it is the relay's
    assert north.explain_refusal(refused, 2) is None
    assert north.explain_refusal(gone, 99) is None
    river = read_bundle(shutil.copytree(place.folder / "river", tmp_path / "river"))
    authority = operator.open_authority(place.folder / "ca")
    key = read_key(read_small(river.folder / "tls.key")).public_key()
    before = datetime.now(UTC) - timedelta(days=91)
    write_private(
        river.folder / "tls.pem",
        encode_cert_pem(make_leaf(authority.certificate, authority.key, key, kind="party", name="river", now=before)),
    )
    found = river.explain_refusal(refused, 1)
    assert found is not None
    assert (found.code, say(found)) == (
        "certificate_expired",
        f"siloquent federation renew --bundle {river.folder}",
    )


def test_connections_that_never_finish_their_handshake_hold_up_no_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    place = Place(tmp_path)
    try:
        port = int(place.described.relay.rpartition(":")[2])
        with ExitStack() as held, closing(HttpTransport(place.bundle("river"))) as kept:
            assert kept.fetch_next(0, 0) is None
            silent = []
            for number in range(60):
                here = (f"127.0.0.{2 + number % 9}", 0)
                one = held.enter_context(socket.create_connection(("127.0.0.1", port), source_address=here))
                one.sendall((b"", b"\x16\x03\x01")[number % 2])
                silent.append(one)
                if number % 10 == 9:
                    with closing(HttpTransport(place.bundle("north"))) as transport:
                        assert transport.fetch_next(0, 0) is None
            assert kept.fetch_next(0, 0) is None
            assert len(select.select(silent, [], [], 0)[0]) >= 60 - server.MAX_CONNECTIONS, "those that were closed"
    finally:
        place.stop()


def test_roles_that_were_revoked_share_the_places_of_one(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        for name in ("w1", "w2"):
            operator.revoke(operator.open_authority(place.folder / "ca"), name)
        operator.accept(read_small(place.folder / "ca" / "roster.json"), place.folder / "relay")
        port, kept = int(place.described.relay.rpartition(":")[2]), 0
        with ExitStack() as held:
            for number in range(2 * server.MAX_CONNECTIONS_OF_A_ROLE):
                context = place.bundle(("w1", "w2")[number % 2]).build_client_context()
                plain = socket.create_connection(("127.0.0.1", port), timeout=LONG)
                one = held.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
                with suppress(ConnectionResetError, BrokenPipeError, ssl.SSLError):
                    one.sendall(b"GET /v1/inbox HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                    kept += b" 422 " in one.recv(1_000)
        assert kept == server.MAX_CONNECTIONS_OF_A_ROLE
    finally:
        place.stop()


def test_a_client_refuses_a_relay_of_another_ca_or_name(place: Place, tmp_path: Path) -> None:
    operator.init(place.described, tmp_path / "other")
    with closing(HttpTransport(read_bundle(tmp_path / "other" / "north"))) as transport:
        with pytest.raises(ProtocolError) as refused:
            transport.fetch_next(0, 0)
        assert refused.value.code == "certificate_refused"
    context = place.bundle("north").build_client_context()
    with (
        socket.create_connection(("127.0.0.1", int(place.described.relay.rpartition(":")[2]))) as plain,
        pytest.raises(ssl.SSLCertVerificationError, match="mismatch"),
    ):
        context.wrap_socket(plain, server_hostname="relay.example.org")


def test_tls_1_2_is_not_spoken(place: Place) -> None:
    context = place.leaf("north")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        httpx.Client(verify=context, trust_env=False, base_url=place.described.relay) as client,
        pytest.raises(httpx.ConnectError) as refused,
    ):
        client.get("/v1/inbox")
    assert explain_connection(refused.value, "").code in ("certificate_refused", "relay_unreachable")


def test_a_body_that_is_too_large_is_refused_unread(place: Place) -> None:
    context = place.bundle("north").build_client_context()
    port = int(place.described.relay.rpartition(":")[2])
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=LONG)) as connection:
        connection.putrequest("PUT", ROUTES[1][1])
        connection.putheader("Content-Length", str(10**9))
        connection.endheaders()  # and not one byte of the body
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("route", [ROUTES[1], ROUTES[3], ROUTES[4]], ids=["put", "ack", "beat"])
def test_a_body_in_chunks_that_outgrows_its_length_is_refused_before_it_is_whole(
    place: Place, route: tuple[str, str, bytes]
) -> None:
    context = place.bundle("north").build_client_context()
    port = int(place.described.relay.rpartition(":")[2])
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=LONG)) as connection:
        connection.putrequest(*route[:2])
        connection.putheader("Content-Length", str(len(route[2])))
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        connection.send(b"10000\r\n" + bytes(2**16) + b"\r\n")  # and the chunk that ends it never comes
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["code"]) == (413, "too_large")


def test_a_waiting_receiver_is_woken(place: Place) -> None:
    start = compute_pair_genesis(SESSION, "north", "w2")
    header = Header(SESSION, "north", "w2", "wake", 0, 0, 1, 0, start, "0" * 64, "json", 60, "0" * 64)
    wire = Envelope(header.encode(), bytes(64), bytes(60)).encode()
    with closing(HttpTransport(place.bundle("w2"))) as w2, closing(HttpTransport(place.bundle("north"))) as north:
        came: list[bytes] = []

        def receive() -> None:
            found = w2.fetch_next(0, 20.0)
            came.append(found.wire if found else b"")

        waiting = threading.Thread(target=receive)
        waiting.start()
        time.sleep(0.3)
        assert north.put((SESSION, "w2", "wake", 0, 0), wire)
        assert not north.put((SESSION, "w2", "wake", 0, 0), wire)
        waiting.join(10.0)
        assert came == [wire]


def test_check_says_which_step_fails(place: Place, tmp_path: Path) -> None:
    assert [step.state for step in check(place.bundle("north"))] == ["good"] * 6
    operator.init(FederationDescription("clinics", "https://127.0.0.1:9", place.described.roles), tmp_path / "far")
    far = list(check(read_bundle(tmp_path / "far" / "north")))
    assert (far[-1].what, far[-1].state) == ("tcp", "bad")
    operator.init(place.described, tmp_path / "other")
    other = list(check(read_bundle(tmp_path / "other" / "north")))
    assert (other[-1].what, other[-1].state) == ("tls", "bad")


class TlsNetwork:
    """A session of peers that reach each other over the real relay."""

    def __init__(self, place: Place) -> None:
        self.place, self.session, self.deadline = place, secrets.token_hex(32), int(time.time()) + 600
        self.names = [m.name for m in MEMBERS]
        place.store.open_session("office", self.session, self.names, self.deadline)
        self.journals = {name: RoleJournal(":memory:") for name in self.names}
        self.transports: list[HttpTransport] = []
        for name, journal in self.journals.items():
            found = place.store.find_next(name, 0)
            while found is not None:  # what earlier tests left behind
                journal.skip(found.seq)
                found = place.store.find_next(name, found.seq)
            now = time.time()
            journal.add_session(
                SessionRecord(self.session, tuple(self.names), "office", self.deadline, {}, "running", now)
            )

    def open_channel(self, name: str) -> Channel:
        bundle = self.place.bundle(name)
        transport = HttpTransport(bundle)
        self.transports.append(transport)
        peer = Peer(name, bundle.keys, bundle.roster, self.journals[name], transport, polls_itself=True)
        return RelayChannel(peer, self.session)


class TestRelayChannelOverTls(ChannelContract):
    @pytest.fixture
    def network(self, place: Place) -> Iterator[Network]:
        made = TlsNetwork(place)
        yield made
        for transport in made.transports:
            transport.close()
