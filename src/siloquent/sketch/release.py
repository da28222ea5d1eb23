"""A sketch as a release: ``sketch.npz``, a table of the numbers of records, and a manifest; saved and loaded."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.releases import KeptMeasurement, Manifest, ReleaseFile, keep_measurement
from siloquent.releases.codec import FolderCodec
from siloquent.releases.guarantees import build_provenance
from siloquent.releases.provenance import Provenance, read_checked
from siloquent.sketch.sketch import Sketch, decode_sketch
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema

FILE, SIZES = "sketch.npz", "sizes.parquet"
MAX_BYTES = 2**28


def format_sketch_id(sketch: Sketch) -> str:
    """Return the release's name: its position in the ledger, or a digest of the positions of all its parts."""
    if len(sketch.parts) == 1:
        return f"r-{sketch.parts[0].seq:06d}"
    places = "|".join(f"{part.ledger}:{part.seq}" for part in sketch.parts)
    return f"m-{hashlib.sha256(places.encode()).hexdigest()[:12]}"


def save_sketch(sketch: Sketch, folder: Path) -> Path:
    """Write the sketch's release as ``folder``, atomically; an equal existing one is kept.

    Raises:
        ReleaseError: The folder holds something else, or writing fails.
    """
    return SKETCH_CODEC.write(sketch, folder)


def load_sketch(folder: Path) -> Sketch:
    """Load the sketch in a release's folder; its hash is checked before it is parsed.

    Raises:
        ReleaseError: It is not a release of a sketch, or was changed after its release.
    """
    _, data = read_checked(folder, FILE, task="sketch", kind="a sketch", most=MAX_BYTES)
    return decode_sketch(data)


def assemble(schema: TableSchema, stored: SettledAnswer) -> Sketch:
    """Build the sketch stored in the ledger, with its guarantee and receipt: the same at every replay."""
    return replace(decode_sketch(stored.payload), parts=(build_provenance(schema, stored),))


def _build_contents(sketch: Sketch) -> dict[str, pa.Table | bytes]:
    return {SIZES: _build_sizes_table(sketch), FILE: sketch.to_bytes()}


def _build_sizes_table(sketch: Sketch) -> pa.Table:
    import pyarrow as pa

    names = [str(label) for label in sketch.plan.labels] or ["all"]
    numbers = [None] * len(names) if sketch.sizes is None else sketch.sizes.tolist()
    return pa.table({"class": names, "records": pa.array(numbers, pa.int64())})


def _list_files(sketch: Sketch) -> tuple[ReleaseFile, ...]:
    classes = max(1, len(sketch.plan.labels))
    return (
        ReleaseFile(SIZES, "", classes, ("class", "records"), {"records": "1"}),
        ReleaseFile(FILE, "", sketch.rows, ("counters", "sizes"), {"counters": "1"}),
    )


def _build_receipt(sketch: Sketch) -> dict[str, object]:
    """Return the first part's position in its ledger, and for a sum the positions of all."""
    places = [
        {"ledger": part.ledger, "seq": part.seq, "hash": part.hash, "account": part.account} for part in sketch.parts
    ]
    first = {name: places[0][name] for name in ("ledger", "seq", "hash")}
    return {**first, "parts": len(places), **({"all": places} if len(places) > 1 else {})}


def _build_manifest(sketch: Sketch) -> Manifest:
    first = sketch.parts[0]
    accounts = ", ".join(dict.fromkeys(part.account for part in sketch.parts))
    return Manifest(
        id=format_sketch_id(sketch),
        task="sketch",
        package=f"siloquent {VERSION}",
        table=sketch.table,
        schema=f"sha256:{sketch.schema_digest}",
        request={"query": f"sketch {sketch.table}", "sketch": sketch.request, "plan": sketch.plan.digest},
        guarantee={"sentence": sketch.describe_guarantee(), "account": accounts, "unit": first.unit},
        accuracy={"promise": "each answer carries its interval", "beta": "1/20", "label": "simultaneous per point"},
        receipt=_build_receipt(sketch),
        files=(),
        known=("counters are neither rounded nor clamped at zero", *sketch.notes),
    )


def _split(data: bytes) -> tuple[tuple[Provenance, ...], bytes]:
    """Split a file into its provenance and the bytes of its measurement."""
    sketch = decode_sketch(data)
    return sketch.parts, replace(sketch, parts=()).to_bytes()


def _find_kept(stored: SettledAnswer) -> KeptMeasurement | None:
    return keep_measurement("sketch", FILE, _split, stored)


SKETCH_CODEC = FolderCodec(
    _build_manifest,
    _list_files,
    _build_contents,
    assemble,
    normalize=lambda data: decode_sketch(data).to_bytes(),
    keep=_find_kept,
)
