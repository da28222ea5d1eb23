"""A forked child draws its own noise: no word read before the fork comes again."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.privacy import noise

ZEROS = np.zeros(20, dtype=np.int64)
MANY = np.zeros(500, dtype=np.int64)
#: Every entry has more than 2^20 likely values, so equal vectors would have a chance far below 1e-9.
WIDE = Fraction(2**30)
WAYS = {
    "words": lambda: noise.draw_words(4),
    "laplace, OpenDP": lambda: noise.add_laplace(ZEROS, scale=WIDE),
    "laplace, plain": lambda: noise.add_laplace(ZEROS, scale=WIDE + Fraction(1, 3)),
    "laplace, compiled": lambda: noise.add_laplace(MANY, scale=WIDE + Fraction(1, 3)),
    "gaussian, OpenDP": lambda: noise.add_gaussian(ZEROS, variance=Fraction(2**48)),
    "gaussian, plain": lambda: noise.add_gaussian(ZEROS, variance=Fraction(2**48 + 1)),
    "gaussian, compiled": lambda: noise.add_gaussian(MANY, variance=Fraction(2**48 + 1)),
    "geometric": lambda: noise.add_geometric(ZEROS, scale=WIDE),
    "chain": lambda: noise.draw_noise_chain(20, scales=(WIDE, WIDE / 2)),
    "selection": lambda: noise.select_exponential_top_k(MANY, rate=Fraction(1), k=40),
    "reports": lambda: noise.randomise_values(MANY, size=2**20, p=Fraction(1, 2**20)),
}


def in_a_child(draw: Callable[[], Any]) -> bytes:
    """What ``draw`` gives in a forked child, as bytes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, np.ascontiguousarray(draw()).tobytes()[:32_000])  # less than a pipe holds
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking beside threads; the child only draws and exits
@pytest.mark.parametrize("draw", WAYS.values(), ids=WAYS)
def test_parent_and_two_children_draw_three_different_vectors(draw: Callable[[], Any]) -> None:
    draw()  # whatever is loaded or cached, is loaded before the fork
    first, second = in_a_child(draw), in_a_child(draw)
    mine = np.ascontiguousarray(draw()).tobytes()[:32_000]
    assert len(first) == len(second) == len(mine) > 0
    assert len({first, second, mine}) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_generator_that_outlives_a_call_would_be_caught() -> None:
    shared = np.random.default_rng()

    def draw() -> Any:
        return shared.integers(0, 2**30, 20)

    assert in_a_child(draw) == in_a_child(draw)
