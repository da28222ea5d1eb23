"""A real server over a small clinic, in a thread of the test's process, and a client for each role."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from journeys.clinic import TOML, write_source
from journeys.described import Described
from siloquent.server import make_app, read_settings
from siloquent.session import create_workspace

WIDE = TOML.replace('epsilon = "1"', 'epsilon = "1000"').replace('ana = "1", bo = "0.001"', 'ana = "1", bo = "1"')


@dataclass(frozen=True)
class Served:
    """A server that runs: its address, its folder, the text of a token for each role.

    Whatever a client of it is answered is compared with the API's own description.
    """

    address: str
    folder: Path
    app: Any
    texts: dict[str, str] = field(default_factory=dict)

    def client(self, name: str, **headers: str) -> httpx.Client:
        """A client that speaks for ``name`` (ana, bo, owner, auditor), or for nobody."""
        token = {"Authorization": f"Bearer {self.texts[name]}"} if name in self.texts else {}
        hooks = {"response": [Described.of(self.app).check]}
        return httpx.Client(base_url=self.address, headers={**token, **headers}, timeout=60, event_hooks=hooks)

    def ask(self, name: str, sql: str, key: str, **more: Any) -> httpx.Response:
        """``POST /v1/answers``."""
        with self.client(name, **{"Idempotency-Key": key}) as client:
            return client.post("/v1/answers", json={"sql": sql, **more})


def clinic_workspace(folder: Path, *, toml: str = WIDE, ledger: str = "ledger.sqlite") -> Path:
    """A workspace with the table visits and money for thousands of questions."""
    workspace = create_workspace(folder, ledger=ledger)
    (workspace.schemas / "visits.toml").write_text(toml.replace("SOURCE", write_source(folder, "parquet")))
    return folder


@contextmanager
def serving(folder: Path, **flags: Any) -> Iterator[Served]:
    """Serve ``folder`` for as long as the block runs; rates are wide unless the test sets them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    wide = {"rate_per_second": 1e6, "burst": 10**6, "port": port}
    app = make_app(folder, read_settings(folder, environment={}, flags={**wide, **flags}))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        tokens = app.state.house.tokens
        roles = {"ana": "analyst", "bo": "analyst", "owner": "owner", "auditor": "auditor"}
        roles |= {"devices": "collector", "watcher": "operator"}
        texts = {name: tokens.create(name, role) for name, role in roles.items()}
        yield Served(f"http://127.0.0.1:{port}", folder, app, texts)
    finally:
        server.should_exit = True
        thread.join()
