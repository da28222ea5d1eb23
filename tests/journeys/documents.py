"""Does a document keep its JSON Schema: the words that our schemas use, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from siloquent.documents.kinds import json_schema, kinds

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
WORDS = {"type", "required", "properties", "items", "enum", "const", "pattern"}
SILENT = {"$schema", "$id", "title", "description"}


def faults(document: Any, schema: dict[str, Any], place: str = "") -> Iterator[str]:
    """What does not fit, with its place. Keys must also come in the schema's order."""
    unknown = set(schema) - WORDS - SILENT
    assert not unknown, f"this checker does not know {unknown}"
    if "const" in schema and document != schema["const"]:
        yield f"{place}: {document!r} is not {schema['const']!r}"
    if "enum" in schema and document not in schema["enum"]:
        yield f"{place}: {document!r} is none of {schema['enum']}"
    if "type" in schema and not _is(document, schema["type"]):
        yield f"{place}: {document!r} is no {schema['type']}"
    if "pattern" in schema and isinstance(document, str) and not re.search(schema["pattern"], document):
        yield f"{place}: {document!r} does not match {schema['pattern']}"
    if isinstance(document, dict):
        yield from _of_object(document, schema, place)
    if isinstance(document, list) and "items" in schema:
        for number, item in enumerate(document):
            yield from faults(item, schema["items"], f"{place}[{number}]")


def misfits(document: Any) -> list[str]:
    """What does not fit of a document and of all documents within it, each by the published schema of its own id."""
    found: list[str] = []
    for one in documents_in(document):
        kind, _, version = one["schema"].removeprefix("siloquent/").partition("/")
        if kind not in kinds():
            found.append(f"no schema is published of {one['schema']}")
            continue
        found += [f"{kind}/{version}{fault}" for fault in faults(one, json_schema(kind))]
    return found


def documents_in(value: Any) -> Iterator[dict[str, Any]]:
    """A document and the documents within it."""
    if isinstance(value, dict) and str(value.get("schema", "")).startswith("siloquent/"):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from documents_in(inner)


def _is(value: Any, names: str | list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in names
    return any(isinstance(value, TYPES[name]) for name in ([names] if isinstance(names, str) else names))


def _of_object(document: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in document:
            yield f"{place}: {key!r} is missing"
    if properties:
        for key in document.keys() - properties.keys():
            yield f"{place}: {key!r} is not in the schema"
        order = [key for key in properties if key in document]
        if [key for key in document if key in properties] != order:
            yield f"{place}: the keys are not in the schema's order: {list(document)}"
    for key, inner in properties.items():
        if key in document:
            yield from faults(document[key], inner, f"{place}.{key}")
