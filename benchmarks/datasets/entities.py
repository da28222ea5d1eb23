"""Pairs of citations with similarity columns, for the entity-resolution study of the APEx thesis (section 3.6).

A row is a pair of records; a column is one similarity of one attribute on a grid of .01, NaN where a side is missing.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

TEXTS = ("title", "authors", "venue")
ATTRIBUTES = (*TEXTS, "year")
TRANSFORMS = ("2-grams", "3-grams", "tokens")
ON_SETS = ("cosine", "jaccard", "overlap")
ON_TEXT = ("edit", "smith-waterman", "jaro")
SIMILARITIES = (*ON_TEXT, *ON_SETS, "difference")

Column = tuple[str, str, str]  # attribute, transform ("" where none applies), similarity


@dataclass(frozen=True, slots=True)
class Pairs:
    """A sample in which no record appears twice.

    Attributes:
        match: Whether the two are one, shape (pairs,).
        columns: Similarities in 0..1, NaN for NULL, each of shape (pairs,).
        missing: For each attribute whether a side lacks it, each of shape (pairs,).
    """

    match: NDArray[np.bool_]
    columns: dict[Column, NDArray[np.float64]]
    missing: dict[str, NDArray[np.bool_]]

    def first(self, count: int) -> Pairs:
        """The first ``count`` pairs."""
        return Pairs(
            self.match[:count],
            {name: values[:count] for name, values in self.columns.items()},
            {name: values[:count] for name, values in self.missing.items()},
        )


def citation_pairs(data: Path, count: int = 4_000) -> Pairs:
    """``count`` pairs in an order fixed by seed 0, each taken if neither of its records was taken before."""
    with gzip.open(data / "explore-citation-pairs" / "citation_pairs.csv.gz") as file:
        as_text = pyarrow.csv.ConvertOptions(
            column_types={f"{name}_{side}": "string" for name in ATTRIBUTES for side in "lr"}, strings_can_be_null=True
        )
        table = pyarrow.csv.read_csv(file, convert_options=as_text).to_pydict()
    seen: set[tuple[str, ...]] = set()
    taken: list[int] = []
    for row in np.random.default_rng(0).permutation(len(table["label"])).tolist():
        both = [(side, table["source"][row], *(table[f"{name}_{side}"][row] for name in ATTRIBUTES)) for side in "lr"]
        if seen.isdisjoint(both):
            seen.update(both)
            taken.append(row)
        if len(taken) == count:
            break
    sides = {
        (name, side): [_tidy(table[f"{name}_{side}"][row]) for row in taken] for name in ATTRIBUTES for side in "lr"
    }
    missing = {
        name: np.array([not a or not b for a, b in zip(sides[name, "l"], sides[name, "r"], strict=True)])
        for name in ATTRIBUTES
    }
    columns: dict[Column, NDArray[np.float64]] = {}
    for name, similarity, transform, measure in _measures():
        three = zip(sides[name, "l"], sides[name, "r"], missing[name], strict=True)
        found = np.array([np.nan if gone else measure(a, b) for a, b, gone in three])
        columns[name, transform, similarity] = np.floor(found * 100 + 0.5) / 100
    return Pairs(np.array([table["label"][row] == 1 for row in taken]), columns, missing)


def _tidy(text: str | None) -> str:
    return "" if text is None or text.lower() in ("", "nan", "null") else " ".join(text.lower().split())


def _measures() -> list[tuple[str, str, str, Callable[[str, str], float]]]:
    """Attribute, similarity, transform and the function of two texts, for every column."""
    texts: dict[str, Callable[[str, str], float]] = {
        "edit": edit_similarity,
        "smith-waterman": local_similarity,
        "jaro": jaro_similarity,
    }
    found: list[tuple[str, str, str, Callable[[str, str], float]]] = []
    for name in TEXTS:
        for transform in TRANSFORMS:
            found += [(name, one, transform, _of_sets(transform, one)) for one in ON_SETS]
        found += [(name, one, "", measure) for one, measure in texts.items()]
        found.append((name, "difference", "", lambda a, b: float(a == b)))
    return [*found, ("year", "difference", "", lambda a, b: 1 - min(abs(float(a) - float(b)), 10.0) / 10)]


def _of_sets(transform: str, similarity: str) -> Callable[[str, str], float]:
    def parts(text: str) -> set[str]:
        if transform == "tokens":
            return set(text.split())
        size = int(transform[0])
        return {text[i : i + size] for i in range(max(1, len(text) - size + 1))}

    def measure(left: str, right: str) -> float:
        a, b = parts(left), parts(right)
        shared = len(a & b)
        size = {
            "cosine": (len(a) * len(b)) ** 0.5,
            "jaccard": len(a | b),
            "overlap": min(len(a), len(b)),
        }[similarity]
        return float(shared / size)

    return measure


def _bytes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def edit_similarity(left: str, right: str) -> float:
    return 1 - float(_edit_distance(_bytes(left), _bytes(right))) / max(len(left), len(right))


def local_similarity(left: str, right: str) -> float:
    return float(_smith_waterman(_bytes(left), _bytes(right))) / (2 * min(len(left), len(right)))


def jaro_similarity(left: str, right: str) -> float:
    return float(_jaro_kernel(_bytes(left), _bytes(right)))


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _edit_distance(a: Any, b: Any) -> Any:
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        diagonal = row[0]
        row[0] = i + 1
        for j in range(len(b)):
            above = row[j + 1]
            row[j + 1] = min(above + 1, row[j] + 1, diagonal + (a[i] != b[j]))
            diagonal = above
    return row[len(b)]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _smith_waterman(a: Any, b: Any) -> Any:
    """Best local alignment: 2 for a match, -1 for a mismatch or a gap."""
    row = np.zeros(len(b) + 1, dtype=np.int64)
    best = 0
    for i in range(len(a)):
        diagonal = 0
        for j in range(len(b)):
            above = row[j + 1]
            row[j + 1] = max(0, diagonal + (2 if a[i] == b[j] else -1), above - 1, row[j] - 1)
            best = max(best, row[j + 1])
            diagonal = above
    return best


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _jaro_kernel(a: Any, b: Any) -> Any:
    window = max(0, max(len(a), len(b)) // 2 - 1)
    used, order = np.zeros(len(b), dtype=np.bool_), np.full(len(a), -1)
    shared = 0
    for i in range(len(a)):
        for j in range(max(0, i - window), min(len(b), i + window + 1)):
            if not used[j] and a[i] == b[j]:
                used[j], order[i] = True, j
                shared += 1
                break
    if shared == 0:
        return 0.0
    swapped, k = 0, 0
    for i in range(len(a)):
        if order[i] >= 0:
            while not used[k]:
                k += 1
            swapped += a[i] != b[k]
            k += 1
    return (shared / len(a) + shared / len(b) + (shared - swapped / 2) / shared) / 3
