"""Bins, one-hot codes and numbers from indices of declared attributes: equal at every silo, from public facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.charts.text import name_value
from siloquent.errors import RequestError, UnknownName
from siloquent.schema import Attribute
from siloquent.share.spec.agreement import Agreement

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Encoding:
    """The encoding of rows of indices (rows, attributes) as codes; a row with any value OUTSIDE has none.

    A code is the number of a bin among all attributes' bins: ``starts`` gives each attribute's first.
    """

    features: tuple[Attribute, ...]
    label: Attribute

    @cached_property
    def cuts(self) -> tuple[Integers, ...]:
        """For each numeric feature the first index of every bin except the first; empty for others."""
        return tuple(_compute_cuts(attribute) for attribute in self.features)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The number of bins of each feature."""
        return tuple(_count_bins(attribute) for attribute in self.features)

    @cached_property
    def starts(self) -> Integers:
        """The first code of each feature, shape (features,)."""
        return np.concatenate([[0], np.cumsum(self.widths)[:-1]]).astype(np.int64)

    @property
    def columns(self) -> int:
        """The number of codes."""
        return sum(self.widths)

    @cached_property
    def blocks(self) -> Integers:
        """The feature of each code, shape (columns,)."""
        return np.repeat(np.arange(len(self.features)), self.widths)

    @cached_property
    def numeric(self) -> tuple[int, ...]:
        """The positions of features that are numbers."""
        return tuple(i for i, attribute in enumerate(self.features) if attribute.is_numeric)

    @property
    def is_regression(self) -> bool:
        """Whether the label is a number."""
        return self.label.is_numeric

    @property
    def classes(self) -> int:
        """The number of classes of the label, or of buckets if it is a number."""
        return len(self.label_cuts) + 1 if self.is_regression else self.label.steps

    def find_classes(self, label: Integers) -> Integers:
        """Return the class (or bucket of a number) of each index of the label, shape (rows,)."""
        return np.searchsorted(self.label_cuts, label, side="right") if self.is_regression else label

    @cached_property
    def label_cuts(self) -> Integers:
        """For a numeric label the first index of every bucket except the first."""
        return _compute_cuts(self.label)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The label's values in order; buckets' names for a number."""
        if self.is_regression:
            return tuple(list_bin_names(self.label)[: self.classes])
        return tuple(self.label.label(place) for place in range(self.classes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, then the label's."""
        return (*(attribute.name for attribute in self.features), self.label.name)

    def find_inside(self, places: Integers) -> NDArray[np.bool_]:
        """Return whether each row of indices (rows, features + 1), the label last, counts: all inside, with a label."""
        sizes = np.array([*(attribute.size for attribute in self.features), self.label.steps])
        return np.asarray(((places >= 0) & (places < sizes)).all(axis=1))

    def compute_codes(self, places: Integers) -> Integers:
        """Compute the codes of rows of indices (rows, features), all of them inside."""
        return np.stack([self.compute_bins(i, places[:, i]) + start for i, start in enumerate(self.starts)], axis=1)

    def compute_bins(self, feature: int, places: Integers) -> Integers:
        """Compute the bin of each index of one feature; NULL's cell is a separate bin, the last."""
        attribute = self.features[feature]
        if not attribute.is_numeric:
            return places
        bins = np.searchsorted(self.cuts[feature], places, side="right")
        return np.where(places >= attribute.steps, len(self.cuts[feature]) + 1, bins)

    def encode_one_hot(self, codes: Integers) -> Floats:
        """Encode codes as one column each, shape (rows, columns)."""
        made = np.zeros((len(codes), self.columns))
        made[np.arange(len(codes))[:, None], codes] = 1.0
        return made

    def compute_numbers(self, places: Integers) -> Floats:
        """Scale the numeric features over their declared ranges to -1 to 1, NULL to 0, shape (rows, numbers)."""
        made = np.zeros((len(places), len(self.numeric)))
        for column, i in enumerate(self.numeric):
            steps = self.features[i].steps
            known = places[:, i] < steps
            made[known, column] = 2 * places[known, i] / max(steps - 1, 1) - 1
        return made

    def compute_target(self, label_places: Integers | Floats) -> Floats:
        """Scale a numeric label over its declared range to -1 to 1, shape (rows,)."""
        return np.asarray(2 * label_places / max(self.label.steps - 1, 1) - 1)

    def build_design(self, places: Integers) -> Floats:
        """Build the input of models: one column per code, then one per number; shape (rows, columns + numbers)."""
        return np.hstack([self.encode_one_hot(self.compute_codes(places)), self.compute_numbers(places)])

    def compute_indices(self, rows: Mapping[str, Sequence[Any]]) -> Integers:
        """Compute the indices of values by attribute name, shape (rows, features); OUTSIDE is -1.

        Raises:
            UnknownName: A feature has no column. RequestError: Columns of different lengths.
        """
        for name in self.names[:-1]:
            if name not in rows:
                raise UnknownName("column", name, rows, fix=f"a column named {name}")
        columns = [[attribute.index(value) for value in rows[attribute.name]] for attribute in self.features]
        if len({len(column) for column in columns}) > 1:
            raise RequestError("The columns have different lengths.")
        return np.array(columns, dtype=np.int64).T.reshape(-1, len(self.features))


def build_encoding(agreement: Agreement) -> Encoding:
    """Build the encoding that silos agreed on."""
    return Encoding(agreement.features, agreement.label)


def _compute_cuts(attribute: Attribute) -> Integers:
    """Compute the indices of a number's inner edges, which lie on its grid; without edges, every value is a bin."""
    if not attribute.is_numeric:
        return np.zeros(0, dtype=np.int64)
    if not attribute.edges:
        return np.arange(1, attribute.steps, dtype=np.int64)
    return attribute.list_bin_starts()[1:]


def _count_bins(attribute: Attribute) -> int:
    if attribute.is_numeric:
        return len(_compute_cuts(attribute)) + 1 + (attribute.null == "cell")
    return attribute.size


def list_bin_names(attribute: Attribute) -> list[str]:
    """Return the names of an attribute's bins or values in order; NULL's is NULL, and the text NULL is in quotes."""
    binned = attribute.is_numeric and attribute.edges
    names = attribute.list_bin_labels() if binned else [attribute.label(place) for place in range(attribute.size)]
    return [name_value(name) for name in names]
