"""Strategies for consistent attributes and for values of any type."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from siloquent.schema import OTHER, Attribute

names = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
grids = st.sampled_from(["1", "0.1", "0.5", "3", "0.003", "1000", "1e-9"]).map(Decimal)


@st.composite
def numbers(draw: st.DrawFn) -> Attribute:
    """A real or integer attribute."""
    grid, first, steps = draw(grids), draw(st.integers(-(2**40), 2**40)), draw(st.integers(0, 10_000))
    kind: Any = "real"
    if grid % 1 == 0 and draw(st.booleans()):
        kind = "integer"
    return _with_null(draw, kind, lo=first * grid, hi=(first + steps) * grid, grid=grid)


@st.composite
def moments(draw: st.DrawFn) -> Attribute:
    """A date or datetime attribute."""
    kind: Any = draw(st.sampled_from(["date", "datetime"]))
    seconds = 86_400 if kind == "date" else draw(st.sampled_from([1, 60, 3_600, 86_400]))
    lo = datetime(1, 1, 1) + timedelta(days=draw(st.integers(0, 3_000_000)))
    hi = lo + timedelta(seconds=seconds * draw(st.integers(0, 500)))
    return _with_null(draw, kind, lo=lo, hi=hi, grid=Decimal(seconds))


@st.composite
def categories(draw: st.DrawFn) -> Attribute:
    """A category or boolean attribute."""
    if draw(st.booleans()):
        return _with_null(draw, "boolean")
    texts = st.text(max_size=5).filter(lambda text: "\0" not in text and text != OTHER)
    values = tuple(draw(st.lists(texts, min_size=1, max_size=6, unique=True)))
    return _with_null(draw, "category", values=values, other=draw(st.sampled_from(["drop", "cell"])))


def _with_null(draw: st.DrawFn, kind: Any, **fields: Any) -> Attribute:
    if "lo" in fields:
        fields["outside"] = draw(st.sampled_from(["clamp", "drop"]))
    null: Any = draw(st.sampled_from(["drop", "cell", "value"]))
    own = fields["lo"] if "lo" in fields else fields["values"][0] if "values" in fields else True
    return Attribute(draw(names), kind, null=null, null_value=own if null == "value" else None, **fields)


attributes = numbers() | moments() | categories()
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.timedeltas(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
    st.floats(width=32).map(np.float32),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(-(2**63), 2**63 - 1).flatmap(
        lambda n: st.sampled_from(["Y", "D", "s", "us", "ns"]).map(lambda unit: np.datetime64(n, unit))
    ),
    st.lists(st.floats(), max_size=3).map(np.array),
    st.builds(object),
    st.sampled_from([int, len, NotImplemented, ..., Exception("x")]),
)
