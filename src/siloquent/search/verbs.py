"""The search verbs of one session, as ``session.search``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charge import PreparedRelease
from siloquent.search import task
from siloquent.search.catalogue import Catalogue, add_to_catalogue, load_offer, open_catalogue
from siloquent.search.offers import Offer
from siloquent.search.plan import OfferPlan
from siloquent.search.release import format_release_id, save_offer
from siloquent.search.results import AugmentPlan, SearchResult
from siloquent.search.spec import OfferSpec, RequestSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class SearchVerbs:
    """offer, explain, find, augment, save, load and publish, for one session's tables and account."""

    session: WorkspaceSession

    def offer(self, spec: OfferSpec, *, key: str | None = None, max_cost: str | None = None) -> Offer:
        """Release a table's sums once; see ``siloquent.search.offer``.

        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        return task.offer(self.session, spec, key=key, max_cost=max_cost)

    def prepare(self, spec: OfferSpec, *, key: str | None = None) -> PreparedRelease[OfferPlan, Offer]:
        """Plan an offer once: ``plan`` has the price, ``run`` makes it at that price. Does not read data."""
        return task.prepare(self.session, spec, key=key)

    def explain(self, spec: OfferSpec) -> OfferPlan:
        """Plan an offer for its price and noise. Does not read data."""
        return task.explain(self.session, spec)

    def find(
        self,
        spec: RequestSpec,
        catalogue: Catalogue | Path | str,
        *,
        key: str | None = None,
        max_cost: str | None = None,
        prepared: PreparedRelease[OfferPlan, Offer] | None = None,
    ) -> SearchResult:
        """Find the offers that improve a model most; see ``siloquent.search.find``.

        Args:
            prepared: For platform scoring, what ``prepare`` planned for ``spec.build_offer_spec()`` under its key.

        Privacy:
            Platform scoring is charged like an offer; local scoring is free and only for the owner.
        """
        known = catalogue if isinstance(catalogue, Catalogue) else open_catalogue(catalogue)
        return task.find(self.session, spec, known, key=key, max_cost=max_cost, prepared=prepared)

    def augment(self, plan: AugmentPlan, table: str | None = None) -> pa.Table:
        """Return own rows with the released features and their errors; see ``siloquent.search.augment``.

        Privacy:
            None: exact rows, for their owner.
        """
        return task.augment(self.session, plan, table)

    def save(self, offer: Offer, folder: Path | None = None) -> Path:
        """Write the offer as a release folder (default: in the workspace); the same offer is written once."""
        return save_offer(offer, folder or self.session.workspace.releases / format_release_id(offer))

    def load(self, folder: Path | str) -> Offer:
        """Read the offer in a release's folder."""
        return load_offer(Path(folder))

    def publish(self, offer: Offer, catalogue: Path | str) -> Path:
        """Write the offer and copy it into a catalogue's folder."""
        add_to_catalogue(catalogue, self.save(offer))
        return Path(catalogue) / offer.id
