"""The aggregates over the rows of a group, and the numbers from which each answer is computed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.numbers import check_number, format_number
from siloquent.explore.spec.predicate import MAX_NAME_LENGTH, Column, Expression, IsNull, Not, Predicate, check_name
from siloquent.explore.spec.rewriting.normal_form import normalize_expression, normalize_predicate, require_attribute

SHARE_DIGITS = 4


@dataclass(frozen=True, slots=True)
class _OfRows:
    """``test``: only rows that pass it count, as with FILTER (WHERE test); None for all rows of the group."""

    test: Predicate | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.test is not None:
            object.__setattr__(self, "test", normalize_predicate(self.test))


@dataclass(frozen=True, slots=True)
class Count(_OfRows):
    """COUNT(*): the number of rows; COUNT(a): with the test that ``a`` is not NULL."""

    @property
    def counted(self) -> str | None:
        """The attribute of COUNT(a); None for other counts."""
        if isinstance(self.test, Not) and isinstance(self.test.part, IsNull):
            expression = self.test.part.expression
            return expression.name if isinstance(expression, Column) else None
        return None


@dataclass(frozen=True, slots=True)
class _OfAttribute(_OfRows):
    """``computed``: the expression whose value in each row is aggregated; ``attribute`` is then its text."""

    attribute: str
    computed: Expression | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        _OfRows.__post_init__(self)
        if self.computed is not None:
            require_attribute(self.computed)
            expression = normalize_expression(self.computed)
            name = expression.name if isinstance(expression, Column) else name_expression(expression)
            object.__setattr__(self, "attribute", name)
            object.__setattr__(self, "computed", None if isinstance(expression, Column) else expression)
        if self.computed is None:
            check_name(self.attribute, "attribute")


@dataclass(frozen=True, slots=True)
class Distinct(_OfAttribute):
    """COUNT(DISTINCT attribute): how many users have a row, if it names them; else how many declared values occur."""


@dataclass(frozen=True, slots=True)
class Sum(_OfAttribute):
    """SUM(attribute): the total of a declared number over the rows."""


@dataclass(frozen=True, slots=True)
class Average(_OfAttribute):
    """AVG(attribute): the mean of a declared number over the rows that have one."""


@dataclass(frozen=True, slots=True)
class _Spread(_OfAttribute):
    """``sample``: squared distances are divided by the number of rows less 1, as SQL does without POP."""

    sample: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Variance(_Spread):
    """VAR_POP(attribute): the mean squared distance from the mean, over the rows that have a number; or VAR."""


@dataclass(frozen=True, slots=True)
class Deviation(_Spread):
    """STDDEV_POP(attribute): the square root of VAR_POP; or STDDEV, that of VAR."""


@dataclass(frozen=True, slots=True)
class Quantile(_OfAttribute):
    """QUANTILE(attribute, share): a declared value with that share of the rows below it; MEDIAN is share 1/2."""

    share: Decimal

    def __post_init__(self) -> None:
        _OfAttribute.__post_init__(self)
        check_number(self.share, "The share of a quantile")
        if not 0 < self.share < 1:
            raise RequestError(
                f"The share of a quantile must be between 0 and 1 (both excluded), not {format_number(self.share)}.",
                fix=f"QUANTILE({quote_name(self.attribute)}, 0.99): the smallest and largest values reveal single "
                "people",
            )
        if (self.share * 10**SHARE_DIGITS) % 1:
            raise RequestError(f"The share of a quantile can have at most {SHARE_DIGITS} decimal places.", fix="0.9995")

    @property
    def fraction(self) -> Fraction:
        """a/b in lowest terms."""
        return Fraction(self.share)


@dataclass(frozen=True, slots=True)
class Extreme(_OfAttribute):
    """MIN(attribute) or MAX(attribute): only of one unit's rows, in a per-person subquery."""

    largest: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Ranks(_OfAttribute):
    """Several quantiles of one attribute from one measurement; not part of the query language."""

    shares: tuple[Decimal, ...]

    @property
    def quantiles(self) -> tuple[Quantile, ...]:
        """The quantiles."""
        return tuple(Quantile(self.attribute, share, test=self.test) for share in self.shares)


@dataclass(frozen=True, slots=True)
class Moment(_OfAttribute):
    """The basis of averages and variances; not part of the query language.

    Over the rows that have a number, the sum of (number - centre)^power, where the centre is the middle declared
    value; power 0 counts these rows.
    """

    power: Literal[0, 1, 2] = 0


def name_expression(expression: Expression) -> str:
    """Return the name of the column that holds the value of ``expression`` in each row: its text, if it is short.

    >>> from siloquent.explore.spec.predicate import Call
    >>> name_expression(Call("abs", Column("cost")))
    'abs(cost)'
    """
    text = render_expression(expression)
    if len(text) <= MAX_NAME_LENGTH and text.isprintable() and '"' not in text:
        return text
    return f"expression {hashlib.sha256(text.encode()).hexdigest()[:16]}"


Aggregate = Count | Distinct | Sum | Average | Variance | Deviation | Quantile | Moment | Extreme | Ranks
Simple = Count | Sum | Moment
"""Aggregates with one number per group, linear in the counts of cells."""


def name_column(aggregate: Aggregate) -> str:
    """Return the default name of the column of its values.

    >>> name_column(Quantile("age", Decimal("0.5"))), name_column(Average("cost"))
    ('median_age', 'avg_cost')
    """
    if isinstance(aggregate, Count) and aggregate.counted is not None:
        return f"count_{aggregate.counted}"
    if aggregate.test is not None:
        return f"{name_column(replace(aggregate, test=None))}_if"
    if isinstance(aggregate, _OfAttribute) and aggregate.computed is not None:
        return _WORDS.get(type(aggregate), "quantile")
    if isinstance(aggregate, Extreme):
        return f"{'max' if aggregate.largest else 'min'}_{aggregate.attribute}"
    if isinstance(aggregate, Quantile):
        share = format_number(aggregate.share)
        return f"median_{aggregate.attribute}" if share == "0.5" else f"quantile_{aggregate.attribute}_{share}"
    return "count" if isinstance(aggregate, Count) else f"{_WORDS[type(aggregate)]}_{aggregate.attribute}"


_WORDS: dict[type[Aggregate], str] = {
    Distinct: "distinct",
    Sum: "sum",
    Average: "avg",
    Variance: "var",
    Deviation: "stddev",
    Moment: "moment",
    Ranks: "quantiles",
}
