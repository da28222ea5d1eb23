"""The query: one frozen value, from whichever interface."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import (
    Aggregate,
    Average,
    Count,
    Deviation,
    Distinct,
    Extreme,
    Moment,
    Quantile,
    Sum,
    Variance,
    name_column,
)
from siloquent.explore.spec.language.refusals import suggest_bounds
from siloquent.explore.spec.numbers import check_number
from siloquent.explore.spec.per_unit import PerUnit
from siloquent.explore.spec.predicate import And, Column, Expression, JoinedColumn, Predicate, check_name
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.promises import Accuracy, Promise, Spend, Unstated
from siloquent.explore.spec.related import Related
from siloquent.explore.spec.rewriting.normal_form import normalize_expression, normalize_predicate, require_attribute
from siloquent.schema.public_tables.joined import PublicJoin

Kind = Literal["wcq", "icq", "tcq"]
Reuse = Literal["declared", "any", "none", "simultaneous"]
"""The earlier answers that may be used; ``declared``: as the table file says."""
MAX_PREDICATES = 100_000
MAX_KEYS = 64
MAX_ITEMS = 64
MAX_SETS = 64


@dataclass(frozen=True, slots=True)
class GroupBy:
    """One predicate for each combination of declared values (bins for numbers that have them), in declared order.

    ``sets``: the positions of the keys in each grouping, if there are several, as ROLLUP has totals of them.
    """

    keys: tuple[Expression, ...]
    sets: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MAX_KEYS:
            raise RequestError(f"GROUP BY takes 1 to {MAX_KEYS} keys, not {len(self.keys):,}.")
        for key in self.keys:
            require_attribute(key)
        object.__setattr__(self, "keys", tuple(map(normalize_expression, self.keys)))
        if len(set(self.keys)) != len(self.keys):
            raise RequestError("GROUP BY names a key twice.", fix="name it once")
        if self.sets == (tuple(range(len(self.keys))),):  # one meaning, one form
            object.__setattr__(self, "sets", ())
        if len(self.sets) > MAX_SETS or len(set(self.sets)) != len(self.sets):
            raise RequestError(f"GROUP BY takes at most {MAX_SETS} different sets of keys.", fix="name fewer sets")
        if self.sets and {place for one in self.sets for place in one} != set(range(len(self.keys))):
            raise RequestError("Each GROUP BY key must belong to a set.", fix="GROUP BY ROLLUP (ward, sex)")


@dataclass(frozen=True, slots=True)
class Predicates:
    """An explicit workload: one answer per predicate, in the given order."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MAX_PREDICATES:
            raise RequestError(f"A workload must have 1 to {MAX_PREDICATES:,} predicates, not {len(self.parts):,}.")
        object.__setattr__(self, "parts", tuple(normalize_predicate(part) for part in self.parts))


EVERY_ROW = Predicates((And(()),))
"""The workload of a SELECT without GROUP BY: one part that includes every row."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """HISTOGRAM: [lo + i width, lo + (i+1) width) below hi; PREFIX: [lo, lo + (i+1) width)."""

    shape: Literal["histogram", "prefix"]
    attribute: str
    lo: Decimal
    hi: Decimal
    width: Decimal

    def __post_init__(self) -> None:
        check_name(self.attribute, "attribute")
        for bound in (self.lo, self.hi, self.width):
            # A number of digits that keeps lo + i width exact in decimals of 28 digits.
            check_number(bound, f"A bound of {self.shape.upper()}", before=15, after=12)
        if self.width <= 0 or self.lo >= self.hi:
            raise RequestError(f"{self.shape.upper()} needs lo < hi and a width above 0.")
        if (Fraction(self.hi) - Fraction(self.lo)) / Fraction(self.width) > MAX_PREDICATES:
            raise RequestError(f"{self.shape.upper()} would make more than {MAX_PREDICATES:,} bins.")


@dataclass(frozen=True, slots=True)
class Cube:
    """All combinations of the attributes' values, as GROUP BY makes them."""

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.attributes:
            check_name(name, "attribute")
        if not 1 <= len(self.attributes) <= MAX_KEYS or len(set(self.attributes)) != len(self.attributes):
            raise RequestError(f"CUBE takes 1 to {MAX_KEYS} distinct attributes.", fix="CUBE(ward, sex)")


@dataclass(frozen=True, slots=True)
class SomeGroups:
    """The groups of ``all_groups`` with indices ``chosen``: a second step's query on reported groups."""

    all_groups: GroupBy
    chosen: tuple[int, ...]


Workload = GroupBy | Predicates | Ranges | Cube | SomeGroups


