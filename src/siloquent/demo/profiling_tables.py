"""Price lists of three clinics: some rules hold for all, some only within each clinic, by construction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SILOS = ("north", "river", "hill")
ROWS = 150
ITEMS, GROUPS, VATS, SUPPLIERS, CITIES, WARDS, REBATES = 160, 16, 3, 14, 9, 7, 5
COLUMNS = ("item", "item_group", "vat", "supplier", "city", "ward", "specialty", "rebate")
EVERYWHERE = (("item", "item_group"), ("item", "vat"), ("item_group", "vat"), ("supplier", "city"))
AT_HOME = (("ward", "specialty"), ("specialty", "ward"), ("supplier", "rebate"))
"""Rules that hold in every silo but not over all rows: each clinic has its own letters and its own rebates."""
OWN_WARDS, OWN_REBATES, COMMON = 5, 6, 45
"""The numbers of wards and suppliers with a different specialty or rebate per clinic, and of common purchases."""
TRIES = 50

SPEC = """\
table = "prices"
columns = ["item", "item_group", "vat", "supplier", "city", "ward", "specialty", "rebate"]
max_lhs = 3
"""


def make_prices(rng: np.random.Generator, *, silos: int = len(SILOS), rows: int = ROWS) -> list[pa.Table]:
    """Return one table a silo; redrawn until no other dependency of at most three columns holds in all of them."""
    for _ in range(TRIES):
        common = _picks(rng, COMMON)
        tables = [_table(rng, rows, shift, common) for shift in range(silos)]
        if _has_no_accident(tables):
            return tables
    raise AssertionError("no table without accidental rules was drawn")


def _table(rng: np.random.Generator, rows: int, shift: int, common: np.ndarray) -> pa.Table:
    import pyarrow as pa

    # Half of the rows are others with one thing changed, so that similar rows differ somewhere.
    own = rows - len(common)
    picks = _picks(rng, own)
    half = own // 2
    picks[half:] = picks[rng.integers(0, half, own - half)]
    changed = rng.integers(0, 3, own - half)
    fresh = _picks(rng, own - half)
    fresh[:, 0] = _near_item(rng, picks[half:, 0])
    picks[half:][np.arange(own - half), changed] = fresh[np.arange(own - half), changed]
    item, supplier, ward = np.concatenate([common, picks]).T
    group = item % GROUPS
    values = {
        "item": item,
        "item_group": group,
        "vat": group % VATS,
        "supplier": supplier,
        "city": supplier % CITIES,
        "ward": ward,
        "specialty": np.where(ward < OWN_WARDS, (ward + shift) % OWN_WARDS, ward),
        "rebate": _rebate(supplier, shift),
    }
    return pa.table({name: [f"{name} {value}" for value in values[name].tolist()] for name in COLUMNS})


def _picks(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw items, suppliers and wards of ``count`` purchases."""
    return np.stack([rng.integers(0, size, count) for size in (ITEMS, SUPPLIERS, WARDS)], axis=1)


def _rebate(supplier: np.ndarray, shift: int) -> np.ndarray:
    """Return a supplier's rebate for a clinic; two suppliers of one city give the same, so it is not unique."""
    alike = np.where(supplier == CITIES, 0, supplier)
    return np.asarray((alike + np.where(alike < OWN_REBATES, shift, 0)) % REBATES)


def _near_item(rng: np.random.Generator, items: np.ndarray) -> np.ndarray:
    """Return another item: of the same group, or of the same rate, or any."""
    step = np.array([GROUPS, VATS, 1])[rng.integers(0, 3, len(items))]
    return np.asarray((items + step * rng.integers(1, 10, len(items))) % ITEMS)


def _has_no_accident(tables: list[pa.Table]) -> bool:
    """Return whether exactly the intended dependencies hold in every silo, up to three columns on the left."""
    import pyarrow as pa

    from siloquent.maths.dependencies import compute_closures, discover

    meant = {(1 << COLUMNS.index(a), COLUMNS.index(b)) for a, b in (*EVERYWHERE, *AT_HOME)}
    closed = compute_closures(meant, len(COLUMNS))
    inside = [compute_closures(discover(_codes(table), max_lhs=3), len(COLUMNS)) for table in tables]
    small = [mask for mask in range(1, 2 ** len(COLUMNS)) if mask.bit_count() <= 3]
    if any(np.bitwise_and.reduce([known[mask] for known in inside]) != closed[mask] for mask in small):
        return False
    whole = discover(_codes(pa.concat_tables(tables)), max_lhs=3)
    return set(whole) == {(1 << COLUMNS.index(a), COLUMNS.index(b)) for a, b in EVERYWHERE}


def _codes(table: pa.Table) -> np.ndarray:
    return np.stack([np.unique(column.to_pylist(), return_inverse=True)[1] for column in table.columns], axis=1)


def prices_toml(rows: int = ROWS) -> str:
    """Return the declaration of a silo's ``prices``."""
    sizes = dict(zip(COLUMNS, (ITEMS, GROUPS, VATS, SUPPLIERS, CITIES, WARDS, WARDS, REBATES), strict=True))
    attributes = "\n".join(
        f'  {{ name = "{name}", type = "category", null = "drop", values = [{_values(name, size)}] }},'
        for name, size in sizes.items()
    )
    return _PRICES.format(attributes=attributes, rows=rows)


def _values(name: str, size: int) -> str:
    return ", ".join(f'"{name} {value}"' for value in range(size))


def add_prices(workspace: Path, *, seed: int) -> None:
    """Create one workspace a silo below ``workspace``'s folder ``silos``, and the profile's description beside it."""
    import pyarrow.parquet

    from siloquent.session import create_workspace

    tables = make_prices(np.random.default_rng(seed))
    for name, table in zip(SILOS, tables, strict=True):
        folder = workspace / "silos" / name
        (folder / "data").mkdir(parents=True)
        pyarrow.parquet.write_table(table, folder / "data" / "prices.parquet")
        made = create_workspace(folder)
        (made.schemas / "prices.toml").write_text(prices_toml(), encoding="utf-8")
    (workspace / "data" / "prices.parquet").write_bytes((workspace / "silos/north/data/prices.parquet").read_bytes())
    (workspace / "schemas" / "prices.toml").write_text(prices_toml(), encoding="utf-8")
    (workspace / "prices.toml").write_text(SPEC, encoding="utf-8")


_PRICES = """\
# What a clinic pays for, from whom, for which ward. Rows stay at home; rules may be looked for with others.
format = 1

attribute = [
{attributes}
]

[table]
name = "prices"
source = "parquet:data/prices.parquet"
adjacency = "add-remove"
size_hint = {rows}
unit = {{ kind = "row" }}

[budget]
accountant = "zcdp"
epsilon = "2"
delta = "1e-6"
disclosures = true                                               # profiles over several silos, each on record
"""
