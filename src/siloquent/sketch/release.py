"""A sketch as a release: ``sketch.npz``, a table of the numbers of records, and a manifest; and back."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import Manifest, ReleaseFile, Rendered
from siloquent.releases.parts import read_checked
from siloquent.releases.writing import write_files
from siloquent.sketch.sketch import Sketch, sketch_from_bytes
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

FILE, SIZES = "sketch.npz", "sizes.parquet"
MOST_BYTES = 2**28


def sketch_id(sketch: Sketch) -> str:
    """The release's name: its place in the ledger, or a digest of the places of all its parts."""
    if len(sketch.parts) == 1:
        return f"r-{sketch.parts[0].seq:06d}"
    places = "|".join(f"{part.ledger}:{part.seq}" for part in sketch.parts)
    return f"m-{hashlib.sha256(places.encode()).hexdigest()[:12]}"


def save_sketch(sketch: Sketch, folder: Path) -> Path:
    """Write the sketch's release as ``folder``, whole or not at all; an equal one that is there already stays.

    Raises:
        ReleaseError: Something else is there, or the disk refuses.
    """
    contents = {FILE: sketch.to_bytes(), SIZES: _sizes(sketch)}
    return write_files(folder, _manifest(sketch), _entries(sketch), contents)


def load_sketch(folder: Path) -> Sketch:
    """The sketch in a release's folder; its hash is checked before it is read.

    Raises:
        ReleaseError: It is no release of a sketch, or was changed after its release.
    """
    _, data = read_checked(folder, FILE, task="sketch", kind="a sketch", most=MOST_BYTES)
    return sketch_from_bytes(data)


def rendered(sketch: Sketch) -> Rendered:
    """What ``save_sketch`` would write of ``sketch``."""
    return Rendered(_manifest(sketch), _entries(sketch), {SIZES: _sizes(sketch), FILE: partial(_is_of, sketch)})


def _is_of(sketch: Sketch, data: bytes) -> bool:
    """Whether ``data`` is ``sketch``'s file, however it was packed."""
    try:
        return sketch_from_bytes(data).to_bytes() == sketch.to_bytes()
    except ReleaseError:
        return False


def _sizes(sketch: Sketch) -> pa.Table:
    import pyarrow as pa

    names = [str(label) for label in sketch.plan.labels] or ["all"]
    numbers = [None] * len(names) if sketch.sizes is None else sketch.sizes.tolist()
    return pa.table({"class": names, "records": pa.array(numbers, pa.int64())})


def _entries(sketch: Sketch) -> tuple[ReleaseFile, ...]:
    classes = max(1, len(sketch.plan.labels))
    return (
        ReleaseFile(SIZES, "", classes, ("class", "records"), {"records": "1"}),
        ReleaseFile(FILE, "", sketch.rows, ("counters", "sizes"), {"counters": "1"}),
    )


def _receipt(sketch: Sketch) -> dict[str, object]:
    """The first part's place in its ledger, and of a sum the places of all."""
    places = [
        {"ledger": part.ledger, "seq": part.seq, "hash": part.hash, "account": part.account} for part in sketch.parts
    ]
    first = {name: places[0][name] for name in ("ledger", "seq", "hash")}
    return {**first, "parts": len(places), **({"all": places} if len(places) > 1 else {})}


def _manifest(sketch: Sketch) -> Manifest:
    first = sketch.parts[0]
    accounts = ", ".join(dict.fromkeys(part.account for part in sketch.parts))
    return Manifest(
        id=sketch_id(sketch),
        task="sketch",
        package=f"siloquent {VERSION}",
        table=sketch.table,
        schema=f"sha256:{sketch.schema_digest}",
        request={"query": f"sketch {sketch.table}", "sketch": sketch.request, "plan": sketch.plan.digest},
        guarantee={"sentence": sketch.sentence(), "account": accounts, "unit": first.unit},
        accuracy={"promise": "each answer carries its interval", "beta": "1/20", "label": "simultaneous per point"},
        receipt=_receipt(sketch),
        files=(),
        known=("counters are neither rounded nor clamped at zero", *sketch.notes),
    )
