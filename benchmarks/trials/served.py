"""A server in a process of its own over a small generated table, and clients that race, wait, or kill it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, BinaryIO

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from siloquent.session import create_workspace

WARDS = ("A", "B", "C", "D")
QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 100 CONFIDENCE 0.99 REUSE NONE"
TOML = """\
format = 1
attribute = [{{ name = "ward", type = "category", values = ["A", "B", "C", "D"], null = "drop" }}]
[table]
name = "visits"
source = "parquet:visits.parquet"
adjacency = "add-remove"
size_hint = 20000
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "{epsilon}"
"""
WIDE = {"RATE_PER_SECOND": "1e9", "BURST": "1000000000", "RUNNING": "1000", "QUEUE": "1000", "ANSWER_SECONDS": "600"}


def workspace(folder: Path, *, epsilon: str) -> Path:
    """A workspace with 20,000 generated rows and this budget."""
    made = create_workspace(folder)
    wards = np.random.default_rng(1).choice(np.array(WARDS, dtype=object), 20_000)
    pq.write_table(pa.table({"ward": pa.array(wards)}), folder / "visits.parquet")
    (made.schemas / "visits.toml").write_text(TOML.format(epsilon=epsilon))
    return folder


def token(folder: Path, name: str, role: str = "analyst") -> str:
    """A token of the server in ``folder``."""
    from siloquent.server.access.tokens import Tokens
    from siloquent.server.store import Store

    store = Store(folder / "server.sqlite")
    try:
        return Tokens(store).create(name, role)
    finally:
        store.close()


LOADED = (
    *("siloquent.cli.app", "siloquent.server", "siloquent.api", "siloquent.explore.task", "uvicorn"),
    *("duckdb", "opendp.measurements", "pandas", "pyarrow.parquet", "sqlalchemy.dialects.sqlite", "sqlglot.optimizer"),
)


class Forked:
    """A process of its own whose modules were loaded once, for many: a thousand starts take a tenth of the time."""

    def __init__(self, words: list[str], settings: dict[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*LOADED, __name__])
        self._process = context.Process(target=_command, args=(words, settings))
        self._process.start()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._process.exitcode

    def wait(self) -> None:
        """Wait for its end."""
        self._process.join()


def _command(words: list[str], settings: dict[str, str]) -> None:
    from siloquent.cli.app import run

    os.environ.update(settings)
    sys.exit(run(words))


@dataclass(slots=True)
class Running:
    """A server's process and its address; ``prepared``: as ``Forked``; ``said``: where it writes its log."""

    folder: Path
    port: int
    settings: dict[str, str]
    prepared: bool = False
    said: BinaryIO | None = None
    process: subprocess.Popen[bytes] | Forked | None = None

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"{'https' if self.settings.get('TLS_CERT') else 'http'}://127.0.0.1:{self.port}"

    def _connection(self) -> HTTPConnection:
        if not self.settings.get("TLS_CERT"):
            return HTTPConnection("127.0.0.1", self.port, timeout=5)
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE  # it is our own server, on this machine
        return HTTPSConnection("127.0.0.1", self.port, timeout=5, context=trusting)

    def start(self) -> None:
        """Start the process and wait until it answers."""
        words = ["--workspace", str(self.folder), "--quiet", "serve", "--port", str(self.port)]
        settings = {f"SILOQUENT_{name}": value for name, value in self.settings.items()}
        if self.prepared:
            self.process = Forked(words, settings)
        else:
            command = [sys.executable, "-m", "siloquent", *words]
            self.process = subprocess.Popen(command, env={**os.environ, **settings}, stderr=self.said)
        for _ in range(4_800):
            with suppress(OSError), closing(self._connection()) as connection:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            time.sleep(0.025)
        raise RuntimeError("the server does not answer")

    def kill(self) -> None:
        """End the process as a power cut would."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End the process as an operator would."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGINT)
            self.process.wait()

    def cpu_seconds(self) -> float:
        """What the process has used of processors so far, and those of its children that have ended."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """The resident memory of the process and its children."""
        assert self.process is not None
        return _resident(self.process.pid)

    def memory_alone(self) -> int:
        """The resident memory of the process without its children."""
        assert self.process is not None
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _resident(process: int) -> int:
    """The resident memory of a process and its children; nothing of those that have just ended."""
    place, pages = Path(f"/proc/{process}"), 0
    with suppress(OSError):
        pages = int((place / "statm").read_text().split()[1])
        children = [child for task in (place / "task").iterdir() for child in (task / "children").read_text().split()]
        return pages * os.sysconf("SC_PAGE_SIZE") + sum(_resident(int(child)) for child in children)
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(
    folder: Path, *, prepared: bool = False, said: BinaryIO | None = None, **settings: str
) -> Iterator[Running]:
    """A server for as long as the block runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Running(folder, port, {**WIDE, **settings}, prepared, said)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def in_threads(clients: int, work: Callable[[int], Any]) -> list[Any]:
    """``work(0)``, ..., ``work(clients - 1)`` at once, each on a thread of its own."""
    found: list[Any] = [None] * clients

    def one(number: int) -> None:
        found[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def ask(client: httpx.Client, key: str, sql: str = QUESTION) -> httpx.Response:
    """``POST /v1/answers``."""
    return client.post("/v1/answers", json={"sql": sql}, headers={"Idempotency-Key": key})


def client_of(server: Running, text: str) -> httpx.Client:
    """A client with this token."""
    headers = {"Authorization": f"Bearer {text}"}
    return httpx.Client(base_url=server.address, headers=headers, timeout=120, verify=False)  # no TLS: nothing to load
