"""The number of units that hold each key of a text column, where the keys are not declared.

A unit counts for at most a stated number of keys, which a salted hash of unit and key chooses among the unit's own
keys: no other unit's rows have an influence. Keys are compared by bytes. Proof: docs/explanation/discover.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from siloquent.data.engines.base import IN_PART
from siloquent.data.sql.indices import SourceColumn, build_int_literal, limit_text, quote_name, try_cast
from siloquent.data.units.contribution_bounding import HASHED, select_as_read
from siloquent.schema import Unit

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Read = Callable[[exp.Query], Iterator[pa.RecordBatch]]

MAX_KEY_BYTES = 256
"""Longer texts count as no key: a function of the row alone, and a bound on the memory of a key."""
MAX_HELD_BYTES = 2**29
"""Keys that take more memory are counted part by part, by the first digits of their hash."""
MAX_DIGITS = 6
_DIGITS = "0123456789abcdef"
_KEY, _UNITS, _USER, _RANK = "key", "units", "u", "r"


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """Distinct keys, none of which is in another part, and the number of units that count for each."""

    keys: pa.Array
    units: NDArray[np.int64]


def build_key_query(
    columns: Sequence[SourceColumn], unit: Unit, name: str, *, salt: str, keys_each: int, prefix: str = ""
) -> exp.Select:
    """Return the query of each key and its number of units, for keys whose hash begins with ``prefix``.

    With a user unit, an engine may answer it for parts of the users: then a key's numbers are to be added up.
    """
    found = next(column for column in columns if column.attribute.name == name)
    key = exp.alias_(limit_text(quote_name(found.read_name), MAX_KEY_BYTES), _KEY, quoted=True)
    if unit.kind == "row":
        pairs = exp.select(key).from_(select_as_read([found]).subquery("as_read"))
        rows = (
            exp.select(quote_name(_KEY))
            .from_(pairs.subquery("pairs"))
            .where(_is_present(_KEY))
            .where(_build_part(_KEY))
        )
        return _group(rows, prefix)
    user = next(column for column in columns if column.attribute.name == unit.column)
    shown = [exp.alias_(quote_name(user.read_name), _USER, quoted=True), key]
    pairs = exp.select(*shown).from_(select_as_read([user, found]).subquery("as_read"))
    distinct = (
        exp.select(quote_name(_USER), quote_name(_KEY))
        .distinct()
        .from_(pairs.subquery("pairs"))
        .where(_is_present(_USER))
        .where(_is_present(_KEY))
        .where(_build_part(_USER))
    )
    own = rank_own_keys(salt, quote_name(_KEY), hashed=user.kind in HASHED)
    rank = exp.alias_(own, _RANK, quoted=True)
    ranked = exp.select(quote_name(_KEY), rank).from_(distinct.subquery("held"))
    most = exp.LTE(this=quote_name(_RANK), expression=build_int_literal(keys_each))
    return _group(exp.select(quote_name(_KEY)).from_(ranked.subquery("ranked")).where(most), prefix)


def count_keys(read: Read, build: Callable[[str], exp.Query], prefix: str = "") -> Iterator[KeyCounts]:
    """Yield the counts of all keys whose hash begins with ``prefix``, in parts of bounded memory.

    Args:
        read: Yields the rows of a query in batches.
        build: Returns the query for a prefix.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    batches = read(build(prefix))
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > MAX_HELD_BYTES:
            held = _add_up(held)
            size = sum(part.nbytes for part in held)
            if size > MAX_HELD_BYTES // 2 and len(prefix) < MAX_DIGITS:
                break
    else:
        yield from _list_counts(_add_up(held))
        return
    held.clear()
    if isinstance(batches, Generator):
        batches.close()  # lets go of the engine's connection before the next query
    for digit in _DIGITS:
        yield from count_keys(read, build, prefix + digit)


def _group(keys: exp.Select, prefix: str) -> exp.Select:
    query = (
        exp.select(quote_name(_KEY), exp.alias_(exp.Count(this=exp.Star()), _UNITS, quoted=True))
        .from_(keys.subquery("counted"))
        .group_by(quote_name(_KEY))
    )
    if not prefix:
        return query
    begins = exp.func("SUBSTRING", exp.MD5(this=quote_name(_KEY)), build_int_literal(1), build_int_literal(len(prefix)))
    return query.where(exp.EQ(this=begins, expression=exp.Literal.string(prefix)))


def _is_present(name: str) -> exp.Expr:
    return exp.not_(exp.Is(this=quote_name(name), expression=exp.Null()))


def _build_part(name: str) -> exp.Expr:
    return exp.Anonymous(this=IN_PART, expressions=[quote_name(name)])


def rank_own_keys(salt: str, text: exp.Expr, *, hashed: bool) -> exp.Window:
    """Return 1, 2, ... over a user's keys (``u``, ``key``), in an order of only the user, the key and the salt.

    ``text``: the key as text. With ``hashed``, each user has an order of its own; otherwise keys that are late in the
    common one would be counted for few users. Users whose text differs between engines share one order.
    """
    who = [try_cast(quote_name(_USER), "VARCHAR")] if hashed else []
    parts = [exp.Literal.string(salt), *who, text]
    joined = exp.func("CONCAT_WS", exp.func("CHR", exp.Literal.number(31)), *parts, dialect="duckdb")
    keys = [exp.MD5(this=joined), quote_name(_KEY)]
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[quote_name(_USER)],
        order=exp.Order(expressions=[exp.Ordered(this=key, nulls_first=False) for key in keys]),
    )


def _add_up(held: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Merge the batches into a single batch that holds each key once; without keys the list is empty."""
    import pyarrow as pa

    if not held:
        return []
    table = pa.Table.from_batches([_to_plain_types(batch) for batch in held])
    added = table.group_by(_KEY).aggregate([(_UNITS, "sum")]).rename_columns([_KEY, _UNITS])
    return list(added.combine_chunks().to_batches())


def _to_plain_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the key as text and the number as int64, whatever the engine's own types are."""
    import pyarrow as pa

    arrays = [batch.column(_KEY).cast(pa.large_string()), batch.column(_UNITS).cast(pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, names=[_KEY, _UNITS])


def _list_counts(parts: Sequence[pa.RecordBatch]) -> Iterator[KeyCounts]:
    for part in parts:
        yield KeyCounts(part.column(_KEY), np.array(part.column(_UNITS).to_numpy(), dtype=np.int64))
