"""The rows of the suites' tables, drawn from a seed: tables of buyers, patients and drivers, and public ones.

Every row has an owner, since rows without one count nowhere here and count in SQL; some buyers bought nothing. Every
declared group occurs, and every value lies in its declared domain.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import siloquent as sq

SEED = 20261130
HERE = Path(__file__).parent
PUBLIC = {
    "nations": """nation,region,title
AR,america,Argentina
BR,america,Brazil
CA,america,Canada
DE,europe,Germany
EG,africa,Egypt
FR,europe,France
IN,asia,India
JP,asia,Japan
""",
    "wards": "ward,building,beds\ncardiology,north,40\nsurgery,north,60\nicu,south,12\nmaternity,south,30\n",
    "drugs": """drug,class,generic
alpine,opioid,true
borate,statin,true
cetol,statin,false
dorazin,opioid,false
elvane,other,true
fomil,other,false
""",
}
"""Rows of public tables; no ward ``er`` on purpose: an inner join leaves its visits out."""

_Columns = dict[str, list[Any]]


def build_workspace(folder: Path) -> None:
    """Create a workspace with all tables in ``folder``."""
    sq.create_workspace(folder)
    (folder / "data").mkdir(exist_ok=True)
    for place in ("schemas", "public", "units"):
        shutil.copytree(HERE / place, folder / place, dirs_exist_ok=True)
    for name, rows in draw_private_rows().items():
        pq.write_table(rows, folder / "data" / f"{name}.parquet")
    for name, text in list_public_rows().items():
        (folder / "data" / f"{name}.csv").write_text(text, encoding="utf-8")


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """Open the same tables in DuckDB; public ones by their names too."""
    engine = duckdb.connect()
    for path in sorted((folder / "data").iterdir()):
        read = "read_parquet" if path.suffix == ".parquet" else "read_csv"
        engine.execute(f"CREATE TABLE {path.stem} AS SELECT * FROM {read}('{path}')")
    return engine


def list_public_rows() -> dict[str, str]:
    """Return the public tables as CSV."""
    brands, materials = ("B11", "B12", "B21", "B22", "B31"), ("brass", "copper", "steel", "tin")
    finishes = ("promo polished", "promo plated", "plain polished", "plain plated")
    containers, codes = ("small box", "medium bag", "large drum"), ("AR", "BR", "CA", "DE", "EG", "FR", "IN", "JP")
    articles = [
        (k, brands[k % 5], materials[k % 4], finishes[(k // 4) % 4], k % 50 + 1, containers[k % 3])
        for k in range(1, 61)
    ]
    sellers = [(k, codes[k % 8], k % 5 + 1) for k in range(1, 13)]
    zones = [
        (k, ("centre", "harbour", "hills")[k % 3], str(k in (7, 21)).lower()) for k in range(1, 29)
    ]  # 29, 30: not listed
    return {
        **PUBLIC,
        "articles": _to_csv(("article", "brand", "material", "finish", "size", "container"), articles),
        "sellers": _to_csv(("seller", "home", "rating"), sellers),
        "zones": _to_csv(("zone", "borough", "airport"), zones),
    }


def draw_private_rows(seed: int = SEED) -> dict[str, pa.Table]:
    """Draw the rows of all private tables."""
    draw = np.random.default_rng(seed)
    buyers, patients = [f"b{k:04d}" for k in range(600)], [f"p{k:04d}" for k in range(800)]
    purchases = _draw_purchases(draw, buyers)
    visits = _draw_visits(draw, patients)
    drawn = {
        "buyers": _draw_buyers(draw, buyers),
        "purchases": purchases,
        "parcels": _draw_parcels(draw, purchases),
        "patients": _draw_patients(draw, patients),
        "visits": visits,
        "prescriptions": _draw_prescriptions(draw, visits),
        "residents": _draw_residents(draw),
        "trips": _draw_trips(draw),
    }
    return {name: pa.table(columns) for name, columns in drawn.items()}


def _draw_buyers(draw: np.random.Generator, buyers: list[str]) -> _Columns:
    size = len(buyers)
    return {
        "buyer": [*buyers],
        "nation": _choose(draw, ["AR", "BR", "CA", "DE", "EG", "FR", "IN", "JP"], size),
        "segment": _choose(draw, ["retail", "wholesale", "public", "online"], size, missing=0.05),
        "phone": _choose(draw, ["11", "13", "17", "19", "23", "29"], size),
        "balance": _draw_numbers(draw, -100_000, 999_900, 0.01, size, missing=0.1),
        "joined": _draw_days(draw, date(2015, 1, 1), 3_287, size),
        "newsletter": _draw_flags(draw, 0.4, size),
    }


def _draw_purchases(draw: np.random.Generator, buyers: list[str]) -> _Columns:
    size = 3_000
    owners: list[Any] = [buyers[int(k)] for k in draw.integers(0, 500, size)]  # the last hundred bought nothing
    return {
        "purchase": [f"o{k:05d}" for k in range(size)],
        "buyer": owners,
        "status": _choose(draw, ["open", "packed", "sent", "returned"], size),
        "priority": _choose(draw, ["1-urgent", "2-high", "3-medium", "4-low"], size),
        "placed": _draw_days(draw, date(2020, 1, 1), 1_827, size),
        "total": _draw_numbers(draw, 0, 5_000_000, 0.01, size),
        "clerk": [None if draw.random() < 0.05 else int(draw.integers(1, 21)) for _ in range(size)],
    }


def _draw_parcels(draw: np.random.Generator, purchases: _Columns) -> _Columns:
    size = 9_000
    keys = [purchases["purchase"][int(k)] for k in draw.integers(0, 2_800, size)]
    shipped = _draw_days(draw, date(2020, 1, 1), 1_950, size)
    return {
        "purchase": keys,
        "article": draw.integers(1, 61, size).tolist(),
        "seller": draw.integers(1, 13, size).tolist(),
        "quantity": draw.integers(1, 51, size).tolist(),
        "price": _draw_numbers(draw, 100, 110_000, 0.01, size),
        "discount": _draw_numbers(draw, 0, 11, 0.01, size),
        "tax": _draw_numbers(draw, 0, 9, 0.01, size),
        "flag": _choose(draw, ["A", "N", "R"], size),
        "line_status": _choose(draw, ["F", "O"], size),
        "shipped": shipped,
        "promised": [day + timedelta(int(draw.integers(-20, 21))) if day.year > 2020 else day for day in shipped],
        "received": [None if draw.random() < 0.1 else day + timedelta(int(draw.integers(1, 30))) for day in shipped],
        "mode": _choose(draw, ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"], size),
        "instruction": _choose(draw, ["leave at door", "in person", "none"], size, missing=0.1),
    }


def _draw_patients(draw: np.random.Generator, patients: list[str]) -> _Columns:
    size = len(patients)
    return {
        "patient": [*patients],
        "sex": _choose(draw, ["female", "male"], size, missing=0.05),
        "age": draw.integers(0, 101, size).tolist(),
        "town": _choose(draw, ["Adelby", "Brunn", "Corvo", "Dinas"], size),
        "insurer": _choose(draw, ["state", "mutual", "private"], size, missing=0.1),
        "smoker": [None if draw.random() < 0.1 else bool(draw.random() < 0.3) for _ in range(size)],
        "weight": _draw_numbers(draw, 30, 1_600, 0.1, size, missing=0.1),
    }


def _draw_visits(draw: np.random.Generator, patients: list[str]) -> _Columns:
    size = 4_000
    arrived = _draw_days(draw, date(2022, 1, 1), 1_096, size)
    stays = np.minimum(draw.geometric(0.2, size) - 1, 60).tolist()
    return {
        "visit": [f"v{k:05d}" for k in range(size)],
        "patient": [patients[int(k)] for k in draw.integers(0, 700, size)],
        "ward": _choose(draw, ["cardiology", "surgery", "icu", "maternity", "er"], size),
        "arrived": arrived,
        "discharged": [
            None if draw.random() < 0.05 else day + timedelta(stay) for day, stay in zip(arrived, stays, strict=True)
        ],
        "days": stays,
        "cost": _draw_numbers(draw, 0, 10_000, 0.5, size, missing=0.05),
        "emergency": _draw_flags(draw, 0.35, size),
        "outcome": _choose(draw, ["home", "home", "transfer", "died"], size, missing=0.05),
    }


def _draw_prescriptions(draw: np.random.Generator, visits: _Columns) -> _Columns:
    size = 6_000
    places = draw.integers(0, 3_500, size).tolist()
    return {
        "visit": [visits["visit"][place] for place in places],
        "drug": _choose(draw, ["alpine", "borate", "cetol", "dorazin", "elvane", "fomil"], size),
        "doses": draw.integers(1, 31, size).tolist(),
        "price": _draw_numbers(draw, 10, 10_000, 0.05, size),
        "started": [visits["arrived"][place] + timedelta(int(draw.integers(0, 5))) for place in places],
        "reviewed": [None if draw.random() < 0.2 else bool(draw.random() < 0.5) for _ in range(size)],
    }


def _draw_residents(draw: np.random.Generator) -> _Columns:
    size = 5_000
    return {
        "pid": [f"r{k:05d}" for k in range(size)],
        "state": draw.integers(1, 9, size).tolist(),
        "age": draw.integers(0, 96, size).tolist(),
        "sex": _choose(draw, ["F", "M"], size),
        "educ": [None if draw.random() < 0.05 else int(draw.integers(1, 17)) for _ in range(size)],
        "income": [None if draw.random() < 0.1 else int(draw.integers(0, 150_000)) for _ in range(size)],
        "hours": draw.integers(0, 80, size).tolist(),
        "married": _draw_flags(draw, 0.5, size),
        "race": _choose(draw, ["a", "b", "c", "d"], size),
        "Marital Status": _choose(draw, ["single", "married", "widowed"], size),
        "height": _draw_numbers(draw, 50, 210, 0.01, size, missing=0.1),
    }


def _draw_trips(draw: np.random.Generator) -> _Columns:
    size = 5_000
    started = [datetime(2024, 1, 1) + timedelta(minutes=int(k)) for k in draw.integers(0, 500_000, size)]
    return {
        "driver": [f"d{int(k):03d}" for k in draw.integers(0, 150, size)],
        "city": _choose(draw, ["Lima", "Oslo", "Pune", "Rome"], size),
        "zone": draw.integers(1, 31, size).tolist(),
        "started": [*started],
        "ended": [at + timedelta(minutes=int(draw.integers(2, 90))) for at in started],
        "distance": _draw_numbers(draw, 3, 500, 0.1, size),
        "fare": _draw_numbers(draw, 300, 18_000, 0.01, size),
        "tip": _draw_numbers(draw, 0, 4_000, 0.01, size, missing=0.2),
        "riders": draw.integers(1, 7, size).tolist(),
        "payment": _choose(draw, ["cash", "card", "app"], size),
        "cancelled": _draw_flags(draw, 0.1, size),
    }


def _choose(draw: np.random.Generator, values: list[str], size: int, *, missing: float = 0) -> list[Any]:
    return [None if draw.random() < missing else values[int(draw.integers(len(values)))] for _ in range(size)]


def _draw_numbers(
    draw: np.random.Generator, lo: int, hi: int, grid: float, size: int, *, missing: float = 0
) -> list[Any]:
    """Draw multiples of ``grid`` from ``lo`` to below ``hi``, both counted in steps."""
    steps = round(1 / grid)
    return [None if draw.random() < missing else int(draw.integers(lo, hi)) / steps for _ in range(size)]


def _draw_days(draw: np.random.Generator, first: date, days: int, size: int) -> list[Any]:
    return [first + timedelta(int(k)) for k in draw.integers(0, days, size)]


def _draw_flags(draw: np.random.Generator, share: float, size: int) -> list[Any]:
    return [bool(one < share) for one in draw.random(size)]


def _to_csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()
