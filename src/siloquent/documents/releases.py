"""Documents of releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.releases import Manifest, ReleaseVerdict


def build_release_document(manifest: Manifest) -> dict[str, Any]:
    """Return a manifest as a document of kind ``siloquent/release/1``."""
    return {
        "schema": "siloquent/release/1",
        "id": manifest.id,
        "task": manifest.task,
        "package": manifest.package,
        "rules": dict(manifest.rules) or None,
        "table": manifest.table,
        "request": dict(manifest.request),
        "accuracy": dict(manifest.accuracy),
        "guarantee": dict(manifest.guarantee),
        "receipt": {key: manifest.receipt.get(key) for key in ("ledger", "seq", "hash")},
        "files": [
            {"name": file.name, "sha256": file.sha256, "rows": file.rows, "columns": list(file.columns)}
            for file in manifest.files
        ],
        "known": list(manifest.known),
    }


def build_release_verdict_document(verdict: ReleaseVerdict) -> dict[str, Any]:
    """Return a release's verification result as a document of kind ``siloquent/release-verdict/1``."""
    return {
        "schema": "siloquent/release-verdict/1",
        "release": verdict.release,
        "ok": verdict.ok,
        "outcome": verdict.outcome,
        "compared": verdict.compared,
        "checked": verdict.checked,
        "problems": list(verdict.problems),
        "notes": list(verdict.notes),
        "package": verdict.package,
        "uncompared": list(verdict.uncompared),
    }