@dataclass(frozen=True, slots=True)
class Having:
    """An iceberg condition: only parts whose aggregate passes ``op threshold``; ``of``: None for the query's own."""

    op: Literal[">", ">="]
    threshold: Decimal
    of: Aggregate | None = None

    def __post_init__(self) -> None:
        if self.op not in (">", ">="):
            raise RequestError("HAVING can only report parts above a threshold.", fix="HAVING COUNT(*) > 100")
        check_number(self.threshold, "A threshold")


@dataclass(frozen=True, slots=True)
class Top:
    """The ``k`` parts with the largest (or smallest) aggregate; ``of``: None for the query's own."""

    k: int
    largest: bool = True
    of: Aggregate | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_PREDICATES:
            raise RequestError(f"LIMIT must be between 1 and {MAX_PREDICATES:,}.", fix="LIMIT 3")


@dataclass(frozen=True, slots=True)
class Item:
    """One requested aggregate; ``alias``: the name of its column."""

    aggregate: Aggregate
    alias: str = ""

    def __post_init__(self) -> None:
        if self.alias:
            check_name(self.alias, "column")

    @property
    def column(self) -> str:
        """The name of its column."""
        return self.alias or name_column(self.aggregate)


@dataclass(frozen=True, slots=True)
class Join:
    """A join of the query's table: each row with the row of ``table`` that has the same ``key``."""

    table: str
    key: str

    def __post_init__(self) -> None:
        check_name(self.table, "table")
        check_name(self.key, "attribute")


