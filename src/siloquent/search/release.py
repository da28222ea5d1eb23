"""An offer as a release: ``moments.npz``, its noisy counts as a table, and a manifest; also rebuilt from the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.releases import KeptMeasurement, Manifest, ReleaseFile, keep_measurement
from siloquent.releases.codec import FolderCodec
from siloquent.releases.guarantees import build_provenance
from siloquent.releases.provenance import Provenance
from siloquent.search.catalogue import COUNTS, FILE
from siloquent.search.offers import Offer, decode_offer
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema

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
    return OFFER_CODEC.write(offer, folder)


def assemble(schema: TableSchema, stored: SettledAnswer) -> Offer:
    """Build the offer stored in the ledger, with its guarantee and receipt: the same at every replay."""
    return replace(decode_offer(stored.payload), part=build_provenance(schema, stored))


def _build_contents(offer: Offer) -> dict[str, pa.Table | bytes]:
    return {COUNTS: _build_counts_table(offer), FILE: offer.to_bytes()}


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


def _split(data: bytes) -> tuple[tuple[Provenance, ...], bytes]:
    """Split a file into its provenance and the bytes of its measurement."""
    offer = decode_offer(data)
    return () if offer.part is None else (offer.part,), replace(offer, part=None).to_bytes()


def _find_kept(stored: SettledAnswer) -> KeptMeasurement | None:
    return keep_measurement("search", FILE, _split, stored)


OFFER_CODEC = FolderCodec(
    _build_manifest,
    _list_files,
    _build_contents,
    assemble,
    normalize=lambda data: decode_offer(data).to_bytes(),
    keep=_find_kept,
)
