"""What a person approves names everything that a role is told."""

from __future__ import annotations

import pytest

from siloquent.profile.spec.leakage import describe_leakage, format_leakage


@pytest.mark.parametrize("protocol", ["padded", "fast", "smfd"])
def test_every_protocol_names_votes_sizes_and_the_relay(protocol: str) -> None:
    told = dict(describe_leakage(protocol, parties=3, workers=2, votes=7))
    assert "one bit for each of the 7 candidates" in told["last worker"]
    assert "dependencies of every party" in told["moderator"]
    assert "size class" in told["party"]
    assert told["relay"]


@pytest.mark.parametrize("protocol", ["padded", "smfd"])
def test_exact_numbers_of_rows_are_called_that(protocol: str) -> None:
    text = format_leakage(protocol, ("a", "b"), parties=3, workers=2, size_class=False)
    assert "exact number" in text
    assert "size class" not in text
