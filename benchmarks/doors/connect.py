"""What a session at a server costs its own process: each answer over a kept connection, and over one of its own."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.core.ledger import folder_on_disk
from benchmarks.row import Options, Row
from benchmarks.trials.served import QUESTION, WIDE, Running, running, token, workspace
from siloquent.remote import RemoteSession
from siloquent.remote.exchange import ServerLink

ROUNDS = 7


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if any(options.wants(f"client-{name}") for name in ("cpu-http", "cpu-tls", "cpu-ratio")):
        yield from client_cpu(20 if options.quick else 200)


def client_cpu(asks: int) -> Iterator[Row]:
    """CPU milliseconds of one repeated answer in the client, and their ratio to a connection for each answer."""
    with folder_on_disk() as disk:
        folder, pem = workspace(disk / "w", epsilon="1000000"), certificate(disk)
        text = token(folder, "ana")
        with running(folder, SLOT_COUNTS_MS="1") as server:
            kept, fresh = _both(ServerLink(server.address, text), asks)
        how = f"{asks} asks, median of {ROUNDS} rounds; a connection for each: {fresh:.2f} ms"
        yield Row("client-cpu-http", ours=kept, unit="ms", how=how)
        with patch.dict(os.environ, {"SSL_CERT_FILE": str(pem)}), _with_tls(folder, pem) as address:
            kept, fresh = _both(ServerLink(address, text), asks)
        how = f"{asks} asks, median of {ROUNDS} rounds; a connection for each: {fresh:.2f} ms"
        yield Row("client-cpu-tls", ours=kept, unit="ms", how=how)
        yield Row("client-cpu-ratio", ours=kept / fresh, goal=0.5, how="over TLS: kept, by a connection for each ask")


def _both(link: ServerLink, asks: int) -> tuple[float, float]:
    """CPU milliseconds of an ask over a kept connection, and over one of its own; rounds take turns."""
    with RemoteSession(link) as session:
        session.ask(QUESTION, key="warm")

        def over_kept() -> None:
            session.ask(QUESTION, key="warm")

        def over_fresh() -> None:
            with RemoteSession(link) as once:
                once.ask(QUESTION, key="warm")

        found: list[tuple[float, float]] = []
        for _ in range(ROUNDS):
            used = []
            for ask in (over_kept, over_fresh):
                started = time.process_time()
                for _ in range(asks):
                    ask()
                used.append(1000 * (time.process_time() - started) / asks)
            found.append((used[0], used[1]))
    return median(kept for kept, _ in found), median(fresh for _, fresh in found)


@contextmanager
def _with_tls(folder: Path, pem: Path) -> Iterator[str]:
    """The address of a server that ends TLS itself."""
    with running(folder) as plain:  # for a port that is free
        port = plain.port
    words = ["--workspace", str(folder), "--quiet", "serve", "--port", str(port)]
    words += ["--tls-cert", str(pem), "--tls-key", str(pem)]
    settings = {f"SILOQUENT_{name}": value for name, value in WIDE.items()}
    process = subprocess.Popen([sys.executable, "-m", "siloquent", *words], env={**os.environ, **settings})
    try:
        _wait(port)
        yield f"https://127.0.0.1:{port}"
    finally:
        Running(folder, port, {}, process=process).stop()


def _wait(port: int) -> None:
    for _ in range(1_200):
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
            ssl.create_default_context().wrap_socket(raw, server_hostname="127.0.0.1"),
        ):
            return
        time.sleep(0.025)
    raise RuntimeError("the server does not answer")


def certificate(folder: Path) -> Path:
    """A certificate for this machine, with its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1)).add_extension(names, critical=False)
    signed = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, hashes.SHA256()
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = folder / "server.pem"
    file.touch(mode=0o600)
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + secret)
    return file
