"""A release for sharing, rebuilt from the ledger, for comparison with its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import ExpectedFiles
from siloquent.share.files import render_release
from siloquent.share.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema


def list_renderings(schema: TableSchema, stored: SettledAnswer) -> list[ExpectedFiles]:
    """Return the release in ``stored``; empty if it is of another task.

    Privacy:
        Post-processing of the ledger's content: no row is read, nothing is charged.
    """
    try:
        return [render_release(assemble(schema, stored))]
    except ReleaseError:
        return []
