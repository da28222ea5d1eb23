"""A role's seeds in its state folder: drawn once, replaced after each pass, all of them at once."""

from __future__ import annotations

import secrets  # allowed: keys of a protocol, no noise
from collections.abc import Iterable

from siloquent.federation.channel import State
from siloquent.federation.crypto.seeds import SEED, following

_PASSES = "passes"


def kept_seed(state: State, name: str) -> bytes:
    """The seed kept under ``name``; drawn when it is first asked for."""
    seed = state.get(name)
    if seed is None:
        seed = secrets.token_bytes(SEED)  # allowed: the key of a protocol, no noise
        state.put(name, seed)
    return seed


def passes_done(state: State) -> int:
    """How many passes' seeds were replaced."""
    return int(state.get(_PASSES) or b"0")


def moved_on(state: State, number: int, names: Iterable[str]) -> None:
    """Replace the seeds ``names`` after pass ``number``, once, however often a restarted role comes by here.

    New seeds are written beside the old ones, then the count of passes says that they hold: a crash in between leaves
    all old or all new.
    """
    names = tuple(names)
    if passes_done(state) <= number:
        for name in names:
            state.put(_waiting(name, number + 1), following(kept_seed(state, name), number))
        state.put(_PASSES, b"%d" % (number + 1))
    if passes_done(state) == number + 1:
        for name in names:
            new = state.get(_waiting(name, number + 1))
            if new is not None:
                state.put(name, new)
                state.erase(_waiting(name, number + 1))


def _waiting(name: str, number: int) -> str:
    return f"{name}.{number}"
