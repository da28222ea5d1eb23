"""Random declarations and random columns, nasty on purpose: for benchmarks and tests of what is true of every table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.random import Generator

from siloquent.schema import Attribute

WORDS = (
    *("", " ", "A", "a", "A\n", "B", "b ", "\u00e9", "e\u0301", "\u00df", "\U0001f92f"),
    *("it's", '"', "\\", "NULL", "true", "0", "1", "-"),
)
NUMBER_TEXTS = (
    *(
        "1",
        " 2",
        "3 ",
        "+4",
        "-5",
        "1.5",
        ".5",
        "5.",
        "0.1",
        "0.05",
        "1e2",
        "1E-2",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999",
    ),
    *("inf", "-Infinity", "nan", "NaN", "1_000", "0x10", "1,5", "1.5d", "1f", "--1", "1e", ".", "", " "),
    *("1e99999", "12\n", "12\u2028", "\u0661"),
)
MOMENT_TEXTS = (
    *("2024-01-31", " 2024-02-29 ", "2023-02-29", "2024-13-01", "20240131", "2024-1-31", "2024-01-31\n", ""),
    *("0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "infinity", "today"),
    *("2024-01-31T10:11:12", "2024-01-31 23:59:59.999999", "2024-01-31 24:00", "1970-01-01 00:00:00.5"),
    *("2024-01-31T10:11:12Z", "2024-01-31 10:11+00", "2024-01-31T10:11:12+02:00"),
)
TRUTH_TEXTS = ("true", "TRUE", " t", "f ", "False", "yes", "No", "y", "n", "1", "0", "2", "", "on", "tr\u00fce", "1.0")


def random_attribute(rng: Generator, name: str) -> Attribute:
    """A consistent declaration of any countable kind."""
    kind = str(rng.choice(["integer", "real", "category", "boolean", "date", "datetime"]))
    fields = _BUILD[kind](rng) if kind in _BUILD else {}
    if kind in ("integer", "real", "date", "datetime"):
        fields["outside"] = str(rng.choice(["clamp", "drop"]))
    fields["null"] = str(rng.choice(["drop", "cell", "value"]))
    if fields["null"] == "value":
        fields["null_value"] = fields["lo"] if "lo" in fields else fields.get("values", [False])[0]
    return Attribute(name, kind, **fields)  # type: ignore[arg-type]


def random_column(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    """``rows`` values of a type from which ``attribute`` can be read: at its edges, beyond them, unreadable, NULL."""
    makers: Sequence[Callable[..., pa.Array]]
    if attribute.is_numeric:
        makers = (_doubles, _doubles, _singles, _whole, _whole, _unsigned, _decimals, _truths, _texts(NUMBER_TEXTS))
    elif attribute.is_temporal:
        makers = (_days, _moments("us"), _moments("ns"), _moments("ms"), _zoned, _texts(MOMENT_TEXTS))
    elif attribute.kind == "boolean":
        makers = (_truths, _small, _doubles, _texts(TRUTH_TEXTS))
    else:
        makers = (_texts(WORDS), _texts((*WORDS, *attribute.values)), _small, _truths)
    column = makers[int(rng.integers(len(makers)))](rng, attribute, rows)
    gone = rng.random(rows) < 0.1
    return pa.compute.if_else(pa.array(gone), pa.scalar(None, column.type), column)


def _integer(rng: Generator) -> dict[str, Any]:
    grid = Decimal(int(rng.choice([1, 1, 1, 5, 7, 10**6])))
    lo = int(rng.choice([0, 0, 1, -3, -(10**6), 2**40]))
    return {"lo": lo * grid, "hi": (lo + int(rng.integers(0, 200))) * grid, "grid": grid}


def _real(rng: Generator) -> dict[str, Any]:
    grid = Decimal(str(rng.choice(["0.1", "0.01", "0.5", "1", "3", "0.003", "1e-9", "1e6"])))
    lo = int(rng.choice([0, 0, 1, -7, -(10**6), 2**40]))
    return {"lo": lo * grid, "hi": (lo + int(rng.integers(0, 1_000))) * grid, "grid": grid}


def _category(rng: Generator) -> dict[str, Any]:
    values = tuple(rng.permutation(WORDS)[: int(rng.integers(1, len(WORDS)))].tolist())
    if rng.random() < 0.2:
        values += tuple(f"v{i}" for i in range(150))
    return {"values": values, "other": str(rng.choice(["drop", "cell"]))}


def _date(rng: Generator) -> dict[str, Any]:
    lo = datetime(int(rng.choice([1, 1900, 1969, 2024])), 1, 1)
    return {"lo": lo, "hi": lo + timedelta(days=int(rng.integers(0, 400))), "grid": Decimal(86_400)}


def _datetime(rng: Generator) -> dict[str, Any]:
    grid = int(rng.choice([1, 60, 3_600, 86_400]))
    lo = datetime(int(rng.choice([1, 1969, 2024])), 1, 1, int(rng.integers(24)))
    return {"lo": lo, "hi": lo + timedelta(seconds=grid * int(rng.integers(0, 500))), "grid": Decimal(grid)}


_BUILD: dict[str, Callable[[Generator], dict[str, Any]]] = {
    "integer": _integer,
    "real": _real,
    "category": _category,
    "date": _date,
    "datetime": _datetime,
}


def _edges(rng: Generator, attribute: Attribute, rows: int) -> list[float]:
    """Numbers on the grid, between its points, exactly half way, just beside, and far away."""
    if not attribute.is_numeric:
        return [float(x) for x in rng.choice([0.0, 1.0, -0.0, 0.5, 2.0, np.nan, np.inf], rows)]
    grid, lo = float(attribute.grid or 1), float(attribute.lo)  # type: ignore[arg-type]
    found = lo + (rng.integers(-3, attribute.steps + 3, rows) + rng.choice([0, 0.5, 0.25, 0.999], rows)) * grid
    beside = np.where(rng.random(rows) < 0.3, np.nextafter(found, rng.choice([-np.inf, np.inf], rows)), found)
    far = rng.choice([np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, -0.0, 2.0**63, 2.0**53 + 2], rows)
    return [float(x) for x in np.where(rng.random(rows) < 0.1, far, beside)]


def _doubles(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    return pa.array(_edges(rng, attribute, rows), pa.float64(), from_pandas=False)


def _singles(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    with np.errstate(over="ignore"):
        return pa.array(np.array(_edges(rng, attribute, rows)).astype(np.float32), from_pandas=False)


def _whole(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    near = [int(x) if abs(x) < 2.0**62 else 2**63 - 1 for x in np.nan_to_num(_edges(rng, attribute, rows)).tolist()]
    return pa.array(near, pa.int64())


def _unsigned(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    choices = np.array([0, 1, 2, 2**53 + 1, 2**63, 2**64 - 1], dtype=np.uint64)
    return pa.array(rng.choice(choices, rows))


def _decimals(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    near = [
        Decimal(repr(x)) if abs(x) < 1e15 else Decimal(0) for x in np.nan_to_num(_edges(rng, attribute, rows)).tolist()
    ]
    near = [x.quantize(Decimal("1e-10")) + int(rng.integers(-1, 2)) * Decimal("1e-10") for x in near]
    return pa.array(near, pa.decimal128(38, 10))


def _truths(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    return pa.array(rng.random(rows) < 0.5)


def _small(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    return pa.array(rng.integers(-1, 3, rows), pa.int32())


def _texts(words: Sequence[str]) -> Callable[..., pa.Array]:
    def maker(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
        chosen = [words[int(i)] for i in rng.integers(len(words), size=rows)]
        if attribute.is_numeric:
            near = [repr(x) for x in _edges(rng, attribute, rows)]
            chosen = [a if rng.random() < 0.5 else b for a, b in zip(chosen, near, strict=True)]
        return pa.array(chosen, pa.string())

    return maker


def _around(rng: Generator, attribute: Attribute, rows: int) -> list[datetime]:
    """Moments on the grid, beside it, and at the ends of the calendar."""
    first, step, last = attribute.moments
    near = rng.choice([first, last, first + step * int(rng.integers(attribute.steps))], rows) + rng.integers(
        -2, 3, rows
    )
    epoch, most = datetime(1970, 1, 1), (datetime.max - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    least = (datetime.min - epoch) // timedelta(microseconds=1)
    chosen = np.where(rng.random(rows) < 0.1, rng.choice([least, most, 0, -1], rows), np.clip(near, least, most))
    return [epoch + timedelta(microseconds=int(x)) for x in chosen]


def _days(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    return pa.array([date(m.year, m.month, m.day) for m in _around(rng, attribute, rows)], pa.date32())


def _moments(unit: str) -> Callable[..., pa.Array]:
    def maker(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
        found = np.array(_around(rng, attribute, rows), dtype="datetime64[us]")
        if unit == "ns":  # from 1677 to 2262 only
            found = np.clip(found, np.datetime64("1700-01-01", "us"), np.datetime64("2200-01-01", "us"))
        return pa.array(found.astype(f"datetime64[{unit}]"), pa.timestamp(unit))

    return maker


def _zoned(rng: Generator, attribute: Attribute, rows: int) -> pa.Array:
    inside = [min(max(m, datetime(2, 1, 1)), datetime(9998, 1, 1)) for m in _around(rng, attribute, rows)]
    return pa.array(np.array(inside, dtype="datetime64[us]"), pa.timestamp("us", tz="Europe/Berlin"))
