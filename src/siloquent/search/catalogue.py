"""A catalogue: a folder of releases only, offers of many owners, readable by everyone."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from siloquent.errors import ReleaseError
from siloquent.fixes import build_fix, run
from siloquent.releases.manifest import MANIFEST, read_manifest
from siloquent.releases.provenance import read_checked
from siloquent.search.offers import Offer, decode_offer

FILE, COUNTS = "moments.npz", "counts.parquet"
MAX_BYTES = 2**28
MAX_ENTRIES, MAX_TOGETHER = 20_000, 2**31
"""The maximal numbers of entries and of bytes of all offers in a catalogue, since anyone may write into one."""


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The offers of a folder, in order of their ids."""

    offers: tuple[Offer, ...]

    def list_notes(self) -> list[str]:
        """Return notes for the reader about offers that belong together."""
        tables = Counter((offer.part.account, offer.part.ledger) for offer in self.offers if offer.part)
        owners = Counter(offer.owner for offer in self.offers if offer.owner)
        twice = [
            f"{number} offers of {account.partition('@')[0]}: about the same rows, each paid for by itself"
            for (account, _), number in sorted(tables.items())
            if number > 1
        ]
        return twice + [
            f"{number} offers of {owner}: perhaps about the same people, whose costs then add up"
            for owner, number in sorted(owners.items())
            if number > 1
        ]


def load_offer(folder: Path) -> Offer:
    """Read the offer in a release's folder; its hash is checked before it is parsed.

    Raises:
        ReleaseError: It is not a release of an offer, or was changed after its release.
    """
    manifest, data = read_checked(folder, FILE, task="search", kind="an offer", most=MAX_BYTES)
    offer = decode_offer(data)
    if offer.part is None or offer.part.hash != manifest.receipt.get("hash"):
        raise ReleaseError(f"The receipt in {folder} is not that of its offer.", fix="request it from its owner again")
    return offer


def open_catalogue(folder: Path | str) -> Catalogue:
    """Read all offers in a catalogue's folder.

    Raises:
        ReleaseError: There is no such folder, or one of its offers was changed.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ReleaseError(
            f"{folder} does not contain a catalogue.",
            fix=build_fix("name one that is there, or make it: ", run("search catalogue", "add", folder, "RELEASE")),
        )
    found = [load_offer(path) for path in _releases_in(folder)]
    return Catalogue(tuple(sorted(found, key=lambda offer: offer.id)))


def _releases_in(folder: Path) -> list[Path]:
    """Return the folders that hold a release, if there are not more than can be read."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) > MAX_ENTRIES:
                raise ReleaseError(
                    f"{folder} has too many entries: the limit is {MAX_ENTRIES:,}.",
                    fix="split it into several catalogues",
                )
    found = [folder / name for name in sorted(names) if (folder / name / MANIFEST).is_file()]
    sizes = (path / file for path in found for file in (FILE, COUNTS))
    if sum(file.stat().st_size for file in sizes if file.is_file()) > MAX_TOGETHER:
        raise ReleaseError(
            f"The offers in {folder} are larger than 2 GiB together.", fix="split it into several catalogues"
        )
    return found


def add_to_catalogue(folder: Path | str, release: Path) -> Offer:
    """Copy an offer's release into a catalogue, atomically; an existing copy is kept.

    Raises:
        ReleaseError: ``release`` is not an offer, was changed, or writing fails.
    """
    offer, folder = load_offer(release), Path(folder)
    target = folder / offer.id
    if target.exists():
        there = load_offer(target)
        if there.to_bytes() != offer.to_bytes():
            raise ReleaseError(f"{target} already exists and holds a different offer.", fix="use separate catalogues")
        return offer
    building: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder))
        for file in read_manifest(release).files:
            shutil.copyfile(release / file.name, building / file.name, follow_symlinks=False)
        shutil.copyfile(release / MANIFEST, building / MANIFEST)
        building.rename(target)
    except OSError as failed:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)
        raise ReleaseError(f"Cannot copy the offer to {folder}: {failed.strerror}.") from None
    return offer
