"""A released synthesis, again from what the ledger keeps: what a release's files are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import SiloquentError
from siloquent.releases import ExpectedFiles
from siloquent.synth.release import render_release
from siloquent.synth.spec.measurements import decode_run_measurements
from siloquent.synth.task import assemble

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema


def list_renderings(schema: TableSchema, stored: SettledAnswer) -> list[ExpectedFiles]:
    """The release of the synthesis in ``stored``, model and rows made anew; none if it is no synthesis.

    Privacy:
        Post-processing of what the ledger keeps: no row is read, nothing is charged.
    """
    try:
        if decode_run_measurements(stored.payload).schema_digest != schema.digest:
            return []
        return [render_release(assemble(schema, stored))]
    except SiloquentError:  # no synthesis, planned by another version, or a public file that is not here any more
        return []
