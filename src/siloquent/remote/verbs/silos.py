"""Work with other silos and with devices: catalogues, sessions of a federation, collections."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from siloquent.errors import RequestError
from siloquent.remote.api_document import ApiDocument, DocumentField, read_many, read_text
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import CatalogueListing, CollectionAnswer, Federation, FederationSession, ReportCounts
from siloquent.remote.exchange import Steps


class _Names(ApiDocument):
    collections = DocumentField(read_many(read_text))


class _Decision(ApiDocument):
    decision = DocumentField(read_text)


class SiloVerbs(ApiClient):
    """The verbs for catalogues, federations and collections."""

    @verb
    def get_catalogue(self) -> Steps[CatalogueListing]:
        """Return the offers in the workspace's catalogue, read from declarations only."""
        return (yield from self._fetch_as(CatalogueListing, build_call("show_catalogue")))

    @verb
    def get_federation(self) -> Steps[Federation]:
        """Return the federation of the workspace, and its sessions. For owners and auditors.

        Raises:
            RequestError: the workspace is in no federation (``code`` is ``not_found``).
        """
        return (yield from self._fetch_as(Federation, build_call("list_sessions")))

    @verb
    def get_federation_session(self, session: str) -> Steps[FederationSession]:
        """Return one session of the federation, with the relay's current status. For owners and auditors."""
        return (yield from self._fetch_as(FederationSession, build_call("show_session", {"session": session})))

    @verb
    def decide(self, session: str, decision: Literal["approved", "refused"]) -> Steps[str]:
        """Approve or refuse a session of the federation that waits for its owner's decision."""
        body = {"decision": decision}
        told = yield from self._fetch_as(_Decision, build_call("decide_session", {"session": session}, body=body))
        return told.decision

    @verb
    def list_collections(self) -> Steps[list[str]]:
        """Return the names of the workspace's collections."""
        told = yield from self._fetch_as(_Names, build_call("list_collections"))
        return list(told.collections)

    @verb
    def get_counters(self, collection: str) -> Steps[ReportCounts]:
        """Return the counts of a collection's reports so far, by reason and by layer."""
        return (yield from self._fetch_as(ReportCounts, build_call("show_collection", {"collection": collection})))

    @verb
    def ingest(self, collection: str, reports: bytes | Path) -> Steps[ReportCounts]:
        """Send up to 4 MiB of devices' reports; a repeated report counts as a duplicate, so repeating is safe."""
        if not isinstance(reports, bytes) and not Path(reports).is_file():
            raise RequestError(f"{reports} is not a file.", fix="name a file of reports")
        data = reports if isinstance(reports, bytes) else Path(reports)
        return (
            yield from self._fetch_as(ReportCounts, build_call("send_reports", {"collection": collection}, data=data))
        )

    @verb
    def estimate(self, collection: str, question: str) -> Steps[CollectionAnswer]:
        """Answer a question in SQL from a collection's reports, with standard errors. Free, any number of times.

        Privacy:
            Local: every report was private before it left its device.
        """
        path = {"collection": collection}
        return (yield from self._fetch_as(CollectionAnswer, build_call("estimate", path, body={"sql": question})))
