"""Reading questions: how fast an honest one, how slow the worst one, and whether any text at all breaks the reader."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.row import Options, Row

GROUPS = "SELECT education, COUNT(*) FROM adult WHERE age > 30 AND sex = 'Male' GROUP BY education"
TAIL = " ERROR 2 PERCENT CONFIDENCE 0.9995"
SEED, TEXTS, QUICK_TEXTS = 20240131, 100_000, 3_000

HONEST = (
    GROUPS + TAIL,
    "SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000 ERROR 300 CONFIDENCE 0.99 JOINT",
    "SELECT ward, year(day), SUM(cost) AS n FROM visits GROUP BY ward, year(day) ORDER BY n DESC LIMIT 3 ERROR 5000",
    "EXPLAIN PRIVACY SELECT COUNT(*) FROM visits WHERE NOT (smoker OR ward LIKE 'A%') AND age BETWEEN 3 AND 5 ERROR 5",
    "BIN adult ON COUNT(*) WHERE W = {age > 50 AND sex = 'Male', age // 10 % 3 = 1 OR sex IS NOT NULL} ERROR 200",
    "BIN t ON COUNT(*) WHERE W = PREFIX(x, 0, 5000, 50) AND sex IN ('Male', 'Female') HAVING COUNT(*) > 3256 ERROR 651",
    "BIN t ON SUM(x) WHERE W = HISTOGRAM(x, -1.5, 10, 0.25) BUDGET 0.01 EPSILON DELTA 1e-6 PREFER OPTIMISTIC",
    "BIN t ON COUNT(*) WHERE W = CUBE(a, b) ORDER BY COUNT(*) LIMIT 3 BUDGET 0.00001 RHO CONFIDENCE 2/3 REUSE NONE;",
)
_WORDS = """SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT AND OR NOT IN LIKE BETWEEN IS NULL TRUE FALSE AS ERROR BUDGET
    CONFIDENCE JOINT REUSE ANY NONE PREFER OPTIMISTIC EPSILON RHO DELTA ROWS PERCENT DESC ASC BIN ON W PREFIX HISTOGRAM
    CUBE EXPLAIN PRIVACY COUNT SUM AVG MIN DISTINCT CASE WHEN JOIN UNION OVER DATE TIMESTAMP year abs age ward"""
_SIGNS = (
    "( ) { } [ ] , ; . * + - / // % = < <= <> != || :: ? $1 @ :n -- /* */ ' \" '' \"\" 'A' 'it''s' 0 5 -1 .5 1e-6 0x1F"
)
_NASTY = (
    "1e999999999", "1_0", "9" * 70, "NaN", "inf", '"a b"', "\0", "\ufeff", "\ud800", "\u017f", "\u0665", "\u202e",
    "\N{PILE OF POO}", "\n", "\t", "(" * 30, "NOT " * 30, "- " * 30, "'2024-02-30'", "DATE '2024-01-31'",
)  # fmt: skip
_PIECES = (*_WORDS.split(), *_SIGNS.split(" "), *_NASTY)


def fuzzed(rng: np.random.Generator) -> str:
    """One text: an honest question with a few pieces dropped, doubled, moved or put in, or pieces at random."""
    if rng.random() < 0.2:
        return " ".join(_PIECES[i] for i in rng.integers(0, len(_PIECES), rng.integers(0, 30)))
    pieces = HONEST[rng.integers(len(HONEST))].split(" ")
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(pieces) + 1))
        piece = _PIECES[rng.integers(len(_PIECES))]
        match rng.integers(8):
            case 0:
                del pieces[place : place + 1]
            case 1:
                pieces[place:place] = pieces[place : place + 3]
            case 2:
                pieces[place : place + 1] = [piece]
            case 3:
                pieces.insert(place, piece)
            case 4:
                pieces[place:], pieces[:place] = pieces[:place], pieces[place:]
            case 5 | 6:
                pieces[place : place + 1] = [piece.swapcase() + "\n" for piece in pieces[place : place + 1]]
            case _:
                whole = " ".join(pieces)
                cut = int(rng.integers(len(whole) + 1))
                pieces = (whole[:cut] + str(piece)[:3] + whole[cut + int(rng.integers(3)) :]).split(" ")
    return " ".join(pieces)


def worst_texts() -> Iterator[str]:
    """Texts of 64 kB, each the longest of its kind: deep, wide, cut off, or one endless word."""
    frame = "SELECT COUNT(*) FROM t WHERE {} ERROR 5"
    for unit in (
        "(",
        ")",
        "NOT ",
        "- ",
        "1+",
        "a AND ",
        "a OR NOT ",
        "a = ",
        "a.",
        "abs(",
        "a BETWEEN ",
        "''",
        "{",
        "/*",
        "-",
        "9",
    ):
        yield frame.format(unit * ((65_536 - len(frame)) // len(unit)))
    yield frame.format("age IN (" + "1," * 32_000 + "1)")
    yield frame.format(" AND ".join(["age > 3"] * 5_400))
    yield "BIN t ON COUNT(*) WHERE W = {" + ",".join(["a>3"] * 16_000) + "} ERROR 5"
    yield "SELECT a, COUNT(*) FROM t GROUP BY " + ",".join(f"a{i}" for i in range(9_000)) + " ERROR 5"
    yield "a" * 65_536
    yield "CONFIDENC" * 7_000


def faults(count: int) -> tuple[int, float]:
    """How many of ``count`` fuzzed texts end in neither a question nor a refusal, and the slowest one's CPU seconds."""
    from siloquent.errors import RequestError
    from siloquent.explore.spec import parse, render

    rng = np.random.default_rng(SEED)
    wrong, slowest = 0, 0.0
    for _ in range(count):
        text = fuzzed(rng)
        begun = time.process_time()
        try:
            query = parse(text)
            wrong += parse(render(query)) != query
        except RequestError as refused:
            json.dumps(str(refused))
        except Exception:  # allowed: this is what is counted
            wrong += 1
        slowest = max(slowest, time.process_time() - begun)
    return wrong, slowest


