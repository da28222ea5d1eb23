"""BR2000, Tax and TPC-H with their declarations and denial constraints (note, 12.2), as cells."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.api import read_schema
from siloquent.schema import TableSchema

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
B1 = "t1.a13 = t2.a13 and t1.a11 < t2.a11 and t1.a3 > t2.a3"
B2 = "t1.a12 != t2.a12 and t1.a13 <= t2.a13 and t1.a5 >= t2.a5"
B3 = "t1.a5 <= t2.a5 and t1.a3 < t2.a3 and t1.a12 != t2.a12 and t1.a11 < t2.a11"
RATES = {1: 0.7318, 2: 1.7642, 3: 1.1028}
ONE_WAY = {1: 0.3644, 2: 0.8986, 3: 0.5342}


@dataclass(frozen=True, slots=True, eq=False)
class Ruled:
    """A true table: its declaration, its Arrow table, and its cells, shape (rows, attributes)."""

    schema: TableSchema
    table: Any
    cells: NDArray[np.int64]


def br2000(data: Path) -> Ruled:
    """38,000 rows, three soft constraints without rates."""
    table = _read(data / "kamino-br2000" / "br2000.csv.gz")
    tops = {"a3": 21, "a5": 90, "a11": 125, "a13": 90}
    entries = []
    for name in table.column_names:
        if name in tops:
            entries.append(_number(name, "integer", 0, tops[name], 1))
        else:
            known = set(table[name].unique().to_pylist())
            entries.append(_category(name, [word for word in WORDS if word in known]))
    rules = [f'{{ kind = "denial", not = "{text}", hard = false }}' for text in (B1, B2, B3)]
    return _ruled("br2000", table, entries, rules, 38_000)


def tax(data: Path) -> Ruled:
    """The 29,970 rows without NULL; five FDs and an order."""
    import pyarrow.compute as pc

    table = _read(data / "kamino-tax" / "tax30k.csv.gz")
    table = table.filter(pc.is_valid(table["Rate"]))
    numbers = {
        "Salary": _number("Salary", "integer", 5_000, 100_000, 5_000),
        "Rate": _number("Rate", "real", 0, 9.5, 0.01),
    }
    rules = [
        _dependency(["Zip"], "City"),
        _dependency(["AreaCode"], "State"),
        _dependency(["Zip"], "State"),
        _dependency(["State", "HasChild"], "ChildExemp"),
        _dependency(["State", "MaritalStatus"], "SingleExemp"),
        '{ kind = "denial", not = "t1.State = t2.State and t1.Salary > t2.Salary and t1.Rate < t2.Rate" }',
    ]
    return _ruled("tax", *_levels(table, numbers), rules, 30_000)


def tpch(data: Path) -> Ruled:
    """19,951 orders; four FDs, three of one customer key."""
    table = _read(data / "kamino-tpch" / "tpch_order.csv.gz")
    numbers = {
        "c_acctbal": _number("c_acctbal", "real", -1_000, 10_000, 1, bins=220),
        "o_totalprice": _number("o_totalprice", "real", 0, 500_000, 100, bins=10_000),
    }
    rules = [_dependency(["c_custkey"], y) for y in ("c_nationkey", "c_mktsegment", "n_name")]
    rules.append(_dependency(["n_name"], "n_regionkey"))
    return _ruled("tpch", *_levels(table, numbers), rules, 20_000)


def pair_distance(true: Ruled, cells: NDArray[np.integer], names: Sequence[str], *, bins: int = 16) -> float:
    """Mean total variation of all pairs of these columns, numbers in equal bins over the true range."""
    coarse = []
    for name in names:
        place = true.schema.domain.names.index(name)
        ours, theirs = true.cells[:, place], cells[:, place].astype(np.int64)
        if true.schema.domain[name].is_numeric:
            low, high = int(ours.min()), int(ours.max())
            ours, theirs = (np.clip((part - low) * bins // (high - low + 1), 0, bins - 1) for part in (ours, theirs))
        coarse.append((ours, theirs))
    found = []
    for (a, x), (b, y) in combinations(coarse, 2):
        width = int(max(b.max(), y.max())) + 1
        size = int(max(a.max(), x.max()) + 1) * width
        shares = [np.bincount(code, minlength=size) / len(code) for code in (a * width + b, x * width + y)]
        found.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
    return float(np.mean(found))


def _levels(table: Any, numbers: dict[str, str]) -> tuple[Any, list[str]]:
    """The table with all but the numbers as texts, and its entries."""
    import pyarrow as pa

    entries = []
    for place, name in enumerate(table.column_names):
        if name in numbers:
            entries.append(numbers[name])
            continue
        texts = pa.array([str(value) for value in table[name].to_pylist()])
        table = table.set_column(place, name, texts)
        entries.append(_category(name, sorted(texts.unique().to_pylist())))
    return table, entries


def _ruled(name: str, table: Any, entries: list[str], rules: list[str], hint: int) -> Ruled:
    text = (
        f"format = 1\nattribute = [\n{_lines(entries)}]\nconstraint = [\n{_lines(rules)}]\n"
        f'[table]\nname = "{name}"\nadjacency = "add-remove"\nunit = {{ kind = "row" }}\nsize_hint = {hint}\n'
        '[budget]\naccountant = "zcdp"\nepsilon = "1"\ndelta = "1e-6"\n'
    )
    schema = read_schema(text)
    columns = [_cells_of(attribute, table[attribute.name].to_pylist()) for attribute in schema.domain]
    return Ruled(schema, table, np.stack(columns, axis=1))


def _cells_of(attribute: Any, values: list[Any]) -> NDArray[np.int64]:
    places = {value: attribute.index(value) for value in set(values)}
    return np.array([places[value] for value in values], dtype=np.int64)


def _read(file: Path) -> Any:
    import pyarrow.csv

    with gzip.open(file) as opened:
        return pyarrow.csv.read_csv(opened)


def _lines(entries: list[str]) -> str:
    return "".join(f"  {entry},\n" for entry in entries)


def _number(name: str, kind: str, lo: float, hi: float, grid: float, *, bins: float = 0) -> str:
    width = f", bins = {{ width = {bins} }}" if bins else ""
    bounds = f"lo = {lo}, hi = {hi}, grid = {grid}"
    return f'{{ name = "{name}", type = "{kind}", {bounds}, outside = "clamp", null = "drop"{width} }}'


def _category(name: str, values: Sequence[str]) -> str:
    return f'{{ name = "{name}", type = "category", values = {json.dumps(list(values))}, null = "drop" }}'


def _dependency(lhs: list[str], rhs: str) -> str:
    return f'{{ kind = "fd", lhs = {json.dumps(lhs)}, rhs = "{rhs}" }}'
