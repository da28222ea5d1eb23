"""Random words are used in order, each once, and none is kept."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from siloquent.privacy.noise import draw_words
from siloquent.privacy.noise.bits import RandomBits
from unit.privacy.noise.streams import recorded


def test_secure_words_are_64_bits_each_and_never_the_same_twice() -> None:
    words = draw_words(1_000)
    assert words.shape == (1_000,)
    assert words.dtype == np.uint64
    assert len(set(words.tolist())) == 1_000  # two equal ones: chance 3e-14
    assert draw_words(0).shape == (0,)


def test_a_stream_gives_its_words_in_order_and_hands_back_the_rest() -> None:
    bits = RandomBits(recorded("unused"), [1, 2, 3, 4])
    assert [bits.take_word(), bits.take_word()] == [1, 2]
    assert bits.list_unread().tolist() == [3, 4]


def test_a_stream_that_runs_dry_goes_on_with_fresh_words() -> None:
    once = RandomBits(recorded("same"))
    fresh = RandomBits(recorded("same"), [7])
    assert [fresh.take_word() for _ in range(400)] == [7] + [once.take_word() for _ in range(399)]


def test_many_bits_come_from_pairs_of_words_the_high_one_first() -> None:
    assert RandomBits(words=[0xABCD, 0xFFFFFFF7]).take(4) == 7
    assert RandomBits(words=[0xABCD, 0x12345678]).take(64) == 0xABCD_12345678
    assert RandomBits(words=[1, 0, 0, 5]).take(128) == (1 << 96) + 5
    assert RandomBits(words=[9]).take(0) == 0


def test_importing_noise_loads_no_heavy_library() -> None:
    code = (
        "import sys, siloquent.privacy.noise;"
        "print([m for m in ('numba', 'opendp', 'scipy.stats', 'duckdb') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
