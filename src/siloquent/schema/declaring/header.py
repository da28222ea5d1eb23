"""Doubts about the first line of a CSV file, which is somebody's row where there is no header line."""

from __future__ import annotations

from siloquent.schema.declaring.columns import ColumnHeader, RawSource
from siloquent.schema.declaring.names import group_columns, is_usual_name

_KINDS = ("csv:", "csv-records:", "xlsx:")


def describe_header_doubt(source: RawSource, origin: str) -> str:
    """Return why the first line may be a row, with none of its text; empty if it surely names the columns.

    It may be a row if one name in four or more looks like a value, or if no name is one that columns usually have.
    """
    if not source.address.startswith(_KINDS):
        return ""
    count = len(source.columns)
    alike = sum(column.is_like_value for column in source.columns)
    if alike and 4 * alike >= count:
        found = f"{alike:,} of the {count:,} names in the first line of {origin} look like values."
    elif not any(is_usual_name(column.name) for column in source.columns) and not _are_numbered(source.columns):
        found = f"None of the {count:,} names in the first line of {origin} is one that columns usually have."
    else:
        return ""
    return f"{found} Without a header line, that line is somebody's row."


def _are_numbered(columns: tuple[ColumnHeader, ...]) -> bool:
    """Return whether half of the names or more differ from another only in a running number."""
    several = [
        len(some) for _, some in group_columns(columns) if len({one.name.rstrip("0123456789") for one in some}) == 1
    ]
    return 2 * sum(count for count in several if count > 1) >= len(columns)
