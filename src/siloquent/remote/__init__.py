"""A client for a workspace on a server: the same verbs as in ``siloquent.open``, over HTTP, with a token.

session = siloquent.connect("https://clinic.example.org")      # the token from SILOQUENT_TOKEN or a file
session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200").table
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods
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

if not TYPE_CHECKING:  # the names of 0.1
    for _kind in (RemoteSession, AsyncRemoteSession):
        keep_old_methods(
            _kind,
            {
                "me": "get_person",
                "tables": "list_tables",
                "table_lines": "list_table_lines",
                "table_document": "get_table_document",
                "account": "get_account",
                "left": "get_remaining",
                "history": "get_history",
                "accounts": "list_accounts",
                "entries": "list_entries",
                "account_entries": "list_account_entries",
                "ledger_id": "get_ledger_id",
                "releases": "list_releases",
                "release": "get_release",
                "jobs": "list_jobs",
                "job": "get_job",
                "events": "iter_events",
            },
        )
