"""The implementations for tests: each is in the reference, and is the one that the product has."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import siloquent.collect
import siloquent.ledger
import siloquent.profile

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/testing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["ledger", "federation", "profile", "collect"])
def test_every_name_is_in_the_reference(name: str) -> None:
    module = import_module(f"siloquent.testing.{name}")
    assert f"`{module.__name__}`" in PAGE
    assert [public for public in module.__all__ if f"`{public}`" not in PAGE or not hasattr(module, public)] == []


def test_documented_names_stay_where_they_were() -> None:
    from siloquent.testing import collect, ledger, profile

    assert siloquent.ledger.MemoryLedger is ledger.MemoryLedger
    assert siloquent.profile.simulate is profile.simulate
    assert all(getattr(siloquent.collect, name) is getattr(collect, name) for name in collect.__all__)
