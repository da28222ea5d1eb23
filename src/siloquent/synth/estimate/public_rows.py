"""Rows of a release or of a public file, to and from cells of a declared domain; never private rows."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.errors import RequestError, UnknownName
from siloquent.schema import OTHER, Attribute

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

MAX_BYTES = 2**31


@dataclass(frozen=True, slots=True, eq=False)
class PublicRows:
    """A table as in the file, and its cells: shape (rows, attributes), -1 outside the declared domain.

    ``left_out``: the number of lines that were skipped, since they have another number of columns.
    """

    table: pa.Table
    attributes: tuple[Attribute, ...]
    cells: NDArray[np.int64]
    left_out: int = 0

    def replace_cells(self, cells: NDArray[np.integer]) -> pa.Table:
        """Return the table with the values of other cells where they differ; all other values stay as they are."""
        table = self.table
        for place, attribute in enumerate(self.attributes):
            at = np.flatnonzero(cells[:, place] != self.cells[:, place])
            if len(at):
                table = _replace_values(table, attribute, at, cells[at, place])
        return table


def read_file_columns(path: Path) -> frozenset[str]:
    """Return the names of a CSV or Parquet file's columns.

    Raises:
        RequestError: The file cannot be read.
    """
    from siloquent.foreign.tables import read_csv_names, read_parquet_names

    try:
        return frozenset(read_parquet_names(path) if path.suffix == ".parquet" else read_csv_names(path))
    except (OSError, ValueError):
        raise _build_unreadable_error(path) from None


def _build_unreadable_error(path: Path) -> RequestError:
    return RequestError(f"{path} is not a readable table.", fix="a CSV file with a header line")


def read_public(path: Path, attributes: Sequence[Attribute], *, ragged: bool = False) -> PublicRows:
    """Read the rows of a CSV or Parquet file.

    Args:
        ragged: Skip lines with another number of columns, as a table's own source does; otherwise they are refused.
    Raises:
        RequestError: The file cannot be read. UnknownName: An attribute has no column.
    """
    left_out: list[int] | None = [] if ragged else None
    table = _read_table(path, left_out)
    for attribute in attributes:
        if attribute.name not in table.column_names:
            raise UnknownName(f"column in {path}", attribute.name, table.column_names)
    columns = [_encode_cells(attribute, table[attribute.name]) for attribute in attributes]
    cells = np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), dtype=np.int64)
    return PublicRows(table, tuple(attributes), cells, len(left_out or ()))


def write_public(path: Path, table: pa.Table) -> None:
    """Write a new CSV or Parquet file.

    Raises:
        RequestError: The file exists already, or the disk refuses.
    """
    import pyarrow.parquet

    if path.exists():
        raise RequestError(f"{path} already exists.", fix="choose another file, or remove it")
    try:
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            _write_csv(path, table)
    except OSError as failed:
        raise RequestError(f"Cannot write {path}: {failed.strerror}.", fix="name a file in another folder") from None


def _write_csv(path: Path, table: pa.Table) -> None:
    """Write CSV with quotes only where needed: a number that was read without them is written without them."""
    with path.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=100_000):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def copy_public(path: Path, output: Path) -> None:
    """Copy ``path`` to the new file ``output``, byte for byte: for a table in which nothing changed.

    Raises:
        RequestError: As ``write_public``.
    """
    try:
        with path.open("rb") as old, output.open("xb") as new:
            shutil.copyfileobj(old, new)
    except FileExistsError:
        raise RequestError(f"{output} already exists.", fix="choose another file, or remove it") from None
    except OSError as failed:
        raise RequestError(f"Cannot write {output}: {failed.strerror}.", fix="name a file in another folder") from None


def _read_table(path: Path, left_out: list[int] | None) -> pa.Table:
    from siloquent.foreign.tables import read_parquet, read_texts

    try:
        if path.stat().st_size > MAX_BYTES:
            raise RequestError(f"{path} is too large: the limit is 2 GiB.", fix="split it into parts")
        # CSV is read as text, so that unrepaired values stay as they were.
        return read_parquet(path) if path.suffix == ".parquet" else read_texts(path, left_out=left_out)
    except (OSError, ValueError):
        raise _build_unreadable_error(path) from None


def _encode_cells(attribute: Attribute, column: pa.ChunkedArray) -> NDArray[np.int64]:
    encoded = column.combine_chunks().dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    places = np.array([_encode_cell(attribute, value) for value in values], dtype=np.int64)
    return np.asarray(places[encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)])


def _encode_cell(attribute: Attribute, value: Any) -> int:
    """Return the cell of a value; a release's label for values that are not listed maps to that cell again."""
    return attribute.other_index if value == OTHER else attribute.index(value)


def _replace_values(
    table: pa.Table, attribute: Attribute, at: NDArray[np.int64], cells: NDArray[np.integer]
) -> pa.Table:
    import pyarrow as pa

    place = table.column_names.index(attribute.name)
    kind = table.schema.field(place).type
    values = table[attribute.name].to_pylist()
    for row, cell in zip(at.tolist(), cells.tolist(), strict=True):
        value = attribute.label(cell) if cell >= 0 else None
        values[row] = str(value) if value is not None and pa.types.is_string(kind) else value
    return table.set_column(place, table.schema.field(place), pa.array(values, kind))
