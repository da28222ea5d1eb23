"""Numbers in documents from elsewhere: what we write is read, and nine letters do not fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from siloquent.errors import SiloquentError
from siloquent.federation.sums import SumSpec
from siloquent.privacy import DiscreteLaplace, event_from_json, event_to_json, parse_fraction
from siloquent.profile.spec import ProfileColumn, parse_spec
from siloquent.releases.provenance import parse_positive

HUGE = "1e999999999"
READERS: dict[str, Callable[[str], object]] = {
    "an event": lambda text: event_from_json(f'{{"event":"discrete-laplace/1","l1":1,"scale":"{text}"}}'),
    "a sum": lambda text: SumSpec.from_json(
        {"name": "s", "length": 1, "bound": 1, "parties": 3, "min_parties": 3, "noise": "laplace", "scale": text}
    ),
    "a release": parse_positive,
    "a profile": lambda text: parse_spec({"table": "t", "columns": ["a", "b"], "canaries": text}),
    "a column's grid": lambda text: ProfileColumn("a", "real", grid=text),
}


@pytest.mark.parametrize("text", [HUGE, "1E-999999999", "nan", "inf", ""])
@pytest.mark.parametrize("reader", READERS)
def test_a_number_that_would_fill_all_memory_is_refused(reader: str, text: str) -> None:
    with pytest.raises((SiloquentError, ValueError)):
        READERS[reader](text)


def test_what_we_write_is_read_back() -> None:
    for value in (Fraction(3, 2), Fraction(10**60), Fraction(1, 10**60), Fraction(0)):
        assert parse_fraction(str(value)) == value
    event = DiscreteLaplace(scale=Fraction(10**41, 3), l1=1)
    assert event_from_json(event_to_json(event)) == event
    assert parse_fraction(0.5) == Fraction(1, 2)
    with pytest.raises(ValueError, match="not a number"):
        parse_fraction(float("inf"))
