"""A small shop of linked tables with broken keys: customers ``cu``, their orders ``o``, and lines ``l`` of these."""

from __future__ import annotations

from pathlib import Path

import siloquent as sq

UNIT = """format = 1

[unit]
name = "customer"
adjacency = "add-remove"

[budget]
accountant = "pure"
epsilon = "100000"
"""
CU = """format = 1

[table]
name = "cu"
source = "csv:cu.csv"
unit = { of = "customer", column = "c", max_rows = 1 }

[[attribute]]
name = "c"
type = "id"

[[attribute]]
name = "seg"
type = "category"
values = ["A", "B"]
null = "drop"
"""
ORDERS = """format = 1

[table]
name = "o"
source = "csv:o.csv"
unit = { of = "customer", column = "c", max_rows = 9 }

[[attribute]]
name = "o"
type = "id"

[[attribute]]
name = "c"
type = "id"
"""
LINES = """format = 1

[table]
name = "l"
source = "csv:l.csv"
unit = { of = "customer", via = "o", on = { o = "o" }, max_rows = 9 }

[[attribute]]
name = "o"
type = "id"

[[attribute]]
name = "q"
type = "integer"
lo = 0
hi = 10
outside = "clamp"
null = "drop"

[[attribute]]
name = "d"
type = "integer"
lo = 0
hi = 100
outside = "clamp"
null = "drop"
"""
ROWS = {
    "cu": "c,seg\n1,A\n2,A\n3,B\n4,B\n",
    "o": "o,c\n10,1\n11,1\n12,2\n13,3\n14,\n15,9\n",
    "l": "o,q,d\n10,2,10\n10,3,0\n11,1,5\n11,4,5\n12,6,10\n13,1,0\n13,1,0\n13,1,0\n14,8,0\n99,5,0\n",
}
EXACT = " BUDGET 5000 EPSILON"
"""So much that the noise is below one half, except once in e^100 or so."""


def write_shop(folder: Path, **tables: str) -> Path:
    """Write the workspace; ``tables``: other declarations, by name."""
    sq.create_workspace(folder)
    (folder / "units").mkdir()
    (folder / "units" / "customer.toml").write_text(UNIT)
    for name, text in ({"cu": CU, "o": ORDERS, "l": LINES} | tables).items():
        (folder / "schemas" / f"{name}.toml").write_text(text)
    for name, rows in ROWS.items():
        (folder / f"{name}.csv").write_text(rows)
    return folder


def ask_exactly(session: sq.Session, question: str) -> list[tuple[object, ...]]:
    """The rows of an answer with hardly any noise: keys and values, without the ends of intervals."""
    found = session.ask(question + EXACT)
    shown = [place for place, name in enumerate(found.columns) if not name.endswith(("low", "high"))]
    return [tuple(row[place] for place in shown) for row in found.rows]
