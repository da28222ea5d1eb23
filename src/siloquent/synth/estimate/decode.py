"""Decoding of drawn cells to a table of the source's own types, without placeholders or cell numbers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute, Domain

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.synth.spec.compiled import CompiledConstraints

_TYPES = {"integer": "int64", "real": "float64", "category": "string", "boolean": "bool", "date": "date32"}
_MAX_LABELS = 2**16


def decode_rows(rows: NDArray[np.int32], compiled: CompiledConstraints, domain: Domain) -> pa.Table:
    """Decode ``rows`` (rows, attributes of ``compiled``) to an Arrow table in declared order; ids are 1..rows."""
    import pyarrow as pa

    columns, names = [], []
    for attribute in domain:
        if attribute.name in compiled.fresh:
            columns.append(_number_rows(attribute, len(rows)))
        elif attribute.name in compiled.attributes:
            columns.append(_decode_values(attribute, rows[:, compiled.find_column(attribute.name)]))
        else:
            continue
        names.append(attribute.name)
    return pa.table(columns, names=names)


def _number_rows(attribute: Attribute, rows: int) -> pa.Array:
    """Return fresh numbers for an ``id`` column, without meaning."""
    import pyarrow as pa

    return pa.array(np.arange(1, rows + 1))


def _decode_values(attribute: Attribute, cells: NDArray[np.int32]) -> pa.Array:
    """Return the declared values of ``cells``; NULL for NULL's cell, ``(other)`` for the cell of values not listed."""
    import pyarrow as pa

    if attribute.size <= _MAX_LABELS:
        labels = [attribute.label(place) for place in range(attribute.size)]
        return pa.array(labels, _find_arrow_type(attribute)).take(pa.array(cells))
    other = np.flatnonzero(cells >= attribute.steps)
    mask = np.zeros(len(cells), dtype=np.bool_)
    mask[other] = [attribute.label(int(cell)) is None for cell in cells[other]]
    return pa.array(_decode_numbers(attribute, cells), _find_arrow_type(attribute), mask=mask)


def _decode_numbers(attribute: Attribute, cells: NDArray[np.int32]) -> NDArray[Any]:
    """Return the declared numbers or moments of many cells at once; ``Attribute.label`` gives them one by one."""
    places = cells.astype(np.int64)
    if attribute.is_temporal:
        first, step, _ = attribute.moments
        return (first + places * step).astype("datetime64[us]")
    whole, denominator = Decimal(attribute.grid or 1).as_integer_ratio()
    exact = (places + int(Fraction(Decimal(str(attribute.lo))) * denominator / whole)) * whole
    return exact if denominator == 1 else exact / denominator


def _find_arrow_type(attribute: Attribute) -> pa.DataType:
    import pyarrow as pa

    return pa.timestamp("us") if attribute.kind == "datetime" else pa.type_for_alias(_TYPES[attribute.kind])
