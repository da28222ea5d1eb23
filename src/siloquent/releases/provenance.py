"""What the files of several tasks' releases have in common: whose they are, and how they are read back with care."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from siloquent.errors import ReleaseError
from siloquent.foreign import DocumentTooLarge, read_bounded
from siloquent.privacy import parse_fraction
from siloquent.releases.manifest import Manifest, read_manifest


@dataclass(frozen=True, slots=True)
class Provenance:
    """One table's release in a file: where it stands in which ledger, and what was promised."""

    account: str = ""
    ledger: str = ""
    seq: int = 0
    hash: str = ""
    guarantee: str = ""
    unit: str = ""
    adjacency: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For the file's words; ``Provenance(**plain)`` reads it."""
        return {name: getattr(self, name) for name in Provenance.__dataclass_fields__}


def parse_positive(text: Any) -> Fraction:
    """A number above 0 from a file's words.

    Raises:
        ValueError: It is none.
    """
    value = parse_fraction(text)
    if value <= 0:
        raise ValueError("not above 0")
    return value


def read_checked(folder: Path, name: str, *, task: str, kind: str, most: int) -> tuple[Manifest, bytes]:
    """The manifest in a release's folder and the bytes of its file ``name``, whose hash is compared.

    Args:
        kind: What it is in words, for messages: "a sketch".
        most: Bytes that are read at most.
    Raises:
        ReleaseError: It is no release of ``task``, is too large, or was changed after its release.
    """
    manifest = read_manifest(folder)
    entry = next((file for file in manifest.files if file.name == name), None)
    path = folder / name
    if manifest.task != task or entry is None or path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{folder} holds no {kind.partition(' ')[2]}.", fix="siloquent release list")
    data = read_at_most(path, most, kind)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ReleaseError(f"{name} in {folder} was changed after its release.", fix=f"siloquent verify {folder}")
    return manifest, data


def read_at_most(path: Path, most: int, kind: str) -> bytes:
    """A file's bytes.

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
        raise ReleaseError(f"{path} cannot be read: {failed.strerror}.", fix="name a release's folder") from None
