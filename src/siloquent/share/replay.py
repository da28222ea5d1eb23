"""A release for sharing, again from what the ledger keeps: what its files are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import Rendered
from siloquent.share.files import rendered
from siloquent.share.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import Stored
    from siloquent.schema import TableSchema


def renderings(schema: TableSchema, stored: Stored) -> list[Rendered]:
    """The release in ``stored``; none if it is of another task.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    try:
        return [rendered(assemble(schema, stored))]
    except ReleaseError:
        return []
