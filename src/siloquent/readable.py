"""Results as text at a prompt and in a notebook, and as tables of other libraries.

Text is shown without colours, so that light and dark themes show it alike; text from data is escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from siloquent.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Readable:
    """A value whose text, ``str(value)``, is also what a prompt and a notebook show; subclasses say ``__str__``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Tabular:
    """A result with rows: ``to_arrow`` gives them, and other libraries take them from there."""

    __slots__ = ()
    _facts: ClassVar[tuple[str, ...]] = ()

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame; ``frame.attrs`` holds the promise, the guarantee and the columns' units.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401 - an optional package: asked for before anything is built
        except ImportError:
            raise MissingExtra("pandas", "to_pandas") from None
        table = self.to_arrow()
        frame = table.to_pandas()
        for name in table.column_names:  # a missing group is NA: in pandas' own types it would be NaN, and 1 be 1.0
            if table[name].null_count and (kind := _choose_nullable(table[name].type)) is not None:
                frame[name] = table[name].to_pandas(types_mapper=lambda _, kind=kind: kind)
        frame.attrs.update(_read_facts(table))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars frame. It has no place for the promise and the units: see ``to_arrow``.

        Raises:
            MissingExtra: polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise MissingExtra("polars", "to_polars") from None
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame


def _choose_nullable(kind: pa.DataType) -> Any:
    """Return pandas' type with NA for texts, integers and booleans; None for others."""
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pd.StringDtype()
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    return pd.BooleanDtype() if pa.types.is_boolean(kind) else None


def label_table(table: pa.Table, *, units: dict[str, str], **facts: str) -> pa.Table:
    """Return ``table`` with the unit of each column in its field's metadata, and ``facts`` in the table's."""
    import pyarrow as pa

    fields = [one.with_metadata({"unit": units[one.name]}) if one.name in units else one for one in table.schema]
    return table.cast(pa.schema(fields, metadata=facts))


def _read_facts(table: pa.Table) -> dict[str, Any]:
    facts = {key.decode(): text.decode() for key, text in (table.schema.metadata or {}).items()}
    units = {one.name: one.metadata[b"unit"].decode() for one in table.schema if one.metadata}
    return {**facts, **({"units": units} if units else {})}
