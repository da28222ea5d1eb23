"""A workspace of an earlier revision: releases of every task that the ledger keeps, made before rules had numbers.

``tests/vectors/releases-24d4982.tar.xz`` holds what revision 24d4982 wrote over 2,000 invented rows, which are gone: a
ledger as SQL, its head, a table's declaration and the folders of releases.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sqlite3
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet

import siloquent
from siloquent.api import Session
from siloquent.explore.replay import ANSWER_CODEC
from siloquent.ledger import SettledAnswer
from siloquent.releases import ReleaseVerdict, read_manifest, write_release
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.codec import FolderCodec
from siloquent.search.release import OFFER_CODEC
from siloquent.share.files import SHARE_CODEC
from siloquent.sketch.release import SKETCH_CODEC
from siloquent.synth.release import SYNTHESIS_CODEC

KEPT = Path(__file__).parents[2] / "vectors" / "releases-24d4982.tar.xz"
MEASURED = {"search": "moments.npz", "share": "share.npz", "sketch": "sketch.npz", "synth": "measurements.npz"}
"""By task: the file of a release that holds its measurement."""
_CODECS: dict[str, FolderCodec[Any]] = {
    "search": OFFER_CODEC,
    "share": SHARE_CODEC,
    "sketch": SKETCH_CODEC,
    "synth": SYNTHESIS_CODEC,
}


def restore_workspace(folder: Path) -> Path:
    """Restore the earlier revision's workspace as ``folder``."""
    with tarfile.open(fileobj=BytesIO(lzma.decompress(KEPT.read_bytes()))) as kept:
        kept.extractall(folder, filter="data")
    script = folder / "ledger.sql"
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        connection.executescript(script.read_text(encoding="utf-8"))
    script.unlink()
    return folder


def list_tasks(folder: Path) -> dict[str, str]:
    """Return the tasks of the workspace's releases, by id."""
    found = sorted((folder / "releases").iterdir())
    return {release.name: read_manifest(release).task for release in found}


def make_again(folder: Path, release: str) -> Path:
    """Write the release once more, by this version's rules; returns its folder, beside the workspace's releases."""
    manifest = read_manifest(folder / "releases" / release)
    with siloquent.open(folder) as session:
        stored, schema = find_stored(session, release), session.schema(manifest.table)
        target = folder / "again" / release
        if manifest.task in _CODECS:
            codec = _CODECS[manifest.task]
            codec.write(codec.assemble(schema, stored), target)
        else:
            (rendered,) = ANSWER_CODEC.render_stored(session, manifest, schema, stored) or ()
            (table,) = rendered.contents.values()
            assert not callable(table)
            write_release(folder / "again", rendered.manifest, table, grid=rendered.files[0].grid)
    return target


def find_stored(session: Session, release: str) -> SettledAnswer:
    """Return the ledger's answer behind a release."""
    seq = int(release.removeprefix("r-"))
    return next(one for one in session.ledger.iter_answers("stays@1") if one.receipt.seq == seq)


def verify(folder: Path, release: Path) -> ReleaseVerdict:
    """Verify a release's folder in the workspace."""
    with siloquent.open(folder) as session:
        return session.verify(release)


def rewrite(release: Path, name: str, content: bytes) -> None:
    """Replace a file of a release and write its hash into the manifest, as a forger would."""
    (release / name).write_bytes(content)
    manifest = read_manifest(release)
    files = tuple(
        replace(file, sha256=hashlib.sha256(content).hexdigest()) if file.name == name else file
        for file in manifest.files
    )
    (release / "manifest.json").write_text(replace(manifest, files=files).to_json(), encoding="utf-8")


def change_manifest(release: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the document ``manifest.json``."""
    path = release / "manifest.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    change(plain)
    path.write_text(json.dumps(plain), encoding="utf-8")


def forge_table(path: Path) -> bytes:
    """Return a table's file with its rows in the other order, or with one row less if that is the same."""
    table = pyarrow.parquet.read_table(path)
    forged = table.take(list(range(table.num_rows))[::-1])
    if forged.equals(table):
        forged = table.slice(0, table.num_rows - 1)
    out = BytesIO()
    pyarrow.parquet.write_table(forged, out)
    return out.getvalue()


def forge_arrays(path: Path, *, words: Mapping[str, Any] | None = None) -> bytes:
    """Return an array file whose first array has another number, or which has other words."""
    arrays, found = unpack(path.read_bytes(), (".*",))
    if words is None:
        name = next(name for name in sorted(arrays) if arrays[name].size and arrays[name].dtype.kind != "u")
        changed = arrays[name].copy()
        changed.flat[0] += 1
        arrays = {**arrays, name: changed}
    return pack(arrays, {**found, **(words or {})})
