"""JSON Schemas of job specs, derived from the classes that read them, so that new fields appear automatically."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]
_SIMPLE: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Fraction: {"type": "string"},
    Decimal: {"type": "number"},
}


def job_schemas() -> dict[str, Schema]:
    """Return the schema of the spec of each task that runs as a job."""
    from siloquent.discover import DiscoverRequest
    from siloquent.search import OfferSpec, RequestSpec
    from siloquent.share import ShareSpec
    from siloquent.sketch import SketchSpec
    from siloquent.synth import SynthSpec

    kinds: dict[str, type] = {
        "sketch": SketchSpec,
        "synth": SynthSpec,
        "search": OfferSpec,
        "find": RequestSpec,
        "share": ShareSpec,
        "discover": DiscoverRequest,
    }
    return {task: schema_of(kind) for task, kind in kinds.items()}


def schema_of(kind: type) -> Schema:
    """Return the closed schema of a dataclass's input, without fields that name files of the machine."""
    from siloquent.server.jobs.tasks import FILES

    hints = get_type_hints(kind)
    known = [one for one in fields(kind) if one.init and one.name not in FILES]
    return {
        "type": "object",
        "title": kind.__name__,
        "additionalProperties": False,
        "required": [one.name for one in known if one.default is MISSING and one.default_factory is MISSING],
        "properties": {one.name: _of(hints[one.name]) for one in known},
    }


def _of(hint: Any) -> Schema:
    from siloquent.maths.lsh import Kernel
    from siloquent.search import KeyOf

    if hint == Kernel:
        return _kernel()
    if hint is KeyOf:
        return _key()
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return _either([_of(one) for one in inner if one is not Path])
    if origin is tuple:
        return {"type": "array", "items": _of(inner[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1])}
    if is_dataclass(hint) and isinstance(hint, type):
        return schema_of(hint)
    raise TypeError(f"a spec has a field of type {hint!r}, which has no JSON Schema here")


def _either(found: list[Schema]) -> Schema:
    return (
        found[0] if len(found) == 1 else {"anyOf": [one for place, one in enumerate(found) if one not in found[:place]]}
    )


def _key() -> Schema:
    names = {"type": "array", "minItems": 1, "items": {"type": "string"}}
    parent = {"type": ["integer", "null"]}
    whole = {
        "type": "object",
        "additionalProperties": False,
        "required": ["attributes"],
        "properties": {"attributes": names, "parent": parent},
    }
    return {"anyOf": [{"type": "string"}, names, whole]}


def _kernel() -> Schema:
    """Return the schema of a kernel by its kind; kernels of kernels are open, since they nest."""
    from siloquent.maths.lsh import KINDS

    simple = []
    for name, kind in KINDS.items():
        schema = schema_of(kind)
        schema["properties"] = {"kind": {"const": name}, **schema["properties"]}
        schema["required"] = ["kind", *schema["required"]]
        simple.append(schema)
    nested = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["power", "product"]}}}
    return {"oneOf": [*simple, nested]}
