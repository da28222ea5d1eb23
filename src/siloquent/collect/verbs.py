"""The collection verbs of one session, as ``session.collect``; documents and reports are in its workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.collect import plan, task
from siloquent.collect.measure import ReportStore
from siloquent.collect.spec import AggregateQuery, CollectAnswer, Collection, CollectionSpec, Counters

if TYPE_CHECKING:
    from siloquent.session import WorkspaceSession

FOLDER = "collections"


@dataclass(frozen=True, slots=True)
class CollectVerbs:
    """The verbs design, check, ingest, estimate and counters, for the reports in one workspace."""

    session: WorkspaceSession

    def design(self, spec: CollectionSpec) -> Collection:
        """Return the public document for ``spec``; see ``siloquent.collect.design``."""
        return task.design(spec)

    def check(self, collection: Collection) -> list[plan.DesignFinding]:
        """Prove from the document that no user's reports exceed epsilon."""
        return plan.check(collection)

    def ingest(self, collection: Collection, reports: bytes) -> Counters:
        """Ingest reports: each is accepted, or refused and counted by reason.

        Raises:
            DataError: the reports could not be written; nothing was counted.
        """
        with self.store(collection) as store:
            return store.ingest(reports)

    def estimate(self, collection: Collection, question: str | AggregateQuery) -> CollectAnswer:
        """Answer a question in SQL from the received reports; see ``siloquent.collect.estimate``.

        Privacy:
            Post-processing of private reports: free, any number of times.
        """
        with self.store(collection) as store:
            return task.estimate(store, question)

    def counters(self, collection: Collection) -> Counters:
        """Return the counts of all reports so far."""
        with self.store(collection) as store:
            return store.counters

    @contextmanager
    def store(self, collection: Collection) -> Iterator[ReportStore]:
        """Open the reports of ``collection`` while the block runs."""
        folder = Path(self.session.workspace.folder) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{collection.spec.name}-{collection.spec.epoch}.reports"
        with ReportStore(collection, folder / name) as store:
            yield store
