"""Sessions at a server: one that blocks, one that is awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from siloquent.remote.async_transport import AsyncApiTransport
from siloquent.remote.clients import AwaitingClient, BlockingClient
from siloquent.remote.documents import Job
from siloquent.remote.event_reader import EventReader
from siloquent.remote.exchange import ServerLink, Timeouts
from siloquent.remote.parts import (
    AsyncRemoteDiscover,
    AsyncRemoteLedger,
    AsyncRemoteSearch,
    AsyncRemoteShare,
    AsyncRemoteSketch,
    AsyncRemoteSynth,
    RemoteDiscover,
    RemoteLedger,
    RemoteSearch,
    RemoteShare,
    RemoteSketch,
    RemoteSynth,
)
from siloquent.remote.tokens import find_token
from siloquent.remote.transport import ApiTransport
from siloquent.remote.verbs import SessionVerbs

if TYPE_CHECKING:
    from siloquent.schema import AccuracyDefaults


class RemoteSession(SessionVerbs, BlockingClient):
    """A person's session with a workspace on a server: the token identifies the person and the share that pays.

    Verbs of a ``siloquent.Session`` do the same here, with the same arguments and results; the others are operations of
    the API. Connections are kept until ``close``; threads may share a session, and so may the child of a fork. A
    request is repeated where that is safe: reads, and spending requests under their key.
    """

    def __init__(self, link: ServerLink, *, defaults: AccuracyDefaults | None = None) -> None:
        self._transport, self.defaults = ApiTransport(link), defaults

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the session can no longer be used."""
        self._transport.close()

    @property
    def ledger(self) -> RemoteLedger:
        """The ledger: its accounts, entries, head, verification and checkpoints."""
        return RemoteLedger(self._transport)

    @property
    def sketch(self) -> RemoteSketch:
        """Sketches: ``build``, ``explain``, ``load``."""
        return RemoteSketch(self._transport)

    @property
    def synth(self) -> RemoteSynth:
        """Synthetic tables: ``synthesize``, ``explain``, ``load``."""
        return RemoteSynth(self._transport)

    @property
    def discover(self) -> RemoteDiscover:
        """Discoveries of values and bounds, by a call; and ``explain``."""
        return RemoteDiscover(self._transport)

    @property
    def search(self) -> RemoteSearch:
        """Offers: ``offer``, ``find``, ``explain``, ``load``."""
        return RemoteSearch(self._transport)

    @property
    def share(self) -> RemoteShare:
        """Releases for other silos: ``release``, ``explain``, ``load``."""
        return RemoteShare(self._transport)

    def iter_events(self, number: str) -> Iterator[Job]:
        """Yield the job whenever it changes, until it has ended; a broken connection is resumed where it ended.

        Raises:
            RequestError: there is no such job. Unanswered: no server answers.
        """
        self._require_open()
        following = EventReader(number, self._link)
        while not following.has_ended:
            for piece in self._transport.iter_pieces(following.build_call()):
                if isinstance(piece, bytes):
                    yield from following.hear(piece)
                elif not following.has_ended:
                    time.sleep(following.compute_pause(piece))


class AsyncRemoteSession(SessionVerbs, AwaitingClient):
    """A ``RemoteSession`` whose verbs are awaited; it needs the extra ``client``."""

    def __init__(self, link: ServerLink, *, defaults: AccuracyDefaults | None = None) -> None:
        self._transport, self.defaults = AsyncApiTransport(link), defaults

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the session can no longer be used."""
        await self._transport.close()

    @property
    def ledger(self) -> AsyncRemoteLedger:
        """The ledger: its accounts, entries, head, verification and checkpoints."""
        return AsyncRemoteLedger(self._transport)

    @property
    def sketch(self) -> AsyncRemoteSketch:
        """Sketches: ``build``, ``explain``, ``load``."""
        return AsyncRemoteSketch(self._transport)

    @property
    def synth(self) -> AsyncRemoteSynth:
        """Synthetic tables: ``synthesize``, ``explain``, ``load``."""
        return AsyncRemoteSynth(self._transport)

    @property
    def discover(self) -> AsyncRemoteDiscover:
        """Discoveries of values and bounds, by a call; and ``explain``."""
        return AsyncRemoteDiscover(self._transport)

    @property
    def search(self) -> AsyncRemoteSearch:
        """Offers: ``offer``, ``find``, ``explain``, ``load``."""
        return AsyncRemoteSearch(self._transport)

    @property
    def share(self) -> AsyncRemoteShare:
        """Releases for other silos: ``release``, ``explain``, ``load``."""
        return AsyncRemoteShare(self._transport)

    async def iter_events(self, number: str) -> AsyncIterator[Job]:
        """Yield the job whenever it changes, as ``RemoteSession.iter_events`` does."""
        self._require_open()
        following = EventReader(number, self._link)
        while not following.has_ended:
            async for piece in self._transport.iter_pieces(following.build_call()):
                if isinstance(piece, bytes):
                    for job in following.hear(piece):
                        yield job
                elif not following.has_ended:
                    await asyncio.sleep(following.compute_pause(piece))


def connect(
    address: str,
    *,
    token_file: Path | str | None = None,
    timeout: float | Timeouts | None = None,
    attempts: int = 4,
    defaults: AccuracyDefaults | None = None,
) -> RemoteSession:
    """Return a session at the server of ``address``. The token comes from a file or the environment, never from code.

    Args:
        address: ``https://...``; ``http://`` only within this machine.
        token_file: A file of mode 600 (default: SILOQUENT_TOKEN, or the file that SILOQUENT_TOKEN_FILE names).
        timeout: Seconds for one request with its attempts and pauses, or ``Timeouts`` (default: 10 to connect, 60
            between two pieces of an answer, 300 in all).
        attempts: The most attempts per request, where repeating it is safe.
        defaults: The accuracy of questions that state none; without it, the server's.
    Raises:
        NotAllowed: there is no token, or others may read its file.
        RequestError: the address is invalid, or a timeout is not positive.
    """
    return RemoteSession(_build_link(address, token_file, timeout, attempts), defaults=defaults)


def connect_async(
    address: str,
    *,
    token_file: Path | str | None = None,
    timeout: float | Timeouts | None = None,
    attempts: int = 4,
    defaults: AccuracyDefaults | None = None,
) -> AsyncRemoteSession:
    """Return an asynchronous session: ``async with siloquent.connect_async(...) as session: await session.ask(...)``.

    Raises:
        MissingExtra: h11 is not installed (``pip install 'siloquent[client]'``).
        NotAllowed, RequestError: as ``connect`` does.
    """
    return AsyncRemoteSession(_build_link(address, token_file, timeout, attempts), defaults=defaults)


def _build_link(
    address: str, token_file: Path | str | None, timeout: float | Timeouts | None, attempts: int
) -> ServerLink:
    if timeout is None:
        times = Timeouts()
    elif isinstance(timeout, Timeouts):
        times = timeout
    else:
        Timeouts(total=timeout)  # refuses values that are not positive numbers
        times = Timeouts(min(10.0, timeout), min(60.0, timeout), timeout)
    return ServerLink(address, find_token(token_file), times, attempts)
