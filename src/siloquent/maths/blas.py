"""Matrix products on one thread: on small matrices the threads of BLAS spend more time waiting than computing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any


def limit_to_one_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS computes on the calling thread only.

    Tuning a strategy is thousands of products of matrices with 100 to 1,000 columns: on two idle cores one thread is
    1.1 to 10 times as fast as two, and on a busy machine the gap grows.
    """
    return _get_controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _get_controller() -> Any:
    # Finding the loaded libraries costs milliseconds, so it is done once, after numpy's and scipy's copies are loaded.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
