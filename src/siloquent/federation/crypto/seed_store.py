"""A role's seeds in its state folder: drawn once, replaced after each pass, all of them at once."""

from __future__ import annotations

import secrets  # allowed: keys of a protocol, no noise
from collections.abc import Iterable

from siloquent.federation.channel import State
from siloquent.federation.crypto.seeds import SEED, derive_next_seed

_PASSES = "passes"


def load_seed(state: State, name: str) -> bytes:
    """The seed kept under ``name``; drawn when it is first asked for."""
    seed = state.get(name)
    if seed is None:
        seed = secrets.token_bytes(SEED)  # allowed: the key of a protocol, no noise
        state.put(name, seed)
    return seed


def count_passes(state: State) -> int:
    """How many passes' seeds were replaced."""
    return int(state.get(_PASSES) or b"0")


def rotate_seeds(state: State, number: int, names: Iterable[str]) -> None:
    """Replace the seeds ``names`` after pass ``number``, once, however often a restarted role comes by here.

    A crash leaves all old or all new: they change together with the count of passes.
    """
    if count_passes(state) <= number:
        new = {name: derive_next_seed(load_seed(state, name), number) for name in names}
        state.put_all({**new, _PASSES: b"%d" % (number + 1)})
