"""Numbers on the command line: only ASCII digits, whereas Python also accepts 1_000 and digits of other scripts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, get_args

import typer

from siloquent.foreign.numbers import is_plain_number

_WORDS: dict[type, str] = {int: "integer", float: "float"}


def restrict_number(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a command's ``parameter``, parsed by ``_build_reader`` if it is a number."""
    base, *rest = get_args(parameter.annotation) or (parameter.annotation,)
    kind = next((one for one in (int, float) if one in (base, *get_args(base))), None)
    if kind is None or not rest:
        return parameter
    info = copy(rest[0])
    info.parser = _build_reader(kind, info.min, info.max)
    return parameter.replace(annotation=Annotated[base, info])


def _build_reader(kind: type, least: float | None, most: float | None) -> Callable[[Any], Any]:
    """Return a parser of words to numbers of ``kind`` from ``least`` to ``most``; it passes a default unchanged."""

    def read(word: Any) -> Any:
        if not isinstance(word, str):
            return word
        try:
            value = kind(word) if is_plain_number(word) else None
        except ValueError:
            value = None
        if value is None:
            raise typer.BadParameter(f"{word!r} is not a valid {_WORDS[kind]}.")
        if (least is not None and value < least) or (most is not None and value > most):
            ends = f"{'' if least is None else f'{least:,}<='}x{'' if most is None else f'<={most:,}'}"
            raise typer.BadParameter(f"{word} is not in the range {ends}.")
        return value

    read.__name__ = _WORDS[kind]
    return read
