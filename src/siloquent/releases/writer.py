"""Atomic writing of releases of several files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.releases.folder import compute_sha256, write_table
from siloquent.releases.manifest import MANIFEST, Manifest, ReleaseFile, read_manifest
from siloquent.releases.rules import dump_rules

if TYPE_CHECKING:
    import pyarrow as pa


def write_files(
    folder: Path, manifest: Manifest, entries: Sequence[ReleaseFile], contents: Mapping[str, pa.Table | bytes]
) -> Path:
    """Write ``contents`` and ``manifest`` as ``folder``; an equal release that exists is kept.

    Args:
        manifest: A manifest without files, which are filled in here.
        entries: One for each file, in display order, without hashes.
        contents: By file name: a table, written in the format of its ending, or the bytes themselves.
    Raises:
        ReleaseError: Another release exists there, or the disk refuses.
    """
    if folder.exists():
        if not (folder / MANIFEST).is_file() or read_manifest(folder).receipt != manifest.receipt:
            raise ReleaseError(f"{folder} already exists and holds a different release.", fix="choose another folder")
        return folder
    building: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        for name, content in contents.items():
            if isinstance(content, bytes):
                (building / name).write_bytes(content)
            else:
                write_table(building / name, content, name.rpartition(".")[2])
        rules = dump_rules(manifest.task)
        files = tuple(replace(entry, sha256=compute_sha256(building / entry.name), rules=rules) for entry in entries)
        (building / MANIFEST).write_text(replace(manifest, files=files).to_json(), encoding="utf-8")
        os.replace(building, folder)
    except OSError as failed:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)
        raise ReleaseError(
            f"Cannot write the release to {folder}: {failed.strerror}.",
            fix="free some disk space, then repeat the request with the same key at no cost",
        ) from None
    return folder
