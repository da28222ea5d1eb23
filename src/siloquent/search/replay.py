"""A released offer, again from what the ledger keeps: what a release's files are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import ExpectedFiles
from siloquent.search.release import render_release
from siloquent.search.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema


def list_renderings(schema: TableSchema, stored: SettledAnswer) -> list[ExpectedFiles]:
    """The release of the offer in ``stored``; none if it is no offer.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    try:
        return [render_release(assemble(schema, stored))]
    except ReleaseError:
        return []
