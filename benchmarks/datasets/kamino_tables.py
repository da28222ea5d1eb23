"""Public tables with their declarations, and how a synthetic table is compared with the true one (note, 12.1)."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.api import read_schema
from siloquent.schema import TableSchema

Floats = NDArray[np.float64]
BINS = 16
TEST = 0.3

EDGES = {
    "fnlwgt": list(range(0, 1_500_001, 30_000)),
    "capital-gain": [
        0,
        1,
        *range(1_000, 8_001, 1_000),
        10_000,
        14_000,
        16_000,
        20_000,
        30_000,
        50_000,
        99_999,
        100_000,
    ],
    "capital-loss": [0, 1, *range(200, 4_601, 200)],
}
WHOLE = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (1, 99)}
POSITIVE: dict[str, Any] = {
    "income": lambda x: x == ">50K",
    "sex": lambda x: x == "Female",
    "marital-status": lambda x: x == "Never-married",
    "education": lambda x: np.isin(
        x, ["Some-college", "Assoc-acdm", "Assoc-voc", "Bachelors", "Masters", "Prof-school", "Doctorate"]
    ),
    "age": lambda x: x >= 50,
    "workclass": lambda x: np.isin(x, ["Federal-gov", "Local-gov", "State-gov"]),
    "education-num": lambda x: x >= 10,
    "occupation": lambda x: x == "Prof-specialty",
    "relationship": lambda x: x == "Unmarried",
    "race": lambda x: x == "Black",
    "capital-gain": lambda x: x < 1_000,
    "capital-loss": lambda x: x < 1_000,
    "hours-per-week": lambda x: x >= 40,
    "native-country": lambda x: x == "United-States",
}


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """A true table: its columns, which of them are numbers, and its declaration."""

    schema: TableSchema
    columns: Mapping[str, NDArray[Any]]
    numbers: frozenset[str]
    table: Any

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.table.num_rows)


def adult(data: Path, *, epsilon: str = "1", constraints: bool = True, missing: bool = False) -> Published:
    """Adult as the released code of Kamino has it: rows with a missing value dropped, unless they are asked for."""
    import pyarrow.compute as pc
    import pyarrow.csv

    with gzip.open(data / "kamino-adult" / "adult.csv.gz") as file:
        options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
        table = pyarrow.csv.read_csv(file, convert_options=options)
    if not missing:
        keep = np.ones(table.num_rows, dtype=bool)
        for column in table.columns:
            keep &= ~pc.is_null(column).to_numpy()
        table = table.filter(keep)
    return Published(read_schema(adult_toml(table, epsilon, constraints, missing)), _columns(table), _NUMBERS, table)


_NUMBERS = frozenset((*EDGES, *WHOLE))


def _columns(table: Any) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}


def adult_toml(table: Any, epsilon: str = "1", constraints: bool = True, missing: bool = False) -> str:
    """The declaration: public bounds and bins (12.1, 2), categories as in the data's README."""
    entries = []
    null = ', null = "cell"' if missing else ""
    for name in table.column_names:
        if name in EDGES:
            edges = EDGES[name]
            entries.append(
                f'{{ name = "{name}", type = "integer", lo = 0, hi = {edges[-1]}, outside = "clamp", null = "drop", '
                f"bins = {{ edges = {edges} }} }}"
            )
        elif name in WHOLE:
            lo, hi = WHOLE[name]
            entries.append(
                f'{{ name = "{name}", type = "integer", lo = {lo}, hi = {hi}, outside = "clamp", null = "drop" }}'
            )
        else:
            values = sorted(value for value in table.column(name).unique().to_pylist() if value is not None)
            words = ", ".join(f'"{value}"' for value in values)
            entries.append(f'{{ name = "{name}", type = "category", values = [{words}]{null or _DROP} }}')
    rules = [
        '{ kind = "fd", lhs = ["education"], rhs = "education-num" }',
        '{ kind = "denial", not = \'\'\'t1."capital-gain" < t2."capital-gain" and t1."capital-loss" < '
        "t2.\"capital-loss\"''', hard = true }",
    ]
    return "\n".join(
        [
            "format = 1",
            "attribute = [",
            ",\n".join(entries),
            "]",
            f"constraint = [{', '.join(rules)}]" if constraints else "",
            '[table]\nname = "adult"\nsize_hint = 30000\nadjacency = "add-remove"\nunit = { kind = "row" }\n',
            f'[budget]\naccountant = "zcdp"\nepsilon = "{epsilon}"\ndelta = "1e-6"\n',
        ]
    )


