"""Conversion of a task's spec to plain values, which the server parses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from siloquent.errors import RequestError


def dump_spec(spec: object) -> dict[str, Any]:
    """Return the fields of a spec that differ from their defaults; the server supplies the defaults.

    Raises:
        RequestError: it is not a spec, or names a file of this machine, which a server cannot read.
    """
    if isinstance(spec, Mapping):
        return dict(spec)
    if not is_dataclass(spec) or isinstance(spec, type):
        raise RequestError(f"Expected a spec, not {type(spec).__name__}.", fix='{"table": "visits", ...}')
    found: dict[str, Any] = {}
    for one in fields(spec):
        value = getattr(spec, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.init and value != default:
            found[one.name] = _dump_value(one.name, value)
    return found


def _dump_value(name: str, value: Any) -> Any:
    from siloquent.maths.lsh import KINDS, Power, Product, dump_kernel

    kernels: tuple[Any, ...] = (*KINDS.values(), Power, Product)
    if isinstance(value, kernels):
        kernel: Any = value
        return dump_kernel(kernel)
    if isinstance(value, Path) or name == "references":
        raise RequestError(f"A server cannot read files of this machine: {name}.", fix=f"omit {name}")
    if isinstance(value, Mapping):
        return {str(key): _dump_value(str(key), one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_dump_value("", one) for one in value]
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if is_dataclass(value):
        # Nested values keep every field that is not None: a chain's settings have their own presets.
        told = {one.name: getattr(value, one.name) for one in fields(value)}
        return {key: _dump_value(key, one) for key, one in told.items() if one is not None}
    return value
