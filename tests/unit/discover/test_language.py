"""Discoveries as text."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.discover import DiscoveredKeys
from siloquent.discover.language import is_discovery, parse_discovery
from siloquent.errors import RequestError, SiloquentError, SyntaxProblem
from siloquent.privacy.budget import Budget
from unit.discover.tables import open_clinic, rows

WHOLE = 'DISCOVER "a ""b""" FROM visits AT LEAST 20 UNITS AT MOST 3 KEYS EACH BUDGET 0.2 EPSILON DELTA 1e-7 AS x-y;'
GOOD = "DISCOVER diagnosis FROM visits BUDGET 1 EPSILON"


def test_every_clause_is_read() -> None:
    found = parse_discovery(WHOLE)
    assert (found.column, found.table, found.at_least, found.keys_each) == ('a "b"', "visits", 20, 3)
    assert (found.budget, found.delta, found.name) == (Budget(epsilon="0.2"), "1e-7", "x-y")
    assert not found.bounds
    assert not found.explain


def test_case_and_space_do_not_count() -> None:
    assert parse_discovery("discover  diagnosis\nfrom visits at least 5 units budget 0.01 rho").budget == Budget(
        rho="0.01"
    )
    assert parse_discovery("EXPLAIN PRIVACY DISCOVER BOUNDS OF cost FROM visits BUDGET 1 EPSILON").explain
    assert parse_discovery("DISCOVER bounds FROM visits BUDGET 1 EPSILON").column == "bounds"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DISCOVER", "the name of a column"),
        ("DISCOVER diagnosis visits", "FROM"),
        ("DISCOVER diagnosis FROM visits", "BUDGET"),
        ("DISCOVER diagnosis FROM visits BUDGET epsilon", "a number"),
        ("DISCOVER diagnosis FROM visits AT LEAST 2.5 UNITS BUDGET 1 EPSILON", "a whole number"),
        ("DISCOVER diagnosis FROM visits AT MOST 3 BUDGET 1 EPSILON", "KEYS"),
        (f"{GOOD} WHERE x", "the end"),
        ("DISCOVER 'diagnosis' FROM visits BUDGET 1 EPSILON", "a word or number"),
        ("DISCOVER diagnosis FROM visits BUDGET 1x EPSILON", "a word or number"),
    ],
)
def test_other_texts_are_refused_with_what_was_expected(text: str, expected: str) -> None:
    assert is_discovery(text)
    with pytest.raises(SyntaxProblem) as refused:
        parse_discovery(text)
    assert refused.value.expected == expected
    assert "DISCOVER [BOUNDS OF]" in refused.value.fix


@given(st.text(max_size=60) | st.lists(st.sampled_from(WHOLE.split()), max_size=24).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SiloquentError):
        assert parse_discovery(text).table


def test_a_session_discovers_as_told(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, rows(("a", "flu", 2_000), ("b", "rare", 1)))
    found = session.discover.sql(GOOD, key="k")
    assert isinstance(found, DiscoveredKeys)
    assert found.keys == ("flu",)
    assert session.discover("visits", "diagnosis", epsilon="1", key="k") == found
    with pytest.raises(RequestError, match="has values, not bounds"):
        session.discover.sql("DISCOVER BOUNDS OF diagnosis FROM visits BUDGET 1 EPSILON")
    with pytest.raises(RequestError) as refused:
        session.ask(GOOD)
    assert "session.discover.sql" in refused.value.fix
