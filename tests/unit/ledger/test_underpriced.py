"""A chain whose hashes, totals and permits all fit, and in which an event was charged less than it costs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest

from siloquent.ledger import Ledger, MemoryLedger, open_ledger, rules
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event, SampledGaussian
from siloquent.privacy.accountants import Cost

LAPLACE = DiscreteLaplace(Fraction(10), 3)
SAMPLED = SampledGaussian(Fraction(1, 10), Fraction(2), 5, Fraction(1, 2), Fraction(1, 10**9))
EVENTS: list[tuple[str, Event]] = [
    ("pure", LAPLACE),
    ("zcdp", DiscreteGaussian(Fraction(50), 9)),
    ("zcdp", Composed((LAPLACE, SAMPLED))),
]


def opened(kind: str, folder: Path, accountant: str) -> Ledger:
    ledger = MemoryLedger() if kind == "memory" else open_ledger(folder / "ledger.sqlite", create=True)
    limit = Cost(10**13, 10**12)
    ledger.open_account("visits@1", limit=limit, accountant=accountant, unit="row", adjacency="add-remove")  # type: ignore[arg-type]
    return ledger


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(("accountant", "event"), EVENTS, ids=["laplace", "gaussian", "sampled"])
@pytest.mark.parametrize("less", [Cost(1), Cost(0, 1), Cost(0)], ids=["amount", "delta", "nothing"])
def test_an_event_charged_less_than_its_price_is_found(
    tmp_path: Path, kind: str, accountant: str, event: Event, less: Cost
) -> None:
    """Written by a program that charges less: everything follows from its entries but the price."""
    ledger, real = opened(kind, tmp_path, accountant), rules.price_event
    if event is not EVENTS[-1][1] and less.delta:
        pytest.skip("the event has no delta")

    def cheap(line: object, charged: Event) -> Cost:
        full = real(line, charged)  # type: ignore[arg-type]
        return Cost(full.amount - less.amount, full.delta - less.delta)

    ledger.reserve("visits@1", event, key="right", digest="1" * 64)
    with patch.object(rules, "price_event", cheap):
        ledger.reserve("visits@1", event, key="cheap", digest="1" * 64)
    found = ledger.verify()
    if less == Cost(0):
        assert found.ok
    else:
        assert (found.ok, found.first_bad_seq) == (False, 3)
        assert "charged less than its price" in found.problem
    ledger.close()
