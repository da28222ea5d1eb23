"""The names of columns as the first line of a text or the first row of a sheet gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siloquent.data.engines.base import OWNER_LOG
from siloquent.errors import SchemaError


def name_columns(found: Sequence[str], declared: Iterable[str]) -> list[str]:
    """Return the names of columns, different from one another; those without one are ``column1`` and so on.

    Args:
        declared: Names that are taken verbatim; blanks around others are stripped.
    Raises:
        ValueError: two are the same, whatever their case; the message says which, and goes on from the file's name.
    """
    wanted = {name.casefold() for name in declared}
    names = [name if name.casefold() in wanted else name.strip() for name in found]
    names = [name or f"column{i}" for i, name in enumerate(names, 1)]
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if places.setdefault(name.casefold(), place) != place:
            raise ValueError(f"gives its columns {places[name.casefold()]} and {place} the same name")
    return names


def find_columns(names: Sequence[str], columns: Iterable[str], table: str, where: str) -> list[str]:
    """Return the names of ``columns`` in a file, all of which must be there; the owner's log gets the actual ones.

    Args:
        where: Where the names stand, such as ``line of the CSV file``.
    Raises:
        SchemaError: one is missing.
    """
    by_name = {name.casefold(): name for name in names}
    wanted = {column: by_name.get(column.casefold()) for column in columns}
    missing = [column for column, name in wanted.items() if name is None]
    if not missing:
        return [name for name in wanted.values() if name is not None]
    OWNER_LOG.error("the first %s of %s names these columns: %s", where, table, names)
    first, more = ", ".join(map(repr, missing[:5])), f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    part = where.partition(" ")[0]
    raise SchemaError(
        f"The first {where} of {table!r} does not name {first}{more}. The names found are only in the owner's log, "
        f"since the {part} could be a row of data.",
        fix=f"write a header {part} with the attributes' names, or the columns' names into the table file; under "
        "[reading], skip = 1 leaves out a title, and names = [...] names the columns of a file without a header "
        f"{part}",
    )
