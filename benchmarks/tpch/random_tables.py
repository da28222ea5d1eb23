"""Small random tables with the columns of the warehouse, prepared as its own are: for tests, without tpchgen-cli."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpch.workspace import NATIONS, REGIONS, list_part_values

_START = np.datetime64("1992-01-01")
_MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
_WAYS = ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]
_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
_PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
SCALE = 0.001


def write_tables(folder: Path, *, seed: int, customers: int = 150) -> None:
    """Write the eight tables as Parquet: each customer has at most 8 orders of at most 7 lines, some have none."""
    draw = np.random.default_rng(seed)
    for name, columns in _draw_tables(draw, customers).items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def _draw_tables(draw: np.random.Generator, customers: int) -> dict[str, dict[str, Any]]:
    parts, suppliers = round(200_000 * SCALE), round(10_000 * SCALE)
    owners = draw.integers(1, customers + 1, size=2 * customers)
    owners = owners[[int((owners[:place] == one).sum()) < 8 for place, one in enumerate(owners)]]
    orders = np.arange(len(owners)) * 3 + 1
    line_orders = np.repeat(orders, draw.integers(1, 8, size=len(orders)))
    lines = len(line_orders)
    shipped = _START + draw.integers(0, 2_400, size=lines)

    def pick(values: list[str], size: int) -> list[str]:
        return [values[place] for place in draw.integers(0, len(values), size=size)]

    def cents(low: int, high: int, size: int) -> Any:
        return pa.array([f"{one / 100:.2f}" for one in draw.integers(low, high + 1, size=size)]).cast(
            pa.decimal128(15, 2)
        )

    values = list_part_values()
    return {
        "customer": {
            "c_custkey": np.arange(1, customers + 1),
            "c_nationkey": draw.integers(0, 25, size=customers),
            "c_code": draw.integers(10, 35, size=customers),
            "c_acctbal": cents(-99_999, 999_999, customers),
            "c_mktsegment": pick(_SEGMENTS, customers),
        },
        "orders": {
            "o_orderkey": orders,
            "o_custkey": owners,
            "o_orderstatus": pick(["F", "O", "P"], len(orders)),
            "o_totalprice": cents(0, 50_000_000, len(orders)),
            "o_orderdate": _START + draw.integers(0, 2_400, size=len(orders)),
            "o_orderpriority": pick(_PRIORITIES, len(orders)),
            "o_special": draw.integers(0, 5, size=len(orders)) == 0,
        },
        "lineitem": {
            "l_orderkey": line_orders,
            "l_partkey": draw.integers(1, parts + 1, size=lines),
            "l_suppkey": draw.integers(1, suppliers + 1, size=lines),
            "l_quantity": draw.integers(1, 51, size=lines),
            "l_extendedprice": cents(90_000, 10_000_000, lines),
            "l_discount": cents(0, 10, lines),
            "l_tax": cents(0, 8, lines),
            "l_returnflag": pick(["A", "N", "R"], lines),
            "l_linestatus": pick(["F", "O"], lines),
            "l_shipdate": shipped,
            "l_commitdate": shipped + draw.integers(-60, 60, size=lines).astype("timedelta64[D]") + 60,
            "l_receiptdate": shipped + draw.integers(1, 90, size=lines).astype("timedelta64[D]"),
            "l_shipinstruct": pick(_WAYS, lines),
            "l_shipmode": pick(_MODES, lines),
        },
        "part": {
            "p_partkey": np.arange(1, parts + 1),
            **{name: pick(of, parts) for name, of in values.items()},
            "p_size": draw.integers(1, 51, size=parts),
            "p_retailprice": cents(90_000, 200_000, parts),
            "p_green": draw.integers(0, 3, size=parts) == 0,
            "p_forest": draw.integers(0, 3, size=parts) == 0,
        },
        "supplier": {
            "s_suppkey": np.arange(1, suppliers + 1),
            "s_nationkey": np.array([2, 6, 7, 12, 18, 2, 6, 7, 8, 21])[:suppliers],
            "s_acctbal": cents(-99_999, 999_999, suppliers),
        },
        "nation": {
            "n_nationkey": np.arange(25),
            "n_name": list(NATIONS),
            "n_regionkey": draw.integers(0, 5, size=25),
        },
        "region": {"r_regionkey": np.arange(5), "r_name": list(REGIONS)},
        "partsupp": {
            "ps_partkey": np.repeat(np.arange(1, parts + 1), suppliers),
            "ps_suppkey": np.tile(np.arange(1, suppliers + 1), parts),
            "ps_availqty": draw.integers(1, 10_000, size=parts * suppliers),
            "ps_supplycost": cents(100, 100_000, parts * suppliers),
        },
    }
