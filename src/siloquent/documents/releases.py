"""Documents about releases: their manifests, lists, verification and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.explore import Answer
    from siloquent.releases import Manifest, ReleaseVerdict


def build_answer_document(answer: Answer, key: str, *, replayed: bool | None = None) -> dict[str, Any]:
    """Return the answer's own document, of kind ``siloquent/answer/1``, with the key under which it is free.

    ``replayed``: for a server, which keeps replies: whether it gave this one before.
    """
    document = answer.to_json()
    if replayed is not None:
        document["replayed"] = replayed
    rows = document.pop("about_rows", None)
    return {**document, "key": key, **({} if rows is None else {"about_rows": rows})}


def build_release_document(
    manifest: Manifest, *, values: pa.Table | None = None, shared: bool | None = None, deleted: bool | None = None
) -> dict[str, Any]:
    """Return a manifest as a document of kind ``siloquent/release/1``.

    Args:
        values: The release's table, if it is to be shown.
        shared: Known to a server: every analyst of the table sees it. ``deleted``: its values are gone.
    """
    document: dict[str, Any] = {
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
    if values is not None:
        columns = [values[name].to_pylist() for name in values.column_names]
        document["columns"] = values.column_names
        document["rows"] = [[_convert_value(value) for value in row] for row in zip(*columns, strict=True)]
    known_to_a_server = {"shared": shared, "deleted": deleted}
    return document | {name: value for name, value in known_to_a_server.items() if value is not None}


def _convert_value(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def build_release_list_document(releases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return releases' documents as one of kind ``siloquent/release-list/1``."""
    return {"schema": "siloquent/release-list/1", "releases": list(releases)}


def write_release_list_document(releases: Sequence[str]) -> str:
    """Return releases' documents, each as JSON, as the JSON of one of kind ``siloquent/release-list/1``."""
    return f'{{"schema":"siloquent/release-list/1","releases":[{",".join(releases)}]}}'


def build_export_document(release: str, file: Path, form: str, rows: int) -> dict[str, Any]:
    """Return a release written to a file as a document of kind ``siloquent/export/1``."""
    return {"schema": "siloquent/export/1", "release": release, "file": str(file), "format": form, "rows": rows}


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
