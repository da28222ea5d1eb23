"""Parts of a session, as ``session.ledger`` and ``session.sketch``: each blocking and awaited, over its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.remote.faces import Awaiting, Blocking
from siloquent.remote.verbs.money import LedgerVerbs
from siloquent.remote.verbs.tasks import SearchVerbs, ShareVerbs, SketchVerbs, SynthVerbs

if TYPE_CHECKING:
    from siloquent.remote.async_transport import AsyncTransport
    from siloquent.remote.transport import Transport


class BlockingPart(Blocking):
    """A part of a blocking session."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport


class AwaitingPart(Awaiting):
    """A part of an asynchronous session."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


class RemoteLedger(LedgerVerbs, BlockingPart):
    """The ledger behind a server, to read."""


class AsyncRemoteLedger(LedgerVerbs, AwaitingPart):
    """The ledger behind a server, to read; every verb is awaited."""


class RemoteSketch(SketchVerbs, BlockingPart):
    """Sketches that a server builds."""


class AsyncRemoteSketch(SketchVerbs, AwaitingPart):
    """Sketches that a server builds; every verb is awaited."""


class RemoteSynth(SynthVerbs, BlockingPart):
    """Synthetic tables that a server fits."""


class AsyncRemoteSynth(SynthVerbs, AwaitingPart):
    """Synthetic tables that a server fits; every verb is awaited."""


class RemoteSearch(SearchVerbs, BlockingPart):
    """Offers that a server makes."""


class AsyncRemoteSearch(SearchVerbs, AwaitingPart):
    """Offers that a server makes; every verb is awaited."""


class RemoteShare(ShareVerbs, BlockingPart):
    """Releases for other silos that a server makes."""


class AsyncRemoteShare(ShareVerbs, AwaitingPart):
    """Releases for other silos that a server makes; every verb is awaited."""
