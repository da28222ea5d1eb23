"""The data sets of the sharing paper, their declarations, and how rows go to agents."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute, Domain, TableBudget, TableSchema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Account = Literal["pure", "zcdp"]
ADULT_EDGES = {
    "age": (20, 25, 30, 35, 40, 45, 50, 55, 60, 70),
    "fnlwgt": (100_000, 200_000, 300_000),
    "capital_gain": (1_000, 3_000, 5_000, 7_000, 10_000, 20_000),
    "capital_loss": (1, 1_500, 1_800, 1_950, 2_200),
    "hours_per_week": (20, 30, 35, 40, 41, 45, 50, 60),
}
"""Chosen knowing the set; rows named adult-equal use 16 equal bins of the range instead."""


@dataclass(frozen=True, slots=True)
class Source:
    """A published set: its file, label, columns that are dropped or categories, the partition's attribute, agents."""

    file: str
    label: str
    by: str
    agents: int = 100
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    number: bool = False
    near: float = 1.0


SETS = {
    "adult": Source("adult", "income", "age", drop=("split",)),
    "credit": Source(
        "credit_default", "default_payment_next_month", "AGE", drop=("ID",), categories=("SEX", "EDUCATION", "MARRIAGE")
    ),
    "bank": Source("bank_additional_full", "y", "age"),
    "debrecen": Source(
        "diabetic_retinopathy_debrecen", "label", "ma_1", agents=10, categories=("quality", "prescreen")
    ),
    "bike": Source(
        "bike_hour",
        "count",
        "temp",
        drop=("instant", "dateday", "casual", "registered"),
        categories=("season", "year", "month", "hour", "holiday", "weekday", "workingday", "weathersit"),
        number=True,
        near=0.02,
    ),
    "news": Source("news_popularity_reduced", "shares", "n_tokens_content", number=True),
}


@dataclass(frozen=True, slots=True, eq=False)
class Set:
    """A set as places (rows, features + 1), the label last, and the attributes that they belong to."""

    name: str
    places: Integers
    attributes: tuple[Attribute, ...]
    source: Source

    def schema(self, account: Account, agents: int) -> TableSchema:
        """The declaration of one agent's table; the size hint is the mean."""
        delta = Fraction(1, 10**6) if account == "zcdp" else Fraction(0)
        budget = TableBudget(account, epsilon=Fraction(1_000), delta=delta)
        return TableSchema("t", Domain(self.attributes), budget, size_hint=max(len(self.places) // agents, 1))

    @property
    def features(self) -> tuple[str, ...]:
        """The features' names."""
        return tuple(attribute.name for attribute in self.attributes[:-1])

    def folds(self, count: int) -> Iterator[tuple[Integers, Integers]]:
        """Rows to learn from and to test on, stratified by class, the first ``count`` of ten.

        Choices were made on the folds of another shuffle (``random_state`` 0), so none of these was looked at before.
        """
        from sklearn.model_selection import KFold, StratifiedKFold

        kind: Any = KFold if self.source.number else StratifiedKFold
        split = kind(10, shuffle=True, random_state=1).split(self.places, self.places[:, -1])
        for _, (train, test) in zip(range(count), split, strict=False):
            yield train, test

    def partition(self, rows: Integers, agents: int, random: np.random.Generator) -> Integers:
        """The agent of each row: near the agent's own value of one attribute, with chance ~ 1 / (distance + near)."""
        at = self.features.index(self.source.by)
        attribute = self.attributes[at]
        lo, grid = float(attribute.lo or 0), float(attribute.grid or 1)  # type: ignore[arg-type]
        value = lo + grid * self.places[rows, at]
        own = random.uniform(lo, lo + grid * (attribute.steps - 1), agents)
        chance = 1 / (np.abs(value[:, None] - own[None, :]) + self.source.near)
        edges = np.cumsum(chance / chance.sum(axis=1, keepdims=True), axis=1)
        drawn = (edges < random.random((len(rows), 1))).sum(axis=1)
        return np.asarray(np.minimum(drawn, agents - 1), dtype=np.int64)


@lru_cache(maxsize=8)
def load(data: Path, name: str, *, equal_bins: bool = False) -> Set:
    """A published set; ranges are the file's, as an owner would declare them, and no secret here."""
    import pyarrow.csv

    source = SETS[name]
    with gzip.open(data / "pfds" / f"{source.file}.csv.gz") as file:
        table = pyarrow.csv.read_csv(io.BytesIO(file.read()))
    names = [n for n in table.column_names if n not in (*source.drop, source.label)]
    columns, attributes = [], []
    for column in (*names, source.label):
        attribute, places = _declared(column, table[column].to_pylist(), source, equal_bins)
        attributes.append(attribute)
        columns.append(places)
    return Set(name, np.stack(columns, axis=1), tuple(attributes), source)


def _declared(name: str, values: list[Any], source: Source, equal_bins: bool) -> tuple[Attribute, Integers]:
    if name == source.label and not source.number:
        texts = sorted({str(value) for value in values})
        return Attribute(name, "boolean"), np.array([texts.index(str(value)) for value in values], dtype=np.int64)
    if name in source.categories or isinstance(values[0], str):
        texts = sorted({str(value) for value in values})
        place = {text: i for i, text in enumerate(texts)}
        return (
            Attribute(name, "category", values=tuple(texts)),
            np.array([place[str(value)] for value in values], dtype=np.int64),
        )
    return _number(name, np.array(values, dtype=float), equal_bins)


def _number(name: str, values: Floats, equal_bins: bool) -> tuple[Attribute, Integers]:
    whole = bool((values == np.round(values)).all())
    low, high = float(values.min()), float(values.max())
    grid = Decimal(1) if whole and high - low < 10**7 else Decimal(str(float(f"{max((high - low) / 2000, 1e-9):.1g}")))
    lo = (Decimal(str(low)) // grid - (low < 0)) * grid
    hi = lo + grid * Decimal(
        int((Decimal(str(high)) - lo) / grid) + 1 if not whole else int((Decimal(str(high)) - lo) / grid)
    )
    edges: tuple[Decimal, ...] = ()
    if name in ADULT_EDGES and not equal_bins:
        edges = (lo, *(Decimal(edge) for edge in ADULT_EDGES[name]), hi)
    made = Attribute(name, "integer" if whole else "real", lo=lo, hi=hi, grid=grid, outside="clamp", edges=edges)
    return made, np.floor((values - float(lo)) / float(grid) + 0.5).astype(np.int64)
