"""Compiled constraints of a table for synthesis: the enforcement of each, and what the model must know for it.

Rows are whole numbers here: a matrix of shape (rows, attributes) whose column j holds the cell of
``CompiledConstraints.attributes[j]`` (core index functions: 0..size-1, NULL's cell and ``other`` last).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.schema import Attribute

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Kind = Literal["never", "unary", "dependency", "key", "order", "general", "foreign"]
Way = Literal["forward", "twin", "reverse"]
PassKind = Literal["mask", "dependency", "reverse", "coupling", "monotone", "key", "block"]
FLIPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Axis:
    """The positions of an attribute's cells on a scale shared with the attributes it is compared with.

    Cell i below ``steps`` is at ``first + i * step``, or at ``places[i]`` if given. Cells from ``steps`` on are not
    declared values: ``other`` (equal to itself, above and below nothing) and NULL (never true in any comparison).
    """

    attribute: str
    steps: int
    first: int = 0
    step: int = 1
    places: tuple[int, ...] = ()
    other: int = -1

    def compute_positions(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return positions on the scale, shape of ``codes``; the cell ``other`` gets one that no declared value has."""
        codes = codes.astype(np.int64)
        if self.places:
            table = np.array(self.places, dtype=np.int64)
            found = table[np.clip(codes, 0, len(table) - 1)]
        else:
            found = self.first + codes * self.step
        return np.where(codes == self.other, np.iinfo(np.int64).min // 4, found) if self.other >= 0 else found

    def find_known(self, codes: NDArray[np.integer], op: Operator) -> NDArray[np.bool_]:
        """Return where a comparison by ``op`` is defined, shape of ``codes``."""
        found = (codes >= 0) & (codes < self.steps)
        return found | (codes == self.other) if self.other >= 0 and op in ("=", "!=") else found


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison of a row with a constant, by the constant's position in cells (halves between them)."""

    position: float


@dataclass(frozen=True, slots=True)
class TupleTest:
    """``left op right`` within one row; right is another attribute of the row or a constant."""

    left: Axis
    op: Operator
    right: Axis | Side

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it reads."""
        right = (self.right.attribute,) if isinstance(self.right, Axis) else ()
        return (self.left.attribute, *right)


@dataclass(frozen=True, slots=True)
class PairTest:
    """``t1.left op t2.right``."""

    left: Axis
    op: Operator
    right: Axis

    @property
    def is_same(self) -> bool:
        """Whether one attribute is compared with itself."""
        return self.left.attribute == self.right.attribute

    @property
    def reversed(self) -> PairTest:
        """The same test with t1 and t2 exchanged."""
        return PairTest(self.right, FLIPPED[self.op], self.left)


@dataclass(frozen=True, slots=True)
class NormalForm:
    """not (first(t1) and second(t2) and every pair test); one-row rules have empty ``second`` and ``pairs``."""

    first: tuple[TupleTest, ...]
    second: tuple[TupleTest, ...]
    pairs: tuple[PairTest, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it reads, each once, in order of appearance."""
        of_pairs = (name for test in self.pairs for name in (test.left.attribute, test.right.attribute))
        of_rows = (name for test in (*self.first, *self.second) for name in test.attributes)
        return tuple(dict.fromkeys((*of_pairs, *of_rows)))

    @property
    def is_binary(self) -> bool:
        """Whether it is about two rows."""
        return bool(self.pairs or self.second)

    @property
    def is_irreflexive(self) -> bool:
        """Whether two equal rows never violate it, since some attribute would have to differ from itself."""
        return any(test.is_same and test.op in ("!=", "<", ">") for test in self.pairs)


@dataclass(frozen=True, slots=True)
class CompiledConstraint:
    """One declared constraint. ``number`` counts from 1 in declared order; ``kept`` describes how it is kept.

    ``form`` is None for foreign keys (not kept yet), for keys over ``id`` columns (fresh numbers keep them) and for
    constraints that name attributes outside the chosen columns.
    """

    number: int
    text: str
    hard: bool
    kind: Kind
    attributes: tuple[str, ...]
    kept: str
    form: NormalForm | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The allowed combinations of a few attributes' cells: rules about one row, or an array over cells.

    ``cells``: bool, shaped by the attributes' sizes, if a table gives it (FDs); None if ``rules`` do.
    """

    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    rules: tuple[tuple[TupleTest, ...], ...] = ()
    cells: NDArray[np.bool_] | None = None
    constraints: tuple[int, ...] = ()

    def allows(self, codes: Mapping[str, NDArray[np.integer]]) -> NDArray[np.bool_]:
        """Return whether each combination may occur; the arrays in ``codes`` (by attribute) broadcast."""
        if self.cells is not None:
            return np.asarray(self.cells[tuple(codes[name] for name in self.attributes)])
        allowed = np.ones(np.broadcast_shapes(*(codes[name].shape for name in self.attributes)), dtype=bool)
        for tests in self.rules:
            broken = np.ones_like(allowed)
            for test in tests:
                broken &= evaluate_row_test(test, codes)
            allowed &= ~broken
        return allowed

    def compute_allowed_share(self, groups: Mapping[str, NDArray[np.integer]]) -> NDArray[np.float64]:
        """Return the allowed share of the cells of every group combination, one axis (its groups) for each attribute.

        Args:
            groups: For each attribute the group of each of its cells, shape (size,), groups 0..g-1; -1 belongs to none.
                Attributes that are cut at ``CompiledConstraints.cuts`` make the shares of constant rules 0 or 1.
        Raises:
            MemoryError: Too many cells; the product of sizes should be at most 10^7 (``is_small``).
        """
        shape = tuple(int(groups[name].max(initial=-1)) + 1 for name in self.attributes)
        axes = np.ix_(*(np.arange(size) for size in self.sizes))
        allowed = self.allows(dict(zip(self.attributes, axes, strict=True))).astype(np.float64)
        found = np.broadcast_to(allowed, self.sizes)
        for axis, name in enumerate(self.attributes):
            found = _average_groups(found, groups[name], shape[axis], axis)
        return found

    @property
    def is_small(self) -> bool:
        """Whether ``compute_allowed_share`` fits in memory."""
        return float(np.prod([float(size) for size in self.sizes])) <= 1e7


def _average_groups(
    values: NDArray[np.float64], groups: NDArray[np.integer], count: int, axis: int
) -> NDArray[np.float64]:
    """Return means of ``values`` over the groups of one axis; 0 for groups without cells."""
    moved = np.moveaxis(values, axis, 0)
    sums = np.zeros((count, *moved.shape[1:]))
    np.add.at(sums, groups[groups >= 0], moved[groups >= 0])
    sizes = np.bincount(groups[groups >= 0], minlength=count).reshape(-1, *([1] * (moved.ndim - 1)))
    return np.moveaxis(sums / np.maximum(sizes, 1), 0, axis)


def evaluate_row_test(test: TupleTest, codes: Mapping[str, NDArray[np.integer]]) -> NDArray[np.bool_]:
    """Return where a row passes ``test`` (UNKNOWN fails); the arrays in ``codes`` broadcast."""
    left = codes[test.left.attribute]
    known = test.left.find_known(left, test.op)
    if isinstance(test.right, Side):
        return known & compare(left.astype(np.float64), test.op, np.float64(test.right.position))
    right = codes[test.right.attribute]
    known = known & test.right.find_known(right, test.op)
    return known & compare(test.left.compute_positions(left), test.op, test.right.compute_positions(right))


def compare(left: NDArray[np.generic], op: Operator, right: NDArray[np.generic] | np.generic) -> NDArray[np.bool_]:
    """Compare ``left op right``, elementwise."""
    functions = {
        "=": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }
    return np.asarray(functions[op](left, right), dtype=bool)


@dataclass(frozen=True, slots=True)
class TableNeed:
    """A functional dependency whose table y(x) is required.

    ``measured``: whether a noisy joint histogram of (lhs..., rhs), in cells, row-major, shape (*lhs_sizes, rhs_size),
    over the rows that pass ``when``, has to be released (D2 = 1 a row). Otherwise it comes from ``reference`` (a public
    file) or is filled at random. ``rules``: tests of one of its attributes that no entry may pass. ``rising``: whether
    y rises (falls) with the attribute ``along``, empty if it need not be monotone. ``bijective``: no two x share a y.
    ``lhs_steps``, ``rhs_steps``: the number of cells that are declared values; ``other`` and NULL follow.
    """

    constraint: int
    lhs: tuple[str, ...]
    rhs: str
    lhs_sizes: tuple[int, ...]
    rhs_size: int
    lhs_steps: tuple[int, ...]
    rhs_steps: int
    way: Way
    measured: bool
    when: tuple[TupleTest, ...] = ()
    reference: str = ""
    bijective: bool = False
    rules: tuple[tuple[TupleTest, ...], ...] = ()
    along: str = ""
    rising: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its histogram."""
        return (*self.lhs_sizes, self.rhs_size)

    @property
    def cells(self) -> int:
        """The number of cells of its histogram."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class DependencyTable:
    """y(x) of one FD: ``values`` holds the cell of rhs for each cell of lhs (row-major), int32, shape (cells of lhs,).

    ``weights``: the frequency of each x (noisy, at least 1) if reversed; ``weak``: x whose entry is mostly noise.
    """

    need: TableNeed
    values: NDArray[np.int32]
    weights: NDArray[np.float64] | None = None
    weak: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EnforcementPass:
    """One step over finished rows, in the order of ``CompiledConstraints.passes``."""

    kind: PassKind
    constraints: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coupling:
    """An order constraint (context; a, b): within equal context, and where rows pass ``when``, b follows a.

    ``rising``: b may not fall while a rises (otherwise it may not rise).
    """

    constraint: int
    context: tuple[str, ...]
    a: str
    b: str
    rising: bool
    when: tuple[TupleTest, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledConstraints:
    """The enforcement of a table's constraints, from the declaration only.

    Attributes:
        attributes: The columns of the row matrix (countable attributes only), in declared order.
        sizes: Their numbers of cells.
        declared: Their declarations.
        modelled: The attributes that the model draws; the others are written by passes afterwards.
        fresh: ``id`` columns that get fresh numbers.
        constraints: Every declared constraint with its enforcement.
        masks: Rules about single rows, for the model and for refinement.
        cuts: For each attribute the cells at which a bin must begin, so that rules with constants are exact on bins.
        needs: FD tables to be built before rows are drawn.
        couplings: Order constraints, by constraint number.
        passes: The enforcement passes over drawn rows, in order.
        notes: Notes for readers: dropped constraints, what is not reproduced.
    """

    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    declared: tuple[Attribute, ...]
    modelled: tuple[str, ...]
    fresh: tuple[str, ...]
    constraints: tuple[CompiledConstraint, ...]
    masks: tuple[Mask, ...]
    cuts: Mapping[str, tuple[int, ...]]
    needs: tuple[TableNeed, ...]
    couplings: Mapping[int, Coupling]
    passes: tuple[EnforcementPass, ...]
    notes: tuple[str, ...] = ()

    @property
    def reflexive(self) -> tuple[CompiledConstraint, ...]:
        """The hard constraints over two rows that equal rows break: they limit the number of rows."""
        binary = (one for one in self.hard if one.form is not None and one.form.is_binary)
        return tuple(one for one in binary if one.form is not None and not one.form.is_irreflexive)

    def find_column(self, name: str) -> int:
        """Return the column of the row matrix that holds ``name``."""
        return self.attributes.index(name)

    def find_columns(self, names: Iterable[str]) -> NDArray[np.int64]:
        """Return the columns of the row matrix that hold ``names``, in their order."""
        return np.array([self.find_column(name) for name in names], dtype=np.int64)

    @property
    def hard(self) -> tuple[CompiledConstraint, ...]:
        """The constraints that no release may break."""
        return tuple(one for one in self.constraints if one.hard and one.form is not None)

    @property
    def soft(self) -> tuple[CompiledConstraint, ...]:
        """The constraints whose rate is reported, and met if it is known."""
        return tuple(one for one in self.constraints if not one.hard and one.form is not None)

    @property
    def cell_type(self) -> np.dtype[np.signedinteger[Any]]:
        """The dtype of cells: 32 bits if every cell's number fits."""
        return np.dtype(np.int32 if max(self.sizes, default=0) < 2**31 else np.int64)

    def split_columns(self, rows: NDArray[np.integer]) -> dict[str, NDArray[np.integer]]:
        """Return the columns of ``rows`` (rows, attributes) by name."""
        return {name: rows[:, place] for place, name in enumerate(self.attributes)}

    def select_constraints(self, numbers: Iterable[int]) -> tuple[CompiledConstraint, ...]:
        """Return the constraints of these numbers."""
        wanted = set(numbers)
        return tuple(one for one in self.constraints if one.number in wanted)


@dataclass(frozen=True, slots=True)
class Violations:
    """The exact number of violations of one constraint.

    ``pairs``: pairs of rows (rows, for rules about one row) that break it in either direction; ``one_way``: counted as
    in the thesis, with the earlier row as t1 only; ``possible``: all pairs (all rows).
    """

    constraint: int
    pairs: int
    one_way: int
    possible: int

    @property
    def rate(self) -> float:
        """The share of pairs (rows) that break it."""
        return self.pairs / self.possible if self.possible else 0.0