_DROP = ', null = "drop"'


def binned(true: Published, columns: Mapping[str, NDArray[Any]]) -> dict[str, tuple[NDArray[np.int64], int]]:
    """Every column as cells: numbers in 16 equal bins over the true range, words as levels."""
    made = {}
    for name, values in true.columns.items():
        found = columns[name]
        if name in true.numbers:
            lo, hi = float(values.min()), float(values.max())
            cells = np.clip(((found - lo) / (hi - lo) * BINS).astype(np.int64), 0, BINS - 1)
            made[name] = (cells, BINS)
        else:
            levels = np.unique(values.astype(str))
            made[name] = (np.searchsorted(levels, found.astype(str)), len(levels))
    return made


@dataclass(frozen=True, slots=True)
class Distances:
    """Total variation (half of L1) of single columns and of pairs: means and the worst; the largest cell difference."""

    one: float
    one_worst: float
    two: float
    two_worst: float
    largest: float


def distances(true: Published, columns: Mapping[str, NDArray[Any]]) -> Distances:
    """How far the marginals of a synthetic table are from the true ones."""
    ours, theirs = binned(true, true.columns), binned(true, columns)
    one = [_apart([ours[name]], [theirs[name]]) for name in ours]
    two = [_apart([ours[a], ours[b]], [theirs[a], theirs[b]]) for a, b in combinations(ours, 2)]
    tv, cell = [each[0] for each in two], [each[1] for each in one]
    singles = [each[0] for each in one]
    return Distances(float(np.mean(singles)), max(singles), float(np.mean(tv)), max(tv), float(np.mean(cell)))


def _apart(one: Sequence[tuple[Any, int]], other: Sequence[tuple[Any, int]]) -> tuple[float, float]:
    shares = []
    for part in (one, other):
        code = part[0][0]
        for cells, count in part[1:]:
            code = code * count + np.minimum(cells, count - 1)
        size = int(np.prod([count for _, count in part]))
        shares.append(np.bincount(np.minimum(code, size - 1), minlength=size) / len(code))
    gap = np.abs(shares[0] - shares[1])
    return float(gap.sum() / 2), float(gap.max())


def encoded(true: Published, columns: Mapping[str, NDArray[Any]], target: str) -> Floats:
    """One-hot words and numbers scaled by the true range, without the target, shape (rows, features)."""
    parts = []
    for name, values in true.columns.items():
        if name == target:
            continue
        if name in true.numbers:
            lo, hi = float(values.min()), float(values.max())
            parts.append(((columns[name].astype(np.float64) - lo) / (hi - lo))[:, None])
        else:
            levels = np.unique(values.astype(str))
            parts.append((columns[name].astype(str)[:, None] == levels[None]).astype(np.float64))
    return np.hstack(parts)


def learned(true: Published, columns: Mapping[str, NDArray[Any]], target: str, model: str) -> tuple[float, float]:
    """Accuracy and AUC on true test rows of a model trained on 70 % of the given rows."""
    from sklearn.metrics import roc_auc_score

    order = np.random.RandomState(0).permutation(true.rows)
    test = order[: int(TEST * true.rows)]
    count = len(next(iter(columns.values())))
    train = np.random.RandomState(0).permutation(count)[int(TEST * count) :]
    positive = POSITIVE[target]
    given = {name: values[train] for name, values in columns.items()}
    asked = {name: values[test] for name, values in true.columns.items()}
    truth = positive(asked[target]).astype(int)
    wanted = positive(given[target]).astype(int)
    if wanted.min() == wanted.max():
        return float((truth == wanted[0]).mean()), 0.5
    fitted = classifier(model).fit(encoded(true, given, target), wanted)
    features = encoded(true, asked, target)
    accuracy = float((fitted.predict(features) == truth).mean())
    return accuracy, float(roc_auc_score(truth, fitted.predict_proba(features)[:, 1]))


def classifier(name: str) -> Any:
    """One of the protocol's three models."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    if name == "lr":
        return LogisticRegression(max_iter=200)
    if name == "rf":
        return RandomForestClassifier(60, min_samples_leaf=2, random_state=0)
    return HistGradientBoostingClassifier(random_state=0)