@dataclass(frozen=True, slots=True)
class Query:
    """One query. ``shows_values``: the aggregate is among the requested items (then HAVING and TOP are free).

    ``alias``: the name of the column of values. ``where`` is joined to every part of the workload by AND. ``others``:
    further items, each with its own bound. ``presentation``: names, order and number of the shown rows, free.
    ``groups_each``: the number of groups in which COUNT(DISTINCT user) counts a user; None for the default.
    ``default_share``: the promise is a default, and may cost at most this many hundredths of the remaining budget.
    ``joins``: linked tables that are joined, and ``on`` the columns that are said to be equal, until a session names
    the relation of all of them as ``table``.
    ``per_unit``: the query is about the rows of this subquery, one for each unit, and their columns.
    ``is_outer``: rows of ``table`` are there without a row to join, too, until a session finds what that means.
    ``publics``: the public tables that are joined, of several; ``join`` is the only one.
    ``related``: the conditions on other tables' rows of the same person, boolean attributes by their names.
    """

    table: str
    workload: Workload
    promise: Promise
    aggregate: Aggregate = field(default_factory=Count)
    where: Predicate | None = None
    having: Having | None = None
    top: Top | None = None
    shows_values: bool = True
    reuse: Reuse = "declared"
    optimistic: bool = False
    explain: bool = False
    alias: str = ""
    others: tuple[Item, ...] = ()
    join: Join | None = None
    presentation: Presentation | None = None
    groups_each: int | None = None
    default_share: Decimal | None = None
    joins: tuple[str, ...] = ()
    on: tuple[tuple[JoinedColumn, JoinedColumn], ...] = ()
    per_unit: PerUnit | None = None
    related: tuple[Related, ...] = ()
    is_outer: bool = False
    publics: tuple[PublicJoin, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.table, "table")
        if self.presentation is not None and self.presentation.is_plain:  # one meaning, one form
            object.__setattr__(self, "presentation", None)
        if self.where is not None:
            object.__setattr__(self, "where", normalize_predicate(self.where))
        for name in ("having", "top"):
            choice = getattr(self, name)
            if choice is not None and choice.of == self.aggregate:  # one meaning, one form
                object.__setattr__(self, name, replace(choice, of=None))
        self._move_common_test()
        self._check_extremes()
        self._check_choice()
        self._check_items()
        self._check_groups_each()
        self._check_share()
        self._check_sets()
        self._check_bounds()
        if self.presentation is not None:
            self._check_presentation(self.presentation)

    def _move_common_test(self) -> None:
        """Move the test that all aggregates share into ``where``: one meaning, one form, one charge."""
        test = self.aggregate.test
        if test is None or any(one.test != test for one in self.bounded):
            return
        outer = () if self.where is None else self.where.parts if isinstance(self.where, And) else (self.where,)
        inner = test.parts if isinstance(test, And) else (test,)
        object.__setattr__(self, "where", normalize_predicate(And((*outer, *inner))))
        object.__setattr__(self, "aggregate", replace(self.aggregate, test=None))
        others = tuple(replace(item, aggregate=replace(item.aggregate, test=None)) for item in self.others)
        object.__setattr__(self, "others", others)
        for name in ("having", "top"):
            choice = getattr(self, name)
            if choice is not None and choice.of is not None:
                object.__setattr__(self, name, replace(choice, of=replace(choice.of, test=None)))

    def _check_presentation(self, shown: Presentation) -> None:
        keys = self.workload.keys if isinstance(self.workload, GroupBy) else ()
        is_one_row = self.workload == Predicates((And(()),))
        if not keys and (shown.renamed or shown.selects or not is_one_row):
            raise RequestError("Only groups can be sorted, limited or renamed.", fix="GROUP BY ward")
        if shown.renamed and len(shown.renamed) != len(keys):
            raise RequestError("Each key of GROUP BY takes one name.", fix="ward AS station")
        if self.top and (shown.selects or shown.kept):
            raise RequestError("ORDER BY with LIMIT can be given only once.", fix="remove one of them")
        if shown.computes and not self.shows_values:
            raise RequestError("Only selected aggregates can be computed with.", fix="add COUNT(*) to the SELECT list")
        if self.having and shown.kept:
            raise RequestError(
                "HAVING takes conditions on selected aggregates, or one other.", fix="remove one of them"
            )
        if any(not 0 <= place < len(self.items) for place in shown.measured):
            raise RequestError("An expression takes only measured aggregates.", fix="add it to the SELECT list")
        columns = len(keys) + len(self.columns)
        if any(not 0 <= one.place < columns for one in shown.order):
            raise RequestError("ORDER BY takes keys and selected aggregates only.", fix="ORDER BY 1")
        named = shown.renamed or ("",) * len(keys) if shown.computes else shown.renamed
        pairs = zip(keys, named, strict=False)
        own = [name or (key.name if isinstance(key, Column) and shown.computes else "") for key, name in pairs]
        names = [*filter(None, own), *self.columns]
        if len(set(names)) != len(names):
            raise RequestError("Two columns of the answer have the same name.", fix="AVG(cost) AS mean_cost")

    def _check_extremes(self) -> None:
        for aggregate in self.bounded:
            if isinstance(aggregate, Extreme):
                raise RequestError(
                    "MIN and MAX are not supported: they reveal values of single people.",
                    fix=suggest_bounds(aggregate.attribute, largest=aggregate.largest),
                )

    def _check_choice(self) -> None:
        if self.having and self.top:
            raise RequestError("A query can have HAVING or LIMIT, not both.", fix="query the counts and filter them")
        if not self.shows_values and not (self.having or self.top):
            raise RequestError("The query requests nothing.", fix=f"SELECT COUNT(*) FROM {self.table}")
        if not self.shows_values and not isinstance(self.aggregate, (Count, Distinct, Sum)):
            raise RequestError(
                "Without being selected, only COUNT and SUM can choose groups.",
                fix="add the aggregate to the SELECT list: the choice is then free",
            )
        if self.shows_values and (self.having or self.top) and not isinstance(self.workload, GroupBy):
            raise RequestError(
                "BIN can return values or choose parts, not both.",
                fix="remove HAVING or LIMIT, and filter the answer at no cost",
            )
        if self.top and self.top.of is not None and self.top.of not in self.aggregates:
            raise RequestError("ORDER BY takes only an aggregate of the query.", fix="add it to the SELECT list")
        if self.chooses_by_another and not isinstance(self.having.of, (Count, Distinct, Sum)):  # type: ignore[union-attr]
            raise RequestError("HAVING takes only COUNT, SUM, or another aggregate of the query.")

    def _check_items(self) -> None:
        if self.alias:
            check_name(self.alias, "column")
            if not self.shows_values:
                raise RequestError("AS can only name values that are returned.", fix="remove AS")
        if not self.others:
            return
        if not self.shows_values or len(self.others) >= MAX_ITEMS:
            raise RequestError(f"A query can return 1 to {MAX_ITEMS} aggregates.")
        if len(set(self.aggregates)) != len(self.aggregates):
            raise RequestError("The query lists an aggregate twice.", fix="name it once")
        names = [item.column for item in self.items]
        if len(set(names)) != len(names):
            raise RequestError("Two columns of the answer have the same name.", fix="AVG(cost) AS mean_cost")

    def _check_groups_each(self) -> None:
        if self.groups_each is None:
            return
        if not 1 <= self.groups_each <= MAX_PREDICATES:
            raise RequestError(f"AT MOST must be between 1 and {MAX_PREDICATES:,} groups.", fix="AT MOST 3 GROUPS EACH")
        if not any(isinstance(one, Distinct) for one in self.bounded):
            raise RequestError("AT MOST applies only to COUNT(DISTINCT ...).", fix="remove it")

    def _check_sets(self) -> None:
        if not isinstance(self.workload, GroupBy) or not self.workload.sets:
            return
        if not self.shows_values or self.top is not None or self.chooses_by_another:
            raise RequestError(
                "The groups of ROLLUP, CUBE and GROUPING SETS can only be chosen by selected aggregates.",
                fix="select the aggregate, or GROUP BY the keys",
            )
        if any(isinstance(one, (Distinct, Quantile)) for one in self.bounded):
            raise RequestError(
                "The groups of ROLLUP, CUBE and GROUPING SETS overlap, so only counts, sums and averages can be asked.",
                fix="GROUP BY the keys, and ask the totals by themselves",
            )

    def _check_share(self) -> None:
        if self.default_share is None:
            return
        check_number(self.default_share, "UP TO")
        if not 0 < self.default_share <= 100:
            raise RequestError("UP TO must be above 0 and at most 100 PERCENT.", fix="BY DEFAULT UP TO 5 PERCENT")

    def _check_bounds(self) -> None:
        promise = self.promise
        if not isinstance(promise, Accuracy):
            return
        asked = self.bounded
        if len(promise.bounds) != len(asked):
            raise RequestError(
                f"There are {len(promise.bounds)} error bounds for {len(asked)} aggregates: one each, in the order in "
                "which they are asked, and that of a HAVING on another aggregate last.",
                fix=f"ERROR {', '.join(['200'] * len(asked))}",
            )
        for bound, aggregate in zip(promise.bounds, asked, strict=True):
            if bound.percent and not isinstance(aggregate, (Count, Quantile)):
                unit = "values: ERROR 20" if isinstance(aggregate, Distinct) else "the attribute's own unit: ERROR 5000"
                raise RequestError(
                    "PERCENT is a share of the declared number of rows, so it bounds counts only.",
                    fix=f"give the error of {_WORDS[type(aggregate)]} in {unit}",
                )
        spread = any(isinstance(one, (Variance, Deviation)) for one in asked)
        if spread and promise.at_least is None:
            raise RequestError(
                "VAR and STDDEV can promise an error only for groups of a minimum size.",
                fix="FOR AT LEAST 5000 ROWS, or BUDGET 0.1 EPSILON instead of ERROR",
            )
        least = 2 if any(isinstance(one, (Variance, Deviation)) and one.sample for one in asked) else 1
        if promise.at_least is not None and promise.at_least < least:
            raise RequestError(
                "VAR and STDDEV divide by the number of rows less 1, so they need groups of 2 rows or more.",
                fix="FOR AT LEAST 2 ROWS, or VAR_POP and STDDEV_POP",
            )
        if promise.at_least is not None and not spread and not any(isinstance(one, Average) for one in asked):
            raise RequestError(
                "FOR AT LEAST applies only to AVG, VAR and STDDEV: other errors do not depend on the group size.",
                fix="remove it",
            )

    @property
    def stated(self) -> Accuracy | Spend:
        """The promise of a query that is planned: stated, or its default."""
        assert not isinstance(self.promise, Unstated), "a default stands in before planning"
        return self.promise

    @property
    def items(self) -> tuple[Item, ...]:
        """The shown items, in order."""
        return (Item(self.aggregate, self.alias), *self.others) if self.shows_values else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values in the answer: of the items, or of what is computed from them."""
        shown = self.presentation.shown if self.presentation is not None else ()
        return tuple(one.name for one in shown) or tuple(item.column for item in self.items)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The query's own aggregates: those shown, or the one that groups are chosen by."""
        return (self.aggregate, *(item.aggregate for item in self.others))

    @property
    def chooses_by_another(self) -> bool:
        """Whether HAVING uses an aggregate that is not shown; groups are then chosen before anything is measured."""
        return self.having is not None and self.having.of is not None and self.having.of not in self.aggregates

    @property
    def bounded(self) -> tuple[Aggregate, ...]:
        """The aggregates that have their own error bound, in order."""
        of = self.having.of if self.having is not None and self.chooses_by_another else None
        return self.aggregates if of is None else (*self.aggregates, of)

    @property
    def is_composite(self) -> bool:
        """Whether the answer is combined from several measurements, or is not linear in them."""
        is_computed = self.presentation is not None and self.presentation.computes
        is_simple = isinstance(self.aggregate, (Count, Distinct, Sum, Moment))
        return bool(self.others) or self.chooses_by_another or is_computed or not is_simple

    @property
    def kind(self) -> Kind:
        """wcq: values; icq: the parts that pass a threshold; tcq: the top k parts."""
        if self.shows_values:
            return "wcq"
        return "icq" if self.having else "tcq"


_WORDS: dict[type[Aggregate], str] = {Sum: "a sum", Average: "an average", Variance: "a variance"}
_WORDS |= {Deviation: "a deviation", Moment: "a sum", Distinct: "a number of distinct values"}
