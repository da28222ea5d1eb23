"""An offer as a release: ``moments.npz``, its noisy counts as a table, and a manifest; and back from the ledger."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import Manifest, ReleaseFile, Rendered
from siloquent.releases.writing import write_files
from siloquent.search.catalogue import COUNTS, FILE
from siloquent.search.offers import Offer, offer_from_bytes
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COUNTS = 100_000


def release_id(offer: Offer) -> str:
    """The release's name in its workspace: its place in the ledger."""
    assert offer.part is not None
    return f"r-{offer.part.seq:06d}"


def save_offer(offer: Offer, folder: Path) -> Path:
    """Write the offer's release as ``folder``, whole or not at all; an equal one that is there already stays.

    Raises:
        ReleaseError: Something else is there, or the disk refuses.
    """
    contents = {FILE: offer.to_bytes(), COUNTS: _counts(offer)}
    return write_files(folder, _manifest(offer), _entries(offer), contents)


def rendered(offer: Offer) -> Rendered:
    """What ``save_offer`` would write of ``offer``."""
    return Rendered(_manifest(offer), _entries(offer), {COUNTS: _counts(offer), FILE: partial(_is_of, offer)})


def _is_of(offer: Offer, data: bytes) -> bool:
    """Whether ``data`` is ``offer``'s file, however it was packed."""
    try:
        return offer_from_bytes(data).to_bytes() == offer.to_bytes()
    except ReleaseError:
        return False


def _counts(offer: Offer) -> pa.Table:
    """The noisy counts by the first key, as people read them."""
    import pyarrow as pa

    counts = offer.measured.counts[0][:MOST_COUNTS]
    if offer.keys:
        labels = [offer.keys[0].labels(cell) for cell in range(len(counts))]
        names = ["+".join("(other)" if value is None else value for value in parts) for parts in labels]
    else:
        names = ["all"]
    return pa.table({"key": names, "records": pa.array(counts.tolist(), pa.int64())})


def _entries(offer: Offer) -> tuple[ReleaseFile, ...]:
    rows = min(len(offer.measured.counts[0]), MOST_COUNTS)
    steps = f"1/{offer.steps}"
    return (
        ReleaseFile(COUNTS, "", rows, ("key", "records"), {"records": "1"}),
        ReleaseFile(FILE, "", rows, ("counts", "sums", "second"), {"counts": "1", "sums": steps}),
    )


def _manifest(offer: Offer) -> Manifest:
    part = offer.part
    assert part is not None
    keys = ", ".join(key.name for key in offer.keys)
    query = f"offer {offer.table}" + (f" by {keys}" if keys else " for unions")
    return Manifest(
        id=release_id(offer),
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
