"""A workspace behind a server: the same verbs as in ``siloquent.open``, over HTTP, with a token.

session = siloquent.connect("https://clinic.example.org")      # the token from SILOQUENT_TOKEN or a file
session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200").table
"""

from siloquent.remote.answers import RemoteAnswer, RemoteExplanation
from siloquent.remote.exchange import Timeouts
from siloquent.remote.session import AsyncRemoteSession, RemoteSession, connect, connect_async

__all__ = [
    "AsyncRemoteSession",
    "RemoteAnswer",
    "RemoteExplanation",
    "RemoteSession",
    "Timeouts",
    "connect",
    "connect_async",
]
