"""The similarities and the cleaners of the entity-resolution benchmark do what their names say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.datasets.entities import ATTRIBUTES, Pairs, edit_similarity, jaro_similarity, local_similarity
from benchmarks.trials.cleaners import Cleaner, Market, Offer, Purse, Strategy


def test_similarities_have_their_published_values() -> None:
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert jaro_similarity("martha", "marhta") == pytest.approx(0.9444, abs=1e-4)
    assert jaro_similarity("dixon", "dicksonx") == pytest.approx(0.7667, abs=1e-4)
    assert jaro_similarity("abc", "xyz") == 0
    assert local_similarity("xxabcyy", "abc") == 1
    assert local_similarity("abd", "abc") == pytest.approx(4 / 6)


def pairs(count: int = 400) -> Pairs:
    """Titles tell matches from the rest, other columns are noise."""
    random = np.random.default_rng(3)
    match = random.random(count) < 0.4
    columns = {("title", "", "difference"): match * 1.0, ("authors", "", "difference"): random.random(count)}
    return Pairs(match, columns, {name: np.zeros(count, dtype=bool) for name in ATTRIBUTES})


def market(price: float) -> Market:
    exact = Offer(price, lambda count: np.zeros(count))
    return Market(alpha=1.0, nulls=exact, top={2: exact, 3: exact}, values=exact, above=exact)


@pytest.mark.parametrize("strategy", ["BS1", "BS2", "MS1", "MS2"])
def test_with_exact_answers_some_cleaner_finds_the_rule_and_without_money_none_does(strategy: Strategy) -> None:
    rich = [Cleaner(pairs(), strategy, market(0.0), Purse(1.0), np.random.default_rng(i)).work() for i in range(30)]
    poor = [Cleaner(pairs(), strategy, market(2.0), Purse(1.0), np.random.default_rng(i)).work() for i in range(30)]
    assert max(rich) > 0.95
    assert max(poor) < 0.8
