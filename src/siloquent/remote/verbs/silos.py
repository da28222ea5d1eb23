"""Work with other silos and with devices: catalogues, sessions of a federation, collections."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from siloquent.errors import RequestError
from siloquent.remote.calls import call
from siloquent.remote.documents import Catalogue, CollectAnswer, Counts, Federation, FederationSession
from siloquent.remote.exchange import Steps
from siloquent.remote.faces import Face, verb
from siloquent.remote.told import Field, Told, many, text


class _Names(Told):
    collections = Field(many(text))


class _Decision(Told):
    decision = Field(text)


class SiloVerbs(Face):
    """catalogue, federation, federation_session, decide, collections, counters, ingest, estimate."""

    @verb
    def catalogue(self) -> Steps[Catalogue]:
        """The offers in the workspace's catalogue, from declarations alone."""
        return (yield from self._told(Catalogue, call("show_catalogue")))

    @verb
    def federation(self) -> Steps[Federation]:
        """The federation that the workspace takes part in, and its sessions. For owners and auditors.

        Raises:
            RequestError: it takes part in none (``code`` is ``not_found``).
        """
        return (yield from self._told(Federation, call("list_sessions")))

    @verb
    def federation_session(self, session: str) -> Steps[FederationSession]:
        """One session of the federation, with what the relay tells of it now. For owners and auditors."""
        return (yield from self._told(FederationSession, call("show_session", {"session": session})))

    @verb
    def decide(self, session: str, decision: Literal["approved", "refused"]) -> Steps[str]:
        """Approve or refuse a session of the federation that waits for its owner's word."""
        body = {"decision": decision}
        told = yield from self._told(_Decision, call("decide_session", {"session": session}, body=body))
        return told.decision

    @verb
    def collections(self) -> Steps[list[str]]:
        """The collections of the workspace, by name."""
        told = yield from self._told(_Names, call("list_collections"))
        return list(told.collections)

    @verb
    def counters(self, collection: str) -> Steps[Counts]:
        """What became of a collection's reports so far, by reason and by layer."""
        return (yield from self._told(Counts, call("show_collection", {"collection": collection})))

    @verb
    def ingest(self, collection: str, reports: bytes | Path) -> Steps[Counts]:
        """Send up to 4 MiB of devices' reports; one that came before counts as a duplicate, so repeating is safe."""
        if not isinstance(reports, bytes) and not Path(reports).is_file():
            raise RequestError(f"{reports} is not a file.", fix="name a file of reports")
        data = reports if isinstance(reports, bytes) else Path(reports)
        return (yield from self._told(Counts, call("send_reports", {"collection": collection}, data=data)))

    @verb
    def estimate(self, collection: str, question: str) -> Steps[CollectAnswer]:
        """Answer a question in SQL from a collection's reports, with standard errors. Free, however often.

        Privacy:
            Local: every report was private before it left its device.
        """
        path = {"collection": collection}
        return (yield from self._told(CollectAnswer, call("estimate", path, body={"sql": question})))
