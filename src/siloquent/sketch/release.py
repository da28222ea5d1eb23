"""A sketch as a release: ``sketch.npz``, a table of the numbers of records, and a manifest; and back."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases import Manifest, ReleaseFile, Rendered, read_manifest, write_table
from siloquent.releases.folder import sha256_of
from siloquent.releases.manifest import MANIFEST
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
    manifest = _manifest(sketch)
    if folder.exists():
        if not (folder / MANIFEST).is_file() or read_manifest(folder).receipt != manifest.receipt:
            raise ReleaseError(f"{folder} is there already and is another one.", fix="name another folder")
        return folder
    building: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        files = _write_files(sketch, building)
        text = replace(manifest, files=files).to_json()
        (building / MANIFEST).write_text(text, encoding="utf-8")
        os.replace(building, folder)
    except OSError as failed:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)
        raise ReleaseError(
            f"The sketch could not be written to {folder}: {failed.strerror}.",
            fix="make room, then build again with the same key: it costs nothing",
        ) from None
    return folder


def load_sketch(folder: Path) -> Sketch:
    """The sketch in a release's folder; its hash is checked before it is read.

    Raises:
        ReleaseError: It is no release of a sketch, or was changed after its release.
    """
    manifest = read_manifest(folder)
    entry = next((file for file in manifest.files if file.name == FILE), None)
    path = folder / FILE
    if manifest.task != "sketch" or entry is None or path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{folder} holds no sketch.", fix="siloquent release list")
    if path.stat().st_size > MOST_BYTES:
        raise ReleaseError(f"{path} is too large for a sketch.")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ReleaseError(f"{FILE} was changed after its release.", fix=f"siloquent verify {manifest.id}")
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


def _write_files(sketch: Sketch, folder: Path) -> tuple[ReleaseFile, ...]:
    (folder / FILE).write_bytes(sketch.to_bytes())
    write_table(folder / SIZES, _sizes(sketch), "parquet")
    return tuple(replace(entry, sha256=sha256_of(folder / entry.name)) for entry in _entries(sketch))


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
