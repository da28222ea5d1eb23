"""The eight tables of TPC-H, made by tpchgen-cli (Apache-2.0), as a workspace and as plain DuckDB tables.

Customers, orders and lines are private and linked; parts, suppliers and nations are public. Columns whose texts no
finite domain holds are made into what the questions ask of them, as in a view of the warehouse: the code of a phone
number, and whether a comment or the name of a part has a word. Numbers and keys are as they were made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import siloquent as sq

HERE = Path(__file__).parent
TABLES = ("customer", "orders", "lineitem", "part", "supplier", "nation", "region", "partsupp")
PRIVATE = ("customer", "orders", "lineitem")
_COLUMNS = {
    "customer": "* EXCLUDE (c_name, c_address, c_comment, c_phone), CAST(c_phone[1:2] AS INTEGER) AS c_code",
    "orders": "* EXCLUDE (o_clerk, o_comment), o_comment LIKE '%special%requests%' AS o_special",
    "lineitem": "* EXCLUDE (l_comment)",
    "part": "* EXCLUDE (p_name, p_comment), p_name LIKE '%green%' AS p_green, p_name LIKE 'forest%' AS p_forest",
    "supplier": "* EXCLUDE (s_name, s_address, s_phone, s_comment)",
    "nation": "* EXCLUDE (n_comment)",
    "region": "* EXCLUDE (r_comment)",
    "partsupp": "* EXCLUDE (ps_comment)",
}
NATIONS = (
    *("ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA"),
    *("INDONESIA", "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA"),
    *("ROMANIA", "SAUDI ARABIA", "VIETNAM", "RUSSIA", "UNITED KINGDOM", "UNITED STATES"),
)
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_SIZES, _COATS, _METALS = (
    ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"),
    ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"),
    ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN"),
)
_WRAPS = (("JUMBO", "LG", "MED", "SM", "WRAP"), ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"))


@contextmanager
def open_data(scale: float) -> Iterator[Path]:
    """The folder of the prepared tables; ``TPCH_FOLDER`` names one that keeps them for the next time."""
    with TemporaryDirectory() as made:
        folder = Path(os.environ.get("TPCH_FOLDER") or made) / f"scale-{scale:g}"
        if not (folder / "ready").exists():
            _make(folder, scale)
        yield folder


def _make(folder: Path, scale: float) -> None:
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    program = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise FileNotFoundError("tpchgen-cli is missing: pip install -e .[benchmarks]")
    made = [program, "parquet", "-q", "-s", f"{scale:g}", "-o", str(raw), "--overwrite"]
    subprocess.run(made, check=True, capture_output=True)
    with duckdb.connect() as engine:
        for name in TABLES:
            read, written = raw / f"{name}.parquet", folder / f"{name}.parquet"
            engine.execute(f"COPY (SELECT {_COLUMNS[name]} FROM '{read}') TO '{written}' (FORMAT parquet)")
    shutil.rmtree(raw)
    (folder / "ready").touch()


def build_workspace(folder: Path, data: Path, scale: float, *, epsilon: str = "1000000") -> None:
    """Create the workspace of the tables in ``data``; ``epsilon`` is the budget of the customers, with delta 1e-6."""
    sq.create_workspace(folder)
    for place in ("schemas", "units"):
        shutil.copytree(HERE / place, folder / place, dirs_exist_ok=True)
    sizes = {"200000": round(200_000 * scale), "10000": round(10_000 * scale)}
    for name in PRIVATE:
        path = folder / "schemas" / f"{name}.toml"
        text = path.read_text()
        for full, size in {**sizes, "150000": round(150_000 * scale), "6000000": round(6_000_000 * scale)}.items():
            text = text.replace(f"= {full}", f"= {size}")
        path.write_text(text.replace("parquet:data/", f"parquet:{data}/"))
    unit = folder / "units" / "customer.toml"
    unit.write_text(unit.read_text().replace('"1000000"', f'"{epsilon}"'))
    (folder / "public").mkdir()
    for name, text in _declare_public(data).items():
        (folder / "public" / f"{name}.toml").write_text(text)


def connect(data: Path, *, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """The same tables in the memory of a plain DuckDB."""
    engine = duckdb.connect(config={"threads": threads})
    for name in TABLES:
        engine.execute(f"CREATE TABLE {name} AS SELECT * FROM '{data / name}.parquet'")
    return engine


def list_part_values() -> dict[str, list[str]]:
    """List the values of each category of the parts."""
    return {
        "p_mfgr": [f"Manufacturer#{number}" for number in range(1, 6)],
        "p_brand": [f"Brand#{first}{second}" for first in range(1, 6) for second in range(1, 6)],
        "p_type": [" ".join(words) for words in product(_SIZES, _COATS, _METALS)],
        "p_container": [" ".join(words) for words in product(*_WRAPS)],
    }


def _declare_public(data: Path) -> dict[str, str]:
    part = [
        *(_list_values(name, values) for name, values in list_part_values().items()),
        '{ name = "p_size", type = "integer", lo = 1, hi = 50, outside = "drop", null = "drop" }',
        *(f'{{ name = "{name}", type = "boolean", null = "drop" }}' for name in ("p_green", "p_forest")),
    ]
    key = 'type = "integer", lo = 0, hi = 24, outside = "drop", null = "drop"'
    nation = [
        _list_values("n_name", list(NATIONS)),
        '{ name = "n_regionkey", type = "integer", lo = 0, hi = 4, outside = "drop", null = "drop" }',
    ]
    return {
        "part": _declare(data / "part.parquet", "p_partkey", part),
        "supplier": _declare(data / "supplier.parquet", "s_suppkey", [f'{{ name = "s_nationkey", {key} }}'])
        + _refer("s_nationkey", "nation(n_nationkey)"),
        "nation": _declare(data / "nation.parquet", "n_nationkey", nation)
        + _refer("n_regionkey", "region(r_regionkey)"),
        "region": _declare(data / "region.parquet", "r_regionkey", [_list_values("r_name", list(REGIONS))]),
    }


def _refer(column: str, key: str) -> str:
    return f'constraint = [{{ kind = "foreign_key", columns = ["{column}"], references = "{key}" }}]\n'


def _list_values(name: str, values: list[str]) -> str:
    return f'{{ name = "{name}", type = "category", values = {values!r}, null = "drop" }}'.replace("'", '"')


def _declare(source: Path, key: str, attributes: list[str]) -> str:
    head = f'format = 1\nname = "{source.stem}"\nkey = "{key}"\nsource = "parquet:{source}"\n'
    return f"{head}attribute = [\n{''.join(f'  {one},{chr(10)}' for one in attributes)}]\n"
