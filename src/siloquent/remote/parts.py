"""Parts of a session, such as ``session.ledger`` and ``session.sketch``, blocking and awaited, on its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.remote.clients import AwaitingClient, BlockingClient
from siloquent.remote.verbs.spending import RemoteLedgerVerbs
from siloquent.remote.verbs.tasks import (
    RemoteDiscoverVerbs,
    RemoteSearchVerbs,
    RemoteShareVerbs,
    RemoteSketchVerbs,
    RemoteSynthVerbs,
)

if TYPE_CHECKING:
    from siloquent.remote.async_transport import AsyncApiTransport
    from siloquent.remote.transport import ApiTransport


class BlockingPart(BlockingClient):
    """A part of a blocking session."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport


class AwaitingPart(AwaitingClient):
    """A part of an asynchronous session."""

    def __init__(self, transport: AsyncApiTransport) -> None:
        self._transport = transport


class RemoteLedger(RemoteLedgerVerbs, BlockingPart):
    """Read access to the ledger of a server."""


class AsyncRemoteLedger(RemoteLedgerVerbs, AwaitingPart):
    """Read access to the ledger of a server; every verb is awaited."""


class RemoteSketch(RemoteSketchVerbs, BlockingPart):
    """Sketches that a server builds."""


class AsyncRemoteSketch(RemoteSketchVerbs, AwaitingPart):
    """Sketches that a server builds; every verb is awaited."""


class RemoteSynth(RemoteSynthVerbs, BlockingPart):
    """Synthetic tables that a server fits."""


class AsyncRemoteSynth(RemoteSynthVerbs, AwaitingPart):
    """Synthetic tables that a server fits; every verb is awaited."""


class RemoteSearch(RemoteSearchVerbs, BlockingPart):
    """Offers that a server makes."""


class AsyncRemoteSearch(RemoteSearchVerbs, AwaitingPart):
    """Offers that a server makes; every verb is awaited."""


class RemoteShare(RemoteShareVerbs, BlockingPart):
    """Releases for other silos that a server makes."""


class AsyncRemoteShare(RemoteShareVerbs, AwaitingPart):
    """Releases for other silos that a server makes; every verb is awaited."""


class RemoteDiscover(RemoteDiscoverVerbs, BlockingPart):
    """Discoveries that a server makes."""


class AsyncRemoteDiscover(RemoteDiscoverVerbs, AwaitingPart):
    """Discoveries that a server makes; every verb is awaited."""
