"""Public files that give the table of a functional dependency: read, checked, and named by their hash."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import RequestError
from siloquent.synth.estimate.keep import Tables, reference_table
from siloquent.synth.spec.compiled import DependencyTable
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from siloquent.synth.engines import Plan

MOST_BYTES = 2**28


def reference_digests(spec: SynthSpec) -> dict[str, str]:
    """The SHA-256 of every public file that the request names.

    Raises:
        RequestError: One cannot be read.
    """
    return {name: hashlib.sha256(_bytes(Path(path))).hexdigest() for name, path in sorted(spec.references.items())}


def reference_tables(plan: Plan) -> Tables:
    """y(x) of each functional dependency with a public file, by the number of its constraint.

    Raises:
        RequestError: A file lacks a column, breaks its own dependency, or belongs to none.
    """
    used = {need.reference: need for need in plan.compiled.needs if need.reference}
    for name in plan.spec.references:
        if name not in used:
            known = ", ".join("_".join((*need.lhs, need.rhs)) for need in plan.compiled.needs) or "none"
            raise RequestError(f"No functional dependency is named {name!r}.", fix=f"references by name: {known}")
    made = {}
    for name, need in used.items():
        path = Path(plan.spec.references[name])
        columns = _columns(path, (*need.lhs, need.rhs))
        places = [
            np.array([plan.schema.domain[column].index(value) for value in columns[column]], dtype=np.int64)
            for column in (*need.lhs, need.rhs)
        ]
        random = np.random.default_rng(need.constraint)
        made[need.constraint] = reference_table(need, np.stack(places[:-1], axis=1), places[-1], random)
    return made


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise RequestError(f"{path} is too large for a reference.", fix="a file of its distinct rows")
        return path.read_bytes()
    except OSError as failed:
        raise RequestError(f"The reference {path} cannot be read: {failed.strerror}.", fix="correct its path") from None


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, list[str | None]]:
    """The wanted columns of a CSV file as text."""
    import csv
    import io

    try:
        reader = csv.reader(io.StringIO(_bytes(path).decode("utf-8")))
        header = next(reader, [])
        missing = [name for name in names if name not in header]
        if missing:
            raise RequestError(f"The reference {path} lacks the column {', '.join(missing)}.")
        at = [header.index(name) for name in names]
        rows = [[row[i] if i < len(row) and row[i] != "" else None for i in at] for row in reader]
    except (UnicodeDecodeError, csv.Error):
        raise RequestError(f"The reference {path} is no UTF-8 CSV file.") from None
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def tables_to_plain(plan: Plan, tables: Tables) -> dict[str, list[int]]:
    """The tables that came from public files, as JSON takes them: model files need the files no more."""
    public = {need.constraint for need in plan.compiled.needs if need.reference}
    return {str(number): table.values.tolist() for number, table in tables.items() if number in public}


def tables_from_plain(plan: Plan, plain: dict[str, list[int]]) -> Tables:
    """What ``tables_to_plain`` wrote."""
    needs = {need.constraint: need for need in plan.compiled.needs}
    return {
        int(number): DependencyTable(needs[int(number)], np.array(values, dtype=np.int32))
        for number, values in plain.items()
    }
