"""Replay of a released synthesis from the ledger, to verify a release's files."""

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
    """Return the release of the synthesis in ``stored``, model and rows rebuilt; none if it is not a synthesis.

    Privacy:
        Post-processing of the ledger's contents: no row is read, nothing is charged.
    """
    try:
        if decode_run_measurements(stored.payload).schema_digest != schema.digest:
            return []
        return [render_release(assemble(schema, stored))]
    except SiloquentError:  # not a synthesis, planned by another version, or a public file is missing
        return []
