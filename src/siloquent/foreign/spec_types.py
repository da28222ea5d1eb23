"""Type checks of a spec's values against its annotations, before they are compared or used."""

from __future__ import annotations

import operator
import types
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from siloquent.errors import SiloquentError

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "None"}


class _WrongType(Exception):
    """Raised if the value is of another type."""


def check_types(spec: Any, error: type[SiloquentError], **also: type) -> None:
    """Refuse values of other types than the fields of ``spec`` declare; lists become the corresponding tuples.

    Args:
        spec: A frozen dataclass, in its ``__post_init__``.
        error: The class of the error to raise.
        also: An additional type of a field, on its own or within its tuple.
    Raises:
        SiloquentError: ``error``, with the field, the accepted types and the given value.
    """
    kind: type = type(spec)
    for name, hint in _load_hints(kind).items():
        value = getattr(spec, name)
        try:
            fitting = _coerce(value, hint, also.get(name))
        except _WrongType:
            raise error(
                f"{name} of {kind.__name__} is {_describe_hint(hint)}, not {type(value).__name__}.",
                fix=f"give {name} as {_describe_hint(hint)}",
            ) from None
        if fitting is not value:
            object.__setattr__(spec, name, fitting)


@lru_cache(200)
def _load_hints(kind: type) -> dict[str, Any]:
    """Return the annotations of a dataclass; names imported only for type checkers may be anything."""
    unknown: dict[str, Any] = {}
    while True:
        try:
            return get_type_hints(kind, localns=unknown)
        except NameError as missing:
            unknown[str(missing.name)] = Any


def _coerce(value: Any, hint: Any, also: type | None = None) -> Any:
    """Return ``value`` as ``hint`` requires it."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any or (also is not None and isinstance(value, also)):
        return value
    if origin is Literal:
        return _require_type(value, tuple({type(one) for one in inside}))
    if origin in (Union, types.UnionType):
        return _coerce_union(value, inside, also)
    if origin is tuple:
        return _coerce_items(value, inside[0], also)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        for key, one in _require_type(value, (Mapping,)).items():
            _require_type(key, (str, int))
            _coerce(one, inside[1])
        return value
    return _coerce_scalar(value, hint)


def _coerce_union(value: Any, hints: tuple[Any, ...], also: type | None) -> Any:
    if Fraction in hints and Decimal in hints:  # amounts: a float is refused when parsed, with a better message
        return _require_type(value, (str, int, float, Fraction, Decimal, *(one for one in hints if one is type(None))))
    for hint in hints:
        try:
            return _coerce(value, hint, also)
        except _WrongType:
            continue
    raise _WrongType


def _coerce_items(value: Any, hint: Any, also: type | None) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _WrongType
    found = tuple(_coerce(one, hint, also) for one in value)
    return value if type(value) is tuple and all(a is b for a, b in zip(value, found, strict=True)) else found


def _coerce_scalar(value: Any, kind: Any) -> Any:
    if not isinstance(kind, type):  # an array, a protocol: its reader checks it
        return value
    if kind is int:
        return value if type(value) is int else operator.index(_require_type(value, (Integral,)))
    if kind is float:
        return value if type(value) in (int, float) else float(_require_type(value, (Real, Decimal)))
    if kind is Path:
        return Path(_require_type(value, (str, Path)))
    return _require_type(value, (kind,))


def _require_type(value: Any, kinds: tuple[type, ...]) -> Any:
    """Return ``value`` if it is of these types; booleans are not numbers."""
    if isinstance(value, bool) and bool not in kinds and object not in kinds:
        raise _WrongType
    if not isinstance(value, kinds):
        raise _WrongType
    return value


def _describe_hint(hint: Any) -> str:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(repr(one) for one in inside)
    if origin in (Union, types.UnionType):
        if Fraction in inside and Decimal in inside:
            return "a number as text"
        return " or ".join(dict.fromkeys(_describe_hint(one) for one in inside))
    if origin is tuple:
        return f"a tuple, each of {_describe_hint(inside[0])}"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
