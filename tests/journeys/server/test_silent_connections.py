"""``siloquent serve`` with a certificate of its own: connections that say nothing take nobody's place."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from forked import build_command
from journeys.clinic import Person
from journeys.proxied import certificate, free_port, program
from journeys.served import clinic_workspace
from siloquent.server.access.tokens import Tokens
from siloquent.server.store import Store

PLACES, SILENT = 20, 60
pytestmark = pytest.mark.skipif(program("openssl") is None, reason="no openssl here")


def test_a_person_is_served_by_tls_beside_connections_that_never_begin_it(tmp_path: Path) -> None:
    folder, port, chain = clinic_workspace(tmp_path / "clinic"), free_port(), certificate(tmp_path)
    with closing(Store(folder / "server.sqlite")) as store:
        token = Tokens(store).create("ana", "analyst")
    words = [*build_command(), "--workspace", str(folder), "serve", "--port", str(port)]
    words += ["--tls-cert", str(chain), "--tls-key", str(chain.with_name("key.pem"))]
    environment = {**os.environ, "SILOQUENT_CONNECTIONS": str(PLACES)}
    log, trust = tmp_path / "log", ssl.create_default_context(cafile=chain)
    client = httpx.Client(
        base_url=f"https://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, verify=trust
    )
    with (
        log.open("wb") as said,
        subprocess.Popen(words, env=environment, stderr=said) as server,
        client,
        ExitStack() as held,
    ):
        try:
            while True:
                with suppress(httpx.TransportError):
                    assert client.get("/healthz").status_code == 200
                    break
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            for number in range(SILENT):
                one = socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.0.{2 + number % 9}", 0))
                held.enter_context(one).sendall((b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n")[number % 3])
                if number % 10 == 9:
                    with httpx.Client(base_url=client.base_url, headers=client.headers, verify=trust) as new:
                        assert new.get("/v1/me").json()["name"] == "ana"
            assert client.get("/v1/me").headers["strict-transport-security"]
        finally:
            server.terminate()
    assert log.read_text().count("all places for connections are taken") == 1
    assert log.stat().st_size < 2_000, log.read_text()


@pytest.mark.parametrize("fault", ["none there", "no certificate", "another key"])
def test_a_certificate_that_cannot_be_used_is_said_before_anybody_is_served(tmp_path: Path, fault: str) -> None:
    folder, chain = clinic_workspace(tmp_path / "clinic"), certificate(tmp_path)
    key = chain.with_name("key.pem")
    if fault == "none there":
        chain.unlink()
    elif fault == "no certificate":
        chain.write_text("no")
    else:
        (tmp_path / "other").mkdir()
        key = certificate(tmp_path / "other").with_name("key.pem")
    said = Person(tmp_path).types("--workspace", folder.name, "serve", "--tls-cert", str(chain), "--tls-key", str(key))
    assert said.status == 2
    assert "cannot be used" in said.err
