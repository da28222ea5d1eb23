"""A released offer, again from what the ledger keeps: what a release's files are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import Rendered
from siloquent.search.release import rendered
from siloquent.search.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import Stored
    from siloquent.schema import TableSchema


def renderings(schema: TableSchema, stored: Stored) -> list[Rendered]:
    """The release of the offer in ``stored``; none if it is no offer.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    try:
        return [rendered(assemble(schema, stored))]
    except ReleaseError:
        return []
