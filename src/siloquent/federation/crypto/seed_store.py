"""A role's seeds in its state folder: drawn once, all replaced together after each pass."""

from __future__ import annotations

import secrets  # allowed: keys of a protocol, no noise
from collections.abc import Iterable

from siloquent.federation.channel import State
from siloquent.federation.crypto.seeds import SEED, derive_next_seed

_PASSES = "passes"


def load_seed(state: State, name: str) -> bytes:
    """Return the seed stored under ``name``; drawn at the first call."""
    seed = state.get(name)
    if seed is None:
        seed = secrets.token_bytes(SEED)  # allowed: the key of a protocol, no noise
        state.put(name, seed)
    return seed


def count_passes(state: State) -> int:
    """Return the number of passes after which seeds were replaced."""
    return int(state.get(_PASSES) or b"0")


def rotate_seeds(state: State, number: int, names: Iterable[str]) -> None:
    """Replace the seeds ``names`` after pass ``number``; a repeated call after a restart does nothing.

    A crash leaves all old or all new: they change together with the count of passes.
    """
    if count_passes(state) <= number:
        new = {name: derive_next_seed(load_seed(state, name), number) for name in names}
        state.put_all({**new, _PASSES: b"%d" % (number + 1)})
