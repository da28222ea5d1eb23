"""The way to a server: where a token may travel, whom it trusts, what is said twice, and what may come back."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from siloquent.documents.ledger import parse_amount
from siloquent.documents.problems import build_problem
from siloquent.errors import (
    AccuracyUnreachable,
    BudgetExceeded,
    ChainBroken,
    MissingExtra,
    NotAllowed,
    ProtocolError,
    ReleaseError,
    RequestError,
    SiloquentError,
    SyntaxProblem,
    UnknownName,
)
from siloquent.remote import RemoteSession, connect
from siloquent.remote.calls import build_call
from siloquent.remote.exchange import ServerLink
from siloquent.remote.replies import Reply, parse_error
from siloquent.remote.tokens import find_token

TOKEN = "sq_00000000_" + "A" * 43
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siloquent.remote.exchange.FIRST_PAUSE_SECONDS", 0.0001)


def send(
    address: str, route: str = "me", body: dict[str, Any] | None = None, *, key: str | None = None, attempts: int = 4
) -> Reply:
    """One request, as a verb sends it."""
    with RemoteSession(ServerLink(address, TOKEN, attempts=attempts)) as session:
        return session._run(session._send(build_call(route, {"session": "s"}, body=body, key=key)))


@contextmanager
def peer(*answers: Answer | None, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Any]]]:
    """A peer that gives these answers in turn, the last one for ever; None: it hangs up. And what it was sent."""
    heard: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            heard.append((self.path, dict(self.headers), body))
            answer = answers[min(len(heard), len(answers)) - 1]
            if answer is None:
                self.close_connection = True
                return
            status, headers, data = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST  # noqa: N815 - the standard library's own name

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody vouches for, with its key in one file."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clinic")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "clinic.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.mark.parametrize(
    "address",
    [
        "http://clinic.example.org",
        "ftp://x",
        "clinic",
        "https://ana@x",
        "https://x?token=1",
        "http://127.0.0.1.evil.org",
        "https://clinic.example.org:99999",
        "https://[clinic",
    ],
)
def test_a_token_goes_nowhere_without_tls_but_to_this_machine(address: str) -> None:
    with pytest.raises(RequestError, match=r"TLS|address"):
        ServerLink(address, TOKEN)


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "caf\xe9"])
def test_what_cannot_be_a_token_is_not_sent(token: str) -> None:
    with pytest.raises(RequestError, match="token"):
        ServerLink("https://clinic.example.org", token)


def test_a_token_is_in_no_representation() -> None:
    assert TOKEN not in repr(ServerLink("https://clinic.example.org", TOKEN))


def test_a_token_comes_from_a_file_of_ones_own_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert find_token(file, environment={}) == TOKEN
    assert find_token(environment={"SILOQUENT_TOKEN_FILE": str(file)}) == TOKEN
    assert find_token(environment={"SILOQUENT_TOKEN": "sq_x", "SILOQUENT_TOKEN_FILE": str(file)}) == "sq_x"
    file.chmod(0o640)
    for wrong in (file, tmp_path / "none"):
        with pytest.raises(NotAllowed, match="token"):
            find_token(wrong, environment={})
    with pytest.raises(NotAllowed, match="token"):
        find_token(environment={})


def test_a_certificate_that_nobody_vouches_for_is_refused_before_the_token_is_sent(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with peer((200, {}, b"{}"), tls=tls) as (address, heard):
        with pytest.raises(RequestError, match="certificate"):
            send(address)
        assert heard == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert send(address).require_document() == {}
        with pytest.raises(RequestError, match="certificate"):
            send(address.replace("127.0.0.1", "localhost"))


def test_what_spends_is_sent_again_under_its_key_when_the_connection_breaks() -> None:
    with peer(None, (429, {"Retry-After": "0"}, b"{}"), (200, {}, b'{"a": 1}')) as (address, heard):
        reply = send(address, "answer", {"sql": "x"}, key="k")
    assert reply.require_document() == {"a": 1}
    assert {(path, headers["Idempotency-Key"], body) for path, headers, body in heard} == {
        ("/v1/answers", "k", b'{"sql": "x"}')
    }
    assert len(heard) == 3


def test_what_has_no_key_and_changes_something_is_sent_once() -> None:
    with peer(None) as (address, heard), pytest.raises(RequestError, match="Could not connect"):
        send(address, "decide_session", {})
    assert len(heard) == 1


def test_a_server_that_never_answers_leaves_word_of_what_may_be_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(None) as (address, _), pytest.raises(RequestError, match="Could not connect") as lost:
        send(address, "answer", {"sql": "x"}, key="k")
    assert "perhaps the price" in lost.value.spent
    assert "'k'" in lost.value.fix


def test_a_redirect_is_not_followed_with_the_token() -> None:
    moved = (302, {"Location": "http://evil.example.org"}, b"moved")
    with peer(moved) as (address, heard), pytest.raises(RequestError, match="not from a siloquent"):
        send(address).require_document()
    assert len(heard) == 1


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_with_a_document_is_no_answer_and_no_file(status: int, tmp_path: Path) -> None:
    moved = (status, {"Location": "http://evil.example.org"}, b'{"tables": []}')
    with peer(moved) as (address, heard):
        session = RemoteSession(ServerLink(address, TOKEN))
        with pytest.raises(RequestError):
            session.list_tables()
        with pytest.raises(RequestError):
            session.download("r-000001", "answer.parquet", tmp_path / "file")
    assert len(heard) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("told", [{}, {"rows": 3}, {"accuracy": {"alpha": "x"}}, {"accuracy": []}])
def test_an_answer_that_cannot_be_read_leaves_word_of_what_may_be_spent(told: dict[str, Any]) -> None:
    with peer((200, {}, json.dumps(told).encode())) as (address, _), pytest.raises(RequestError) as lost:
        RemoteSession(ServerLink(address, TOKEN)).ask("SELECT COUNT(*) FROM t ERROR 9", key="k")
    assert "perhaps the price" in lost.value.spent


def test_a_connection_that_breaks_below_tls_is_tried_again_and_its_price_is_not_denied(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    heard = 0
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def break_below() -> None:
            nonlocal heard
            for _ in range(2):
                raw, _ = listening.accept()
                with tls.wrap_socket(raw, server_side=True) as inside:
                    heard += len(inside.recv(65_536)) > 0
                    os.write(inside.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)

        peer_thread = threading.Thread(target=break_below)
        peer_thread.start()
        address = f"https://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(RequestError, match="Could not connect") as lost:
            send(address, "answer", {"sql": "x"}, key="k", attempts=2)
        peer_thread.join()
    assert heard == 2
    assert "perhaps the price" in lost.value.spent


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"\xff", b"[" * 100_000])
def test_what_answers_and_is_no_server_is_told_apart(body: bytes) -> None:
    for status in (200, 500):
        with peer((status, {}, body)) as (address, _), pytest.raises(RequestError, match="not from a siloquent"):
            send(address).require_document()


def test_an_answer_beyond_all_bounds_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siloquent.remote.calls.MAX_DOCUMENT_BYTES", 1_000)
    with peer((200, {}, b"x" * 5_000)) as (address, _), pytest.raises(RequestError, match="too large"):
        send(address)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(409, "budget_exceeded", BudgetExceeded), (404, "unknown_name", UnknownName), (403, "forged", NotAllowed),
     (401, "unauthorised", NotAllowed), (429, "busy", RequestError)],
)  # fmt: skip
def test_a_problem_is_the_error_that_it_would_be_here(status: int, code: str, kind: type[Exception]) -> None:
    error = parse_error(status, json.dumps({"code": code, "detail": "so it is", "fix": "x", "notes": ["n"]}).encode())
    assert type(error) is kind
    assert (error.code, error.detail, error.fix, error.spent, error.__notes__) == (
        code,
        "so it is",
        "x",
        "nothing",
        ["n"],
    )


@pytest.mark.parametrize(
    "wrong",
    [
        UnknownName("table", "vists", ["visits", "wards"]),
        SyntaxProblem("The query is not valid SQL.", position=7, expected="FROM"),
        BudgetExceeded("visits@1/ana", asked="rho 2", left="rho 1"),
        AccuracyUnreachable("Too small.", best_alpha=41.5),
        ChainBroken("An entry was changed.", seq=12),
        MissingExtra("spark", "This source"),
        ProtocolError("bad_seal", role="north", step="2"),
    ],
)
def test_the_attributes_of_an_error_travel_as_fields(wrong: SiloquentError) -> None:
    document = build_problem(wrong).to_json()
    for detail in (document["detail"], "Tabelle unbekannt."):  # what people read may change
        error = parse_error(400, json.dumps({**document, "detail": detail}).encode())
        assert (type(error), error.code) == (type(wrong), wrong.code) or isinstance(wrong, ProtocolError)
        assert error.detail == detail
        if type(error) is type(wrong):
            assert {name: getattr(error, name) for name in wrong.FIELDS} == {
                name: getattr(wrong, name) for name in wrong.FIELDS
            }


@pytest.mark.parametrize("about", [None, 5, [], {"known": 5, "near": 7, "kind": None}, {"known": [1, "x"]}])
def test_an_error_without_its_fields_is_still_one(about: object) -> None:
    error = parse_error(404, json.dumps({"code": "unknown_name", "detail": "no", "about": about}).encode())
    assert isinstance(error, UnknownName)
    assert (error.kind, error.near) == ("", None)
    assert error.known in ([], ["x"])


def test_a_session_says_no_token_when_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SILOQUENT_TOKEN", "SILOQUENT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotAllowed, match="token"):
        connect("https://clinic.example.org")


@pytest.mark.parametrize("notes", [5, "x", {"a": 1}, None])
def test_notes_that_are_none_do_not_hide_what_was_refused(notes: object) -> None:
    told = parse_error(403, json.dumps({"code": "not_allowed", "detail": "no", "notes": notes}).encode())
    assert (type(told), told.detail) == (NotAllowed, "no")


RELEASE = {"id": "r-000001", "task": "explore", "table": "visits"}
MANIFEST = {**RELEASE, "files": [{"name": "answer.parquet", "sha256": hashlib.sha256(b"as released").hexdigest()}]}


def test_a_file_that_is_not_the_manifests_is_not_written(tmp_path: Path) -> None:
    for data in (b"as released", b"something else"):
        gone = (404, {"Content-Type": "application/problem+json"}, b'{"code": "not_found", "detail": "no"}')
        with peer((200, {}, json.dumps(MANIFEST).encode()), (200, {}, data), gone) as (address, _):
            session, folder = RemoteSession(ServerLink(address, TOKEN)), tmp_path / data.decode()
            if data == b"as released":
                session.fetch("r-000001", folder)
                assert (folder / "answer.parquet").read_bytes() == data
                continue
            with pytest.raises(ReleaseError, match="does not match the manifest"):
                session.fetch("r-000001", folder)
            assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", ""])
def test_a_manifest_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    manifest = {**RELEASE, "files": [{"name": name, "sha256": hashlib.sha256(b"x").hexdigest()}]}
    answers = (200, {}, json.dumps(manifest).encode()), (200, {}, b"x")
    with peer(*answers) as (address, _), pytest.raises(RequestError):
        RemoteSession(ServerLink(address, TOKEN)).fetch("r-000001", tmp_path / "got")
    assert [one.name for one in tmp_path.rglob("*")] == ["got"]


@pytest.mark.parametrize("manifest", [{}, {"files": 5}, {"files": [5]}, {"files": [{"name": "x"}]}])
def test_a_manifest_that_is_none_makes_no_folder(tmp_path: Path, manifest: dict[str, Any]) -> None:
    answer = (200, {}, json.dumps({**RELEASE, **manifest}).encode())
    with peer(answer) as (address, _), pytest.raises(RequestError, match="cannot be read"):
        RemoteSession(ServerLink(address, TOKEN)).fetch("r-000001", tmp_path / "got")
    assert not (tmp_path / "got").exists()


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "9" * 5_000, "1/0", "1/00", "nan", "", None, 5, "0x1"])
def test_an_amount_beyond_all_bounds_is_refused_before_it_is_computed(text: object) -> None:
    with pytest.raises(RequestError):
        parse_amount(text)
    with peer((200, {}, json.dumps({"cost": {"epsilon": text}, "left_before": text}).encode())) as (address, _):
        found = RemoteSession(ServerLink(address, TOKEN)).explain("SELECT COUNT(*) FROM t ERROR 5")
        for name in ("price", "left_before"):
            with pytest.raises(RequestError):
                getattr(found, name)


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("kind", ["text/html", "application/json", None])
def test_a_proxy_that_speaks_for_a_server_is_not_an_answer(
    status: int, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: Answer = (status, {"Content-Type": kind} if kind else {}, b"<html>Bad Gateway</html>")
    with peer(gone, (200, {}, b'{"a": 1}')) as (address, heard):
        assert send(address, "answer", {}, key="k").require_document() == {"a": 1}
    assert [headers["Idempotency-Key"] for _, headers, _ in heard] == ["k", "k"]
    with peer(gone) as (address, heard), pytest.raises(RequestError, match="Could not connect") as lost:
        send(address, "answer", {}, key="k")
    assert len(heard) == 4
    assert "perhaps the price" in lost.value.spent
    with peer(gone) as (address, heard), pytest.raises(RequestError):
        send(address, "decide_session", {})
    assert len(heard) == 1, "what has no key is sent once"


def test_a_servers_own_503_keeps_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = json.dumps({"code": "too_slow", "detail": "so it is"}).encode()
    own: Answer = (503, {"Content-Type": "application/problem+json"}, problem)
    with peer(own) as (address, _), pytest.raises(RequestError, match="so it is"):
        send(address, "answer", {}, key="k")


@pytest.mark.parametrize("status", [400, 413, 500])
def test_no_answer_but_a_problem_document_says_that_a_keyed_request_cost_nothing(status: int) -> None:
    with peer((status, {}, b"<html>")) as (address, _), pytest.raises(RequestError) as lost:
        send(address, "answer", {}, key="k")
    assert "perhaps the price" in lost.value.spent
