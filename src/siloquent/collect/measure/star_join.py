"""Public tables joined to a user's rows on the device, before reporting. Plain Python, no packages: copy it.

    rows = join_dimensions(document, "orders", rows, {"products": {"p-1": {"country": "IT"}}})
    report = client.report("orders", rows, device)

The table is stored on the device: a remote look-up of a product would reveal what was bought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[Any, Any]
Table = Mapping[Any, Row]


def join_dimensions(
    document: Mapping[str, Any],
    service: str,
    rows: Sequence[Row] | Mapping[str, Sequence[Row]],
    tables: Mapping[str, Table],
) -> Sequence[Row] | Mapping[str, Sequence[Row]]:
    """Return the rows of ``service`` with the values of their public tables; a key missing from a table adds NULL.

    Args:
        rows: The user's rows, or rows by the services' names, as the client takes them.
        tables: By the dimensions' names: rows by their keys.
    Raises:
        ValueError: a table that the service needs is not among ``tables``.
    Privacy:
        None by itself: the values are the user's from here on, and the client reports them like all others.
    """
    if isinstance(rows, Mapping):
        # Also for services in which the user has no rows: a failure must not reveal that.
        names = dict.fromkeys([*_list_reported_with(document, service), *rows])
        return {name: _add_values(document, name, rows.get(name, ()), tables) for name in names}
    return _add_values(document, service, rows, tables)


def _list_reported_with(document: Mapping[str, Any], service: str) -> Sequence[str]:
    """Return the services whose rows are in one report with those of ``service``."""
    return next((one["services"] for one in document["channels"] if service in one["services"]), ())


def _add_values(
    document: Mapping[str, Any], service: str, rows: Sequence[Row], tables: Mapping[str, Table]
) -> Sequence[Row]:
    keys = {one["name"]: one["key"] for one in document.get("dimensions", ())}
    own = next((one["attributes"] for one in document["services"] if one["name"] == service), ())
    added = [(one["name"], one["dimension"]) for one in own if "dimension" in one]
    for _, dimension in added:
        if dimension not in tables:
            raise ValueError(f"the device lacks the public table {dimension}")
    if not added:
        return rows
    return [
        {**row, **{name: _find_row(tables[dimension], row.get(keys[dimension])).get(name) for name, dimension in added}}
        for row in rows
    ]


def _find_row(table: Table, key: Any) -> Row:
    try:
        return table.get(key) or {}
    except TypeError:  # a list is not a valid key
        return {}
