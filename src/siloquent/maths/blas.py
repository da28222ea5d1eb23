"""Matrix products on one thread: on small matrices the threads of BLAS spend more time waiting than computing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@contextmanager
def limit_to_one_thread() -> Iterator[None]:
    """Let BLAS compute on the calling thread only, until the last of all that asked for it is done.

    Tuning a strategy is thousands of products of matrices with 100 to 1,000 columns: on two idle cores one thread is
    1.1 to 10 times as fast as two, and on a busy machine the gap grows.
    """
    global _inside, _limit
    with _lock:
        if not _inside:
            _limit = _get_controller().limit(limits=1, user_api="blas")
        _inside += 1  # last: if the libraries cannot be loaded, nobody is inside
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                # Restored once: two that overlap would each restore what the other had set, and leave one thread.
                _limit.restore_original_limits()
                _limit = None


def _forget_others() -> None:
    """In a forked child: the threads that were inside are the parent's."""
    global _lock, _inside, _limit
    _lock, _inside, _limit = threading.Lock(), 0, None


os.register_at_fork(after_in_child=_forget_others)


@lru_cache(maxsize=1)
def _get_controller() -> Any:
    # Finding the loaded libraries costs milliseconds, so it is done once, after numpy's and scipy's copies are loaded.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
