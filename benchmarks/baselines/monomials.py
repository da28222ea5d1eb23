"""The semi-ring of monomial sums: from sums over two tables to sums over their union or join, without the rows.

An element maps exponents to sums: with the names (B, C), exponents (2, 1) stand for the sum of B^2 C. Zero is the empty
table, one the table with one row and no numbers. Moments up to order 2 in matrix form are ``maths/models/moments.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Exponents = tuple[int, ...]
Floats = NDArray[np.float64]
HIGHEST_ORDER = 4


@dataclass(frozen=True, slots=True)
class Monomials:
    """Sums of all monomials of ``names`` up to ``order``; a missing monomial has the sum 0.

    Source:
        "Saibot: A Differentially Private Data Search Platform" (PVLDB 2023), section 3; dictionaries instead of
        vectors, so that no monomial is stored twice.
    """

    names: tuple[str, ...]
    order: int
    sums: Mapping[Exponents, float]

    def __post_init__(self) -> None:
        if not 0 <= self.order <= HIGHEST_ORDER or len(set(self.names)) != len(self.names):
            raise ValueError(f"an order of 0 to {HIGHEST_ORDER} and names that differ")
        if any(len(p) != len(self.names) or not 0 <= sum(p) <= self.order for p in self.sums):
            raise ValueError("one exponent a name, and no monomial above the order")

    def __add__(self, other: Monomials) -> Monomials:
        """Return the union of two tables with the same numbers."""
        if (self.names, self.order) != (other.names, other.order):
            raise ValueError("a union needs the same names and order")
        keys = self.sums.keys() | other.sums.keys()
        return Monomials(self.names, self.order, {p: self.sums.get(p, 0) + other.sums.get(p, 0) for p in keys})

    def __mul__(self, other: Monomials) -> Monomials:
        """Return all pairs of a row here and a row there: one key's part of a join of tables with different numbers."""
        if set(self.names) & set(other.names):
            raise ValueError("a join needs different names")
        order = min(self.order, other.order)
        sums: dict[Exponents, float] = {
            p + q: a * b for p, a in self.sums.items() for q, b in other.sums.items() if sum(p) + sum(q) <= order
        }
        return Monomials(self.names + other.names, order, sums)

    def __getitem__(self, powers: Mapping[str, int] | str) -> float:
        """Return the sum of one monomial, as ``{"B": 2, "C": 1}``, or of one number by its name."""
        wanted = {powers: 1} if isinstance(powers, str) else powers
        unknown = set(wanted) - set(self.names)
        if unknown or sum(wanted.values()) > self.order:
            raise KeyError(powers)
        return self.sums.get(tuple(wanted.get(name, 0) for name in self.names), 0)

    @property
    def count(self) -> float:
        """The number of rows."""
        return self[{}]

    def compute_moment(self, powers: Mapping[str, int] | str) -> float:
        """Return the mean of one monomial over the rows."""
        return self[powers] / self.count


def build_zero(names: Sequence[str], order: int) -> Monomials:
    """Return the element of no rows."""
    return Monomials(tuple(names), order, {})


def build_one(order: int) -> Monomials:
    """Return one row without numbers: the neutral element of joins."""
    return Monomials((), order, {(): 1})


def list_exponents(numbers: int, order: int) -> list[Exponents]:
    """Return all monomials of ``numbers`` numbers up to ``order``, by degree: C(numbers + order, order) of them."""
    return [
        tuple(chosen.count(i) for i in range(numbers))
        for degree in range(order + 1)
        for chosen in combinations_with_replacement(range(numbers), degree)
    ]


def compute_sums(names: Sequence[str], rows: Floats, order: int) -> Monomials:
    """Return the element of a table, from its rows (rows, names)."""
    sums = {p: float(np.prod(rows ** np.array(p), axis=1).sum()) for p in list_exponents(len(names), order)}
    return Monomials(tuple(names), order, sums)


def join(left: Mapping[object, Monomials], right: Mapping[object, Monomials]) -> Monomials | None:
    """Return the join of two tables on a key, from one element for each key's rows; None if no key matches."""
    met = [left[key] * right[key] for key in left if key in right]
    if not met:
        return None
    sums: defaultdict[Exponents, float] = defaultdict(float)
    for part in met:
        for p, value in part.sums.items():
            sums[p] += value
    return Monomials(met[0].names, met[0].order, dict(sums))


def decorrelate(joined: Monomials, keys: int, *, left: int) -> dict[Exponents, float]:
    """Return second moments of a many-to-many join as if every pair of rows with one key were a row drawn without bias.

    Args:
        joined: The join's element, of order 2; its first ``left`` names are the left table's.
        keys: The number of values of the key; it is assumed uniform and independent of the numbers.
    Source:
        Saibot, proposition 6, derived again: only moments of a left and a right number need correction.
    """
    count = joined.count
    rows = (count * keys) ** 0.5
    split = slice(0, left), slice(left, None)
    found = {}
    for p, value in joined.sums.items():
        mean = value / count
        if sum(p[split[0]]) == 1 and sum(p[split[1]]) == 1:
            a = tuple(e if i < left else 0 for i, e in enumerate(p))
            b = tuple(0 if i < left else e for i, e in enumerate(p))
            product = joined.sums[a] * joined.sums[b] / count**2
            mean = (rows - 1) / (keys - 1) * mean - (rows - keys) / (keys - 1) * product
        found[p] = mean
    return found
