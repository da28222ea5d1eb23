"""Calibration of slot lengths for this machine, by timing questions to synthetic rows of the declared size."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from siloquent.schema import Attribute, TableSchema

MAX_ROWS = 10_000_000
INVENTED = 4_096
STEP_MS = 50
MARGIN = 4
"""The factor between a slot and the 99th percentile of answer times."""


@dataclass(frozen=True, slots=True)
class SlotTiming:
    """The timing of one table: synthetic rows, timed answers, and the 99th percentile of their times."""

    table: str
    rows: int
    answers: int
    p99_ms: float

    @property
    def slot_ms(self) -> int:
        """The recommended slot: four times the 99th percentile, in whole steps of 50 ms."""
        return STEP_MS * max(1, math.ceil(MARGIN * self.p99_ms / STEP_MS))


def calibrate(schemas: list[TableSchema], rng: np.random.Generator, *, answers: int) -> Iterator[SlotTiming]:
    """Time small counts over synthetic rows of each declaration; no real row is read.

    Raises:
        SchemaError: a declaration gives no approximate number of rows.
    """
    from siloquent.api import open_session
    from siloquent.session import create_workspace

    for schema in schemas:
        if schema.size_hint is None:
            raise SchemaError(
                f"How many rows {schema.name!r} has, approximately, is not declared.",
                fix=f"size_hint = 100000 in [table] of schemas/{schema.name}.toml",
            )
        rows = min(schema.size_hint, MAX_ROWS)
        with tempfile.TemporaryDirectory(prefix="siloquent-") as folder:
            create_workspace(Path(folder) / "w")
            with open_session(Path(folder) / "w") as session:
                session.add_frame(_remove_limits(schema), invent_rows(schema, rows, rng))
                taken = []
                for number in range(answers + 3):
                    started = time.perf_counter()
                    session.save(session.ask(_build_question(schema), key=str(number)))
                    taken.append(1000 * (time.perf_counter() - started))
        yield SlotTiming(schema.name, rows, answers, sorted(taken[3:])[math.ceil(0.99 * answers) - 1])


def invent_rows(schema: TableSchema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Draw rows uniformly from the declared values: a few thousand distinct ones, repeated."""
    import pyarrow as pa

    some = {one.name: _invent_column(one, rng) for one in schema.domain if not one.function}
    return pa.table(some).take(pa.array(rng.integers(0, INVENTED, rows)))


def _invent_column(attribute: Attribute, rng: np.random.Generator) -> pa.Array:
    import pyarrow as pa

    places = rng.integers(0, attribute.steps if attribute.is_countable else INVENTED, INVENTED)
    if not attribute.is_countable:
        return pa.array([f"{place:x}" for place in places.tolist()])
    values: list[Any] = [attribute.label(int(place)) for place in places]
    return pa.array([float(one) if isinstance(one, Fraction) else one for one in values])


def _remove_limits(schema: TableSchema) -> TableSchema:
    """Return the declaration with budget for any number of questions, and without anything that needs other tables."""
    much = Fraction(1_000)
    budget = replace(schema.budget, shares=())
    budget = replace(budget, rho=much) if budget.rho is not None else replace(budget, epsilon=much)
    return replace(schema, budget=budget, constraints=(), public=(), source="")


def _build_question(schema: TableSchema) -> str:
    keys = [one.name for one in schema.domain if one.is_countable and 1 < one.size <= 1_000]
    group = f"{keys[0]}, COUNT(*) FROM {schema.name} GROUP BY {keys[0]}" if keys else f"COUNT(*) FROM {schema.name}"
    return f"SELECT {group} ERROR 100 REUSE NONE"
