"""An offer as a release: ``moments.npz``, its noisy counts as a table, and a manifest; also rebuilt from the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import ExpectedFiles, Manifest, ReleaseFile
from siloquent.releases.writer import write_files
from siloquent.search.catalogue import COUNTS, FILE
from siloquent.search.offers import Offer, decode_offer
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COUNTS = 100_000


def format_release_id(offer: Offer) -> str:
    """Return the release's name in its workspace: its position in the ledger."""
    assert offer.part is not None
    return f"r-{offer.part.seq:06d}"


def save_offer(offer: Offer, folder: Path) -> Path:
    """Write the offer's release as ``folder``, atomically; an equal existing one is kept.

    Raises:
        ReleaseError: The folder holds something else, or writing fails.
    """
    contents = {FILE: offer.to_bytes(), COUNTS: _build_counts_table(offer)}
    return write_files(folder, _build_manifest(offer), _list_files(offer), contents)


def render_release(offer: Offer) -> ExpectedFiles:
    """Return the files that ``save_offer`` would write for ``offer``."""
    return ExpectedFiles(
        _build_manifest(offer),
        _list_files(offer),
        {COUNTS: _build_counts_table(offer), FILE: partial(_has_same_content, offer)},
    )


def _has_same_content(offer: Offer, data: bytes) -> bool:
    """Return whether ``data`` is ``offer``'s file, regardless of compression."""
    try:
        return decode_offer(data).to_bytes() == offer.to_bytes()
    except ReleaseError:
        return False


def _build_counts_table(offer: Offer) -> pa.Table:
    """Build the table of noisy counts by the first key, in readable form."""
    import pyarrow as pa

    counts = offer.measured.counts[0][:MAX_COUNTS]
    if offer.keys:
        labels = [offer.keys[0].get_labels(cell) for cell in range(len(counts))]
        names = ["+".join("(other)" if value is None else value for value in parts) for parts in labels]
    else:
        names = ["all"]
    return pa.table({"key": names, "records": pa.array(counts.tolist(), pa.int64())})


def _list_files(offer: Offer) -> tuple[ReleaseFile, ...]:
    rows = min(len(offer.measured.counts[0]), MAX_COUNTS)
    steps = f"1/{offer.steps}"
    return (
        ReleaseFile(COUNTS, "", rows, ("key", "records"), {"records": "1"}),
        ReleaseFile(FILE, "", rows, ("counts", "sums", "second"), {"counts": "1", "sums": steps}),
    )


def _build_manifest(offer: Offer) -> Manifest:
    part = offer.part
    assert part is not None
    keys = ", ".join(key.name for key in offer.keys)
    query = f"offer {offer.table}" + (f" by {keys}" if keys else " for unions")
    return Manifest(
        id=format_release_id(offer),
        task="search",
        package=f"siloquent {VERSION}",
        table=offer.table,
        schema=f"sha256:{offer.schema_digest}",
        request={"query": query, "offer": offer.request},
        guarantee={"sentence": part.guarantee, "account": part.account, "unit": part.unit},
        accuracy={"promise": "whoever reads it knows the noise's law, and its intervals hold it", "beta": "1/20"},
        receipt={"ledger": part.ledger, "seq": part.seq, "hash": part.hash},
        files=(),
        known=("counts and sums are neither rounded nor clamped at zero", *offer.notes),
    )
