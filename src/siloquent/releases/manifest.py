"""The manifest of a release: task, request, guarantee, accuracy, receipt, and a hash of each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.privacy import Guarantee

FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """One file of a release; ``grid``: the step of each number column (counts: "1"); no float hides low bits.

    ``rules``: the numbers of the rules by which it was made; empty in releases of versions that had no numbers. They
    stand in the file's entry because those versions ignore a field there that they do not know.
    """

    name: str
    sha256: str
    rows: int
    columns: tuple[str, ...]
    grid: Mapping[str, str]
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description that accompanies released files, with all that ``verify`` needs besides them and the ledger."""

    id: str
    task: str
    package: str
    table: str
    schema: str
    request: Mapping[str, Any]
    guarantee: Mapping[str, Any]
    accuracy: Mapping[str, Any]
    receipt: Mapping[str, Any]
    files: tuple[ReleaseFile, ...]
    known: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def rules(self) -> Mapping[str, int]:
        """The rule numbers that all files name; empty if they name none, or different ones."""
        first = self.files[0].rules if self.files else {}
        return first if all(file.rules == first for file in self.files) else {}

    def to_json(self) -> str:
        """Return the manifest's text: sorted keys, one document."""
        plain = asdict(self)
        for file in plain["files"]:
            if not file["rules"]:  # a later field: releases without it stay unchanged
                del file["rules"]
        return json.dumps(plain, sort_keys=True, indent=1, ensure_ascii=False, default=dict) + "\n"


def guarantee_to_dict(guarantee: Guarantee) -> dict[str, str]:
    """Return a guarantee as text fields; amounts are exact fractions "num/den", the sentence is for people."""
    plain = {field.name: str(getattr(guarantee, field.name)) for field in fields(guarantee)}
    if not guarantee.spent_delta:  # a later field: releases without it stay unchanged
        del plain["spent_delta"]
    return {**plain, "sentence": guarantee.describe()}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in ``folder``.

    Raises:
        ReleaseError: It is missing, too large, not JSON, of an unknown format, or has missing or unknown fields.
    """
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_MANIFEST_BYTES:
        raise ReleaseError(f"{folder} does not contain a readable {MANIFEST}.", fix=run("release list"))
    try:
        plain = load_json(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ReleaseError(f"The {MANIFEST} in {folder} is not JSON.") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ReleaseError(
            f"The release in {folder} is not of format {FORMAT}, the only one that this version reads.",
            fix="pip install --upgrade siloquent",
        )
    try:
        files = tuple(
            ReleaseFile(f["name"], f["sha256"], f["rows"], tuple(f["columns"]), f["grid"], _read_rules(f))
            for f in plain.pop("files")
        )
        return Manifest(files=files, known=tuple(plain.pop("known")), **plain)
    except (KeyError, TypeError):
        raise ReleaseError(f"The {MANIFEST} in {folder} lacks fields or has strange ones.") from None


def _read_rules(file: Mapping[str, Any]) -> dict[str, int]:
    """Read the rule numbers of a file's entry; a wrong type is a TypeError."""
    rules = file.get("rules", {})
    if not isinstance(rules, dict) or any(type(number) is not int for number in rules.values()):
        raise TypeError("rules are whole numbers by name")
    return rules