def rows(options: Options) -> Iterator[Row]:
    """See the package's docstring."""
    if options.wants("parse-warm"):
        yield _warm()
    if options.wants("parse-worst-text"):
        yield _worst()
    if options.wants("parse-fuzz-faults") or options.wants("parse-fuzz-slowest"):
        count = QUICK_TEXTS if options.quick else TEXTS
        wrong, slowest = faults(count)
        how = f"{count:,} fuzzed texts, seed {SEED}: neither a question that survives rendering nor a refusal"
        yield Row("parse-fuzz-faults", ours=wrong, goal=0, unit="texts", how=how)
        yield Row("parse-fuzz-slowest", ours=slowest, goal=5, unit="CPU s", how=f"the slowest of those {count:,}")


def _warm() -> Row:
    import sqlglot

    from siloquent.explore.spec import parse

    ours, peer = _milliseconds(lambda: parse(GROUPS + TAIL), lambda: sqlglot.parse_one(GROUPS, read="duckdb"))
    how = "median CPU of one parse of a GROUP BY with two conditions, warm; peer: sqlglot, without the tail"
    return Row("parse-warm", ours=ours, peer=peer, goal=1, unit="ms", how=how)


def _milliseconds(*sides: Callable[[], object], rounds: int = 40, calls: int = 25) -> list[float]:
    """Median CPU milliseconds of one call of each side, the sides taking turns."""
    spent: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, times in zip(sides, spent, strict=True):
            begun = time.process_time()
            for _ in range(calls):
                side()
            times.append((time.process_time() - begun) / calls * 1_000)
    return [statistics.median(times) for times in spent]


def _worst() -> Row:
    from siloquent.errors import RequestError
    from siloquent.explore.spec import parse

    slowest, which = -math.inf, ""
    for text in worst_texts():
        begun = time.process_time()
        try:
            parse(text)
        except RequestError as refused:
            str(refused)
        spent = time.process_time() - begun
        if spent > slowest:
            slowest, which = spent, text[29:49]
    how = f"slowest of {sum(1 for _ in worst_texts())} texts of 64 kB, here {which!r}..."
    return Row("parse-worst-text", ours=slowest, goal=5, unit="CPU s", how=how)
