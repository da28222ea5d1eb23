"""The rows of one party, from its private table or from a public one, and the dependencies inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import UseOption
from siloquent.maths.dependencies import DiscoveryProgress, discover
from siloquent.profile.measure.snapshot import Snapshot, encode_snapshot
from siloquent.profile.spec.columns import ProfileColumn
from siloquent.profile.spec.report import Dependency, build_dependencies
from siloquent.profile.spec.request import LOCAL_LHS, WIDE_TABLE
from siloquent.readable import Readable

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit

MAX_SHOWN = 40


@dataclass(frozen=True, slots=True, repr=False)
class LocalResult(Readable):
    """The minimal dependencies of one table, for its owner: exact, not private.

    ``complete_to_lhs``: left sides of more columns were not searched.
    """

    columns: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    constants: tuple[str, ...]
    complete_to_lhs: int

    def __str__(self) -> str:
        shown = [f"  {one}" for one in self.dependencies[:MAX_SHOWN]]
        shown += [f"  and {len(self.dependencies) - MAX_SHOWN:,} more"] if len(self.dependencies) > MAX_SHOWN else []
        constant = [f"Constant: {', '.join(self.constants)}"] if self.constants else []
        head = f"{len(self.dependencies):,} dependencies of {len(self.columns):,} columns, left sides of at most "
        exact = "Exact facts about the rows, for the owner only: no noise was added."
        return "\n".join([f"{head}{self.complete_to_lhs}", *shown, *constant, exact])


def discover_locally(
    table: Any,
    *,
    max_lhs: int | None = None,
    empty_lhs: bool = False,
    nulls: str = "value",
    progress: Callable[[DiscoveryProgress], None] | None = None,
) -> LocalResult:
    """Find the functional dependencies of ``table``, anything with ``__arrow_c_stream__``, without privacy.

    Args:
        max_lhs: The longest left side; None: all up to 12 columns, 3 above that.
        nulls: "value": NULL equals NULL; "distinct": NULL equals nothing. NaN is NULL.
        progress: Called repeatedly during the search; an exception from it ends the search.
    Privacy:
        None: exact, only for the owner of the rows.
    """
    import pyarrow as pa

    arrow = pa.table(table)
    if max_lhs is not None and (type(max_lhs) is not int or max_lhs < 1):
        raise RequestError(
            f"max_lhs must be a whole number of at least 1, not {max_lhs!r}.", fix=UseOption("max_lhs", 3)
        )
    if max_lhs is None and arrow.num_columns > WIDE_TABLE:
        max_lhs = LOCAL_LHS
    codes = _encode_codes(arrow, nulls)
    found = discover(codes, max_lhs=max_lhs, empty_lhs=empty_lhs, progress=progress)
    constants = [name for j, name in enumerate(arrow.column_names) if len(np.unique(codes[:, j])) <= 1]
    most = len(arrow.column_names) if max_lhs is None else max_lhs
    return LocalResult(
        tuple(arrow.column_names), build_dependencies(found, arrow.column_names), tuple(constants), min(most, 62)
    )


def _encode_codes(table: Any, nulls: str) -> NDArray[np.int64]:
    """Return codes of every cell, shape (rows, columns)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if nulls not in ("value", "distinct"):
        raise RequestError(f"nulls must be value or distinct, not {nulls!r}.")
    columns = []
    for column in table.columns:
        whole = column.combine_chunks()
        if pa.types.is_floating(whole.type):
            whole = pc.if_else(pc.is_nan(whole), None, pc.add(whole, 0.0))  # -0.0 equals 0.0
        elif pa.types.is_dictionary(whole.type):
            whole = whole.cast(whole.type.value_type)
        found = whole.dictionary_encode().indices
        codes = np.array(found.fill_null(-1), dtype=np.int64)
        if nulls == "distinct":
            lost = np.flatnonzero(codes < 0)
            codes[lost] = len(codes) + np.arange(len(lost))
        columns.append(codes + 1)
    if not columns:
        raise RequestError("The table has no columns.")
    return np.stack(columns, axis=1)


def read_table_snapshot(
    table: PrivateTable, columns: Sequence[ProfileColumn], permit: Permit, *, nulls: str, party: str, random: bytes
) -> Snapshot:
    """Read the valid rows of a private table once, in their current state. An unreadable cell is NULL.

    A single row must not decide whether a session continues: ``require_readable`` checks in advance, from the
    declaration and the source, whether a column can be read.

    Privacy:
        Exact, in this process only. ``permit`` is for the disclosure that the session's statement describes.
    """
    parts: list[list[Any]] = [[] for _ in columns]
    for batch in table.read_rows([column.name for column in columns], permit):
        for part, values in zip(parts, batch.columns, strict=True):
            part.extend(values.to_pylist())
    return encode_snapshot(columns, parts, nulls=nulls, party=party, random=random, refuse=False)


def require_readable(table: PrivateTable, columns: Sequence[ProfileColumn]) -> None:
    """Check that the source's column types can be compared in a session; no row is read.

    Raises:
        SchemaError: ids that are neither texts nor integers: their equality would depend on the engine.
    """
    _, stored, _ = table.open_for_owner()
    kinds = {column.attribute.name: column.kind for column in stored}
    for column in columns:
        kind = kinds[column.name]
        if column.names_people and kind not in ("text", "integer"):
            raise SchemaError(
                f"The ids of {column.name!r} are kept as {kind}; a profile compares ids of texts and whole numbers.",
                fix=f"declare {column.name} as text, or omit it",
            )


def read_arrow_snapshot(
    table: Any, columns: Sequence[ProfileColumn], *, nulls: str = "value", party: str = "", random: bytes = b""
) -> Snapshot:
    """Read the rows of a public table, for simulations and benchmarks."""
    import pyarrow as pa

    arrow = pa.table(table)
    parts = [arrow[column.name].to_pylist() for column in columns]
    return encode_snapshot(columns, parts, nulls=nulls, party=party, random=random)


def read_owner_rows(table: PrivateTable, names: Sequence[str]) -> Any:
    """Read the valid rows of a private table, as an Arrow table, for its owner.

    Privacy:
        None: exact. The caller ensures that the owner made the request.
    """
    import pyarrow as pa

    from siloquent.data.decode import Decoder
    from siloquent.data.units.contribution_bounding import select_bounded_rows

    engine, columns, salt = table.open_for_owner()
    wanted = tuple(next(c for c in columns if c.attribute.name == name) for name in names)
    decode = Decoder(wanted, False)
    query = select_bounded_rows(columns, table.schema.unit, salt=salt, wanted=wanted)
    return pa.Table.from_batches([decode(batch) for batch in engine.read_batches(query)])
