"""JSON Schemas of documents: one for each kind, shared by ``--json`` and the API."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from siloquent.errors import UnknownName
from siloquent.fixes import run

TABLE_FILE = "table-file"


def kinds() -> list[str]:
    """Return the kinds of documents, in alphabetical order; ``siloquent/KIND/VERSION`` is the first value of each."""
    folder = resources.files("siloquent.documents") / "schemas"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of ``kind``.

    Raises:
        UnknownName: There is no such kind.
    """
    if kind == TABLE_FILE:
        from siloquent.schema.files.toml import build_json_schema as of_table_files

        return of_table_files()
    if kind not in kinds():
        raise UnknownName("kind of document", kind, [*kinds(), TABLE_FILE], fix=run("schema", "answer"))
    text = (resources.files("siloquent.documents") / "schemas" / f"{kind}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
