"""Bodies that would fill a machine, and the routes that they are sent to: uploads to a server, messages to a relay."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import json
import lzma
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.bombs import files as bombs

Route = tuple[str, str]
SESSION = "ab" * 32
PUT, ACK = ("PUT", f"/v1/sessions/{SESSION}/messages/river/a/0/0"), ("POST", "/v1/inbox/ack")
MIB = 2**20


def packed(name: str) -> bytes:
    """A hundred MB of zeros in a few kB."""
    made: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "xz": lambda data: lzma.compress(data, preset=1),
        "bzip2": bz2.compress,
        "zstd": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
        "zip": lambda _: bombs.arrays(2**23, 1, zipfile.ZIP_DEFLATED),
    }
    return made[name](bytes(10**8))


PACKED = ("gzip", "xz", "bzip2", "zstd", "zip")


class Refused(ValueError):
    """A body that a route did not take, by the code of its problem."""


def answer_to(app: Any, route: Route, headers: Mapping[str, str], chunks: Iterator[bytes]) -> tuple[int, Any, int]:
    """The status and document with which ``app`` answers a body, and how many bytes of that it took."""
    sent: list[dict[str, Any]] = []
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        chunk = next(chunks, b"")
        taken += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": route[0],
        "scheme": "http",
        "path": route[1],
        "raw_path": route[1].encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    asyncio.run(app(scope, receive, send))
    text = b"".join(one.get("body", b"") for one in sent)
    return int(sent[0]["status"]), json.loads(text) if text else {}, taken


def refused(found: tuple[int, Any, int]) -> int:
    """How many bytes of a body were taken until it was refused."""
    status, document, taken = found
    if 400 <= status < 500 and document.get("code"):
        raise Refused(document["code"])
    return taken


def relay_of(folder: Path) -> Any:
    """The relay's routes, for whoever comes: its certificates are another matter."""
    from siloquent.federation.relay.app import Relay
    from siloquent.federation.relay.store import RelayStore

    return Relay(RelayStore(folder / "relay.sqlite"), lambda *_: "north", frozenset).build_app()


def as_message(path: Path) -> None:
    """Leave a file with a relay: as an envelope, and as one whose length is untrue."""
    with tempfile.TemporaryDirectory() as folder:
        app, data = relay_of(Path(folder)), path.read_bytes()
        try:
            refused(answer_to(app, PUT, {"Content-Length": "100", "Transfer-Encoding": "chunked"}, pieces(data)))
        except Refused:
            refused(answer_to(app, PUT, {"Content-Length": str(len(data))}, pieces(data)))


def as_upload(path: Path) -> None:
    """Upload a file to a server over its route; to be taken is as good as a refusal, if it costs as little."""
    import siloquent
    from benchmarks.trials.served import token
    from siloquent.server import make_app, read_settings

    with tempfile.TemporaryDirectory() as folder:
        workspace = siloquent.create_workspace(Path(folder) / "w").folder
        app = make_app(workspace, read_settings(workspace, environment={}, flags={}))
        headers = {"Authorization": f"Bearer {token(workspace, 'owner', 'owner')}"}
        refused(answer_to(app, ("POST", "/v1/uploads"), headers, pieces(path.read_bytes())))
    raise ValueError("it was taken")


def pieces(data: bytes) -> Iterator[bytes]:
    """A body as it arrives."""
    return (data[at : at + MIB] for at in range(0, len(data), MIB))
