"""A released sketch, rebuilt from the ledger, for comparison with a release's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import ExpectedFiles
from siloquent.sketch.release import render_release
from siloquent.sketch.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema


def list_renderings(schema: TableSchema, stored: SettledAnswer) -> list[ExpectedFiles]:
    """Return the release of the sketch in ``stored``; empty if it is not a sketch.

    Privacy:
        Post-processing of the ledger's content: no row is read, nothing is charged.
    """
    try:
        return [render_release(assemble(schema, stored))]
    except ReleaseError:
        return []
