"""Random questions of every shape, for property tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from hypothesis import strategies as st

from siloquent.explore.spec.aggregates import (
    Aggregate,
    Average,
    Count,
    Deviation,
    Distinct,
    Quantile,
    Sum,
    Variance,
    name_column,
)
from siloquent.explore.spec.language.refusals import RESERVED, TAIL
from siloquent.explore.spec.predicate import (
    FUNCTIONS,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)
from siloquent.explore.spec.presentation import Presentation, SortKey
from siloquent.explore.spec.promises import Accuracy, Bound, Spend
from siloquent.explore.spec.query import Cube, GroupBy, Having, Item, Join, Predicates, Query, Ranges, Top, Workload

letters = st.characters(exclude_categories=["Cs", "Cc"])
names = st.one_of(
    st.sampled_from(["age", "sex", "ward", "day", "year", "date", "cost", "w", "bin", "count", "Ward", "ſelect"]),
    st.sampled_from(sorted(RESERVED) + [word.lower() for word in (*sorted(RESERVED), *TAIL)]),
    st.text(letters, min_size=1, max_size=12),
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
numbers = st.builds(
    lambda digits, places: Decimal(digits).scaleb(-places), st.integers(-(10**20), 10**20), st.integers(0, 20)
)
amounts = st.builds(lambda digits, places: Decimal(digits).scaleb(-places), st.integers(1, 10**12), st.integers(0, 12))
moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
sorts = (st.integers(-(10**59), 10**59) | numbers, texts, st.booleans(), st.dates(date(1, 1, 1)), moments)
constants = st.one_of(*sorts)
columns = st.builds(Column, names)
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


def _longer(name: str, inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    numeric = st.builds(Value, sorts[0])
    operators = st.sampled_from(["+", "-", "*", "//", "%"])
    return st.one_of(
        st.builds(Call, st.sampled_from(FUNCTIONS), inner),
        st.builds(Arithmetic, inner, operators, inner | numeric),
        st.builds(Arithmetic, numeric, operators, inner),
    )


def expressions_of(name: str) -> st.SearchStrategy[Expression]:
    """Expressions of one attribute."""
    return st.recursive(st.just(Column(name)), lambda inner: _longer(name, inner), max_leaves=5)


expressions = names.flatmap(expressions_of)
lists = st.one_of(*(st.lists(sort, min_size=1, max_size=4) for sort in sorts)).map(tuple)
tests = st.one_of(
    st.builds(Compare, expressions, st.sampled_from(COMPARISONS), st.builds(Value, constants) | expressions),
    st.builds(InList, expressions, lists),
    st.builds(Like, expressions, texts),
    st.builds(IsNull, expressions),
)


def _joined(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    parts = st.one_of(st.just([]), st.lists(inner, min_size=2, max_size=3)).map(tuple)
    return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, inner))


predicates: st.SearchStrategy[Predicate] = st.recursive(tests, _joined, max_leaves=8)


@st.composite
def ranges(draw: st.DrawFn) -> Ranges:
    """HISTOGRAM and PREFIX with 1 to 1,000 bins; the last one may be cut short."""
    lo = Decimal(draw(st.integers(-(10**14), 10**14))).scaleb(-draw(st.integers(0, 6)))
    width = Decimal(draw(st.integers(1, 10**8))).scaleb(-draw(st.integers(0, 6)))
    hi = lo + width * draw(st.integers(1, 1_000)) - width / 2
    return Ranges(draw(st.sampled_from(["histogram", "prefix"])), draw(names), lo, hi, width)


workloads: st.SearchStrategy[Workload] = st.one_of(
    st.lists(expressions, min_size=1, max_size=3, unique=True).map(lambda keys: GroupBy(tuple(keys))),
    st.lists(predicates, min_size=1, max_size=3).map(lambda parts: Predicates(tuple(parts))),
    st.just(Predicates((And(()),))),
    ranges(),
    st.lists(names, min_size=1, max_size=3, unique=True).map(lambda found: Cube(tuple(found))),
)
betas = st.one_of(
    st.integers(1, 10**9 - 1).map(lambda part: Fraction(part, 10**9)),
    st.fractions(min_value=Fraction(1, 10**9), max_value=1 - Fraction(1, 10**9), max_denominator=10**9),
)
choices = st.one_of(
    st.none(),
    st.builds(Having, st.sampled_from([">", ">="]), numbers),
    st.builds(Top, st.integers(1, 1_000), st.booleans()),
)


shares_of_rows = st.integers(1, 9_999).map(lambda part: Decimal(part).scaleb(-4))
simple = st.just(Count()) | st.builds(Sum, names) | st.builds(Distinct, names)
aggregates = st.one_of(
    simple,
    *(st.builds(one, names) for one in (Average, Variance, Deviation)),
    st.builds(Quantile, names, shares_of_rows),
)
tested = st.one_of(
    st.builds(lambda test: Count(test=test), predicates),
    st.builds(lambda name: Count(test=Not(IsNull(Column(name)))), names),
    st.builds(lambda name, test: Sum(name, test=test), names, predicates),
    st.builds(lambda name, test: Average(name, test=test), names, predicates),
)


@st.composite
def accuracies(draw: st.DrawFn, asked: Sequence[Aggregate]) -> Accuracy:
    """One bound for each of the aggregates."""
    first, *more = (Bound(draw(amounts), isinstance(one, (Count, Quantile)) and draw(st.booleans())) for one in asked)
    spread = any(isinstance(one, (Variance, Deviation)) for one in asked)
    may = spread or any(isinstance(one, Average) for one in asked)
    rows = st.integers(1, 2**40)
    at_least = draw(rows if spread else st.none() | rows if may else st.none())
    return Accuracy(first.error, draw(betas), first.percent, draw(st.booleans()), tuple(more), at_least)


@st.composite
def presentations(draw: st.DrawFn, workload: Workload, columns: list[str], choice: Having | Top | None) -> Presentation:
    """Names, an order and a limit that are not the free choice of the largest groups."""
    if not isinstance(workload, GroupBy) or not draw(st.booleans()):
        return Presentation()
    keys = workload.keys
    own = {key.name for key in keys if isinstance(key, Column)}
    fresh = names.filter(lambda name: name not in own and name not in columns)
    renamed = draw(st.lists(fresh | st.just(""), min_size=len(keys), max_size=len(keys)))
    given = [name for name in renamed if name]
    renamed = renamed if len(set(given)) == len(given) else []
    if isinstance(choice, Top):
        return Presentation(tuple(renamed))
    places = st.integers(0, len(keys) + len(columns) - 1)
    order = draw(st.lists(st.builds(SortKey, places, st.booleans(), st.booleans()), max_size=3))
    limit, offset = draw(st.none() | st.integers(1, 1_000)), draw(st.integers(0, 3))
    is_top = len(order) == 1 and order[0].place >= len(keys) and not order[0].nulls_first
    return Presentation(tuple(renamed), tuple(order), None if is_top and choice is None else limit, offset)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Every shape of question that there is."""
    workload, choice = draw(workloads), draw(choices)
    shows_values = choice is None or (isinstance(workload, GroupBy) and draw(st.booleans()))
    plain = isinstance(workload, GroupBy) or workload == Predicates((And(()),))
    asked = aggregates | tested if shows_values else simple
    most = 4 if shows_values and plain else 1
    items = draw(st.lists(asked, min_size=1, max_size=most, unique_by=name_column))
    having_of = draw(st.none() | simple) if isinstance(choice, Having) and shows_values else None
    if having_of is not None:
        choice = replace(choice, of=having_of)
    elif choice is not None and shows_values:
        choice = replace(choice, of=draw(st.sampled_from(items)))
    taken = [name_column(one) for one in items[1:]]
    bounded = [*items, *([having_of] if having_of is not None and having_of not in items else [])]
    accuracy = st.just(draw(accuracies(bounded)))
    shares = st.none() | betas.filter(lambda share: 10**9 % share.denominator == 0).map(
        lambda share: Decimal(share.numerator * (10**9 // share.denominator)).scaleb(-9)
    )
    spend = st.builds(Spend, amounts, st.just("epsilon"), shares, betas, st.booleans())
    rho = st.builds(Spend, amounts, st.just("rho"), st.none(), betas, st.booleans())
    alias = draw(st.just("") | names.filter(lambda name: name not in taken)) if shows_values else ""
    columns = [alias or name_column(items[0]), *taken] if shows_values else []
    presentation = (
        draw(presentations(workload, columns, choice)) if shows_values or isinstance(choice, Having) else None
    )
    return Query(
        table=draw(names.filter(lambda name: "." not in name)),
        workload=workload,
        presentation=presentation,
        promise=draw(accuracy | spend | rho),
        aggregate=items[0],
        others=tuple(Item(one) for one in items[1:]),
        join=draw(st.none() | st.builds(Join, names, names)) if plain and shows_values else None,
        where=draw(st.none() | predicates),
        having=choice if isinstance(choice, Having) else None,
        top=choice if isinstance(choice, Top) else None,
        shows_values=shows_values,
        reuse=draw(st.sampled_from(["declared", "any", "none", "simultaneous"])),
        optimistic=draw(st.booleans()),
        explain=draw(st.booleans()),
        alias=alias,
        groups_each=draw(st.none() | st.integers(1, 9)) if any(isinstance(one, Distinct) for one in bounded) else None,
    )
