"""A released synthesis, again from what the ledger keeps: what a release's files are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import SiloquentError
from siloquent.releases import Rendered
from siloquent.synth.release import rendered
from siloquent.synth.spec.measured import measurements_from_bytes
from siloquent.synth.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import Stored
    from siloquent.schema import TableSchema


def renderings(schema: TableSchema, stored: Stored) -> list[Rendered]:
    """The release of the synthesis in ``stored``, model and rows made anew; none if it is no synthesis.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    try:
        if measurements_from_bytes(stored.payload).schema_digest != schema.digest:
            return []
        return [rendered(assemble(schema, stored))]
    except SiloquentError:  # no synthesis, planned by another version, or a public file that is not here any more
        return []
