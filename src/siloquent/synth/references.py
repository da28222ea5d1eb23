"""Public files with the table of a functional dependency: read, checked, and identified by their hash."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import RequestError
from siloquent.foreign import DocumentTooLarge, read_lines
from siloquent.synth.estimate.enforce.constraints import Tables, build_reference_table
from siloquent.synth.spec.compiled import DependencyTable
from siloquent.synth.spec.spec import SynthSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.schema import Attribute
    from siloquent.synth.engines import Plan

MAX_BYTES = 2**28
MAX_ROWS = 5 * 10**6
MAX_LINE = 2**20


def compute_reference_digests(spec: SynthSpec) -> dict[str, str]:
    """Return the SHA-256 of every public file that the request names.

    Raises:
        RequestError: A file cannot be read.
    """
    return {name: _compute_digest(Path(path)) for name, path in sorted(spec.references.items())}


def read_reference_tables(plan: Plan) -> Tables:
    """Return y(x) of each functional dependency with a public file, by the number of its constraint.

    Raises:
        RequestError: A file lacks a column, breaks its own dependency, or matches no dependency.
    """
    used = {need.reference: need for need in plan.compiled.needs if need.reference}
    for name in plan.spec.references:
        if name not in used:
            known = ", ".join("_".join((*need.lhs, need.rhs)) for need in plan.compiled.needs) or "none"
            raise RequestError(f"No functional dependency is named {name!r}.", fix=f"references by name: {known}")
    made = {}
    for name, need in used.items():
        path = Path(plan.spec.references[name])
        places = _read_indices(path, [plan.schema.domain[column] for column in (*need.lhs, need.rhs)])
        random = np.random.default_rng(need.constraint)
        made[need.constraint] = build_reference_table(need, np.stack(places[:-1], axis=1), places[-1], random)
    return made


def _compute_digest(path: Path) -> str:
    with _open_reference(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _open_reference(path: Path) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise RequestError(f"{path} is too large to be a reference.", fix="a file of its distinct rows")
            yield file
    except OSError as failed:
        raise RequestError(f"Cannot read the reference {path}: {failed.strerror}.", fix="correct its path") from None


def _read_indices(path: Path, attributes: Sequence[Attribute]) -> list[NDArray[np.int64]]:
    """Read the cells of the attributes' values in the rows of a CSV file; only cells are kept."""
    import csv
    import io

    found = [array("q") for _ in attributes]
    try:
        with _open_reference(path) as file:
            reader = csv.reader(read_lines(io.TextIOWrapper(file, encoding="utf-8", newline=""), MAX_LINE))
            header = next(reader, [])
            missing = [one.name for one in attributes if one.name not in header]
            if missing:
                raise RequestError(f"The reference {path} lacks the column {', '.join(missing)}.")
            at = [header.index(one.name) for one in attributes]
            for row in reader:
                if len(found[0]) >= MAX_ROWS:
                    raise RequestError(f"{path} has too many rows for a reference.", fix="a file of its distinct rows")
                for attribute, places, i in zip(attributes, found, at, strict=True):
                    places.append(attribute.index(row[i] if i < len(row) and row[i] != "" else None))
    except (UnicodeDecodeError, csv.Error, DocumentTooLarge):
        raise RequestError(f"The reference {path} is not a CSV file in UTF-8.") from None
    return [np.frombuffer(places, dtype=np.int64) if len(places) else np.zeros(0, np.int64) for places in found]


def dump_tables(plan: Plan, tables: Tables) -> dict[str, list[int]]:
    """Return the tables from public files as JSON values, so that model files do not need the files."""
    public = {need.constraint for need in plan.compiled.needs if need.reference}
    return {str(number): table.values.tolist() for number, table in tables.items() if number in public}


def parse_tables(plan: Plan, plain: dict[str, list[int]]) -> Tables:
    """Parse the output of ``dump_tables``."""
    needs = {need.constraint: need for need in plan.compiled.needs}
    return {
        int(number): DependencyTable(needs[int(number)], np.array(values, dtype=np.int32))
        for number, values in plain.items()
    }
