"""A table with the tables of the same unit that its conditions look up, as one relation: ``customers~orders``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.schema.table import TILDE, TableSchema


def name_with_related(base: str, others: Sequence[str]) -> str:
    """Return the name of the relation of ``base`` whose conditions look up rows of ``others``."""
    return TILDE.join((base, *sorted({*others})))


def add_related(base: TableSchema, others: Sequence[TableSchema]) -> TableSchema:
    """Return ``base``, whose rows count as ever, with ``others`` to be looked up.

    Raises:
        RequestError: they are about other units.
    """
    for one in others:
        if one.account != base.account or "row" in (base.unit.kind, one.unit.kind):
            raise RequestError(
                f"The rows of {base.name} and of {one.name} are not about the same persons.",
                fix=f"declare units/NAME.toml, and how the rows of {base.name} and of {one.name} find it",
            )
    name = name_with_related(base.name, [one.name for one in others])
    if {one.name for one in others} == {base.name}:  # the same declaration
        return replace(base, name=name, related=tuple(others))
    digest = hashlib.sha256(json.dumps([name, base.digest, *(one.digest for one in others)]).encode()).hexdigest()
    return replace(base, name=name, digest=digest, related=tuple(others))
