"""The common header of released files of several tasks: their provenance, and validated reading."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.foreign import DocumentTooLarge, read_bounded
from siloquent.privacy import parse_fraction
from siloquent.releases.manifest import Manifest, read_manifest


@dataclass(frozen=True, slots=True)
class Provenance:
    """One table's release in a file: its ledger, its entry there, and the guarantee."""

    account: str = ""
    ledger: str = ""
    seq: int = 0
    hash: str = ""
    guarantee: str = ""
    unit: str = ""
    adjacency: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for the file's header; ``Provenance(**plain)`` reads it."""
        return {name: getattr(self, name) for name in Provenance.__dataclass_fields__}


def parse_positive(text: Any) -> Fraction:
    """Parse a number above 0 from a file's header.

    Raises:
        ValueError: It is not such a number.
    """
    value = parse_fraction(text)
    if value <= 0:
        raise ValueError("not above 0")
    return value


def read_checked(folder: Path, name: str, *, task: str, kind: str, most: int) -> tuple[Manifest, bytes]:
    """Read the manifest in a release's folder and its file ``name``, whose hash is compared.

    Args:
        kind: Its name in messages: "a sketch".
        most: The most bytes to read.
    Raises:
        ReleaseError: It is not a release of ``task``, is too large, or was changed after its release.
    """
    manifest = read_manifest(folder)
    entry = next((file for file in manifest.files if file.name == name), None)
    path = folder / name
    if manifest.task != task or entry is None or path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{folder} contains no {kind.partition(' ')[2]}.", fix=run("release list"))
    data = read_at_most(path, most, kind)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ReleaseError(f"{name} in {folder} was changed after its release.", fix=run("verify", folder))
    return manifest, data


def read_at_most(path: Path, most: int, kind: str) -> bytes:
    """Read a file's bytes.

    Raises:
        ReleaseError: It is a link, is larger than ``most``, or cannot be read.
    """
    try:
        if path.is_symlink():
            raise ReleaseError(f"{path} is a link, or too large for {kind}.")
        return read_bounded(path, most)
    except DocumentTooLarge:
        raise ReleaseError(f"{path} is a link, or too large for {kind}.") from None
    except OSError as failed:
        raise ReleaseError(f"Cannot read {path}: {failed.strerror}.", fix="name a release's folder") from None
