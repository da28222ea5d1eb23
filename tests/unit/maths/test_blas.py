"""Small matrices are multiplied on one thread, and whatever was set before is set again."""

from __future__ import annotations

import pytest

from siloquent.maths.blas import limit_to_one_thread


def threads() -> list[int]:
    from threadpoolctl import threadpool_info

    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_inside_every_blas_has_one_thread_and_outside_what_it_had() -> None:
    import scipy.linalg  # noqa: F401

    before = threads()
    with limit_to_one_thread():
        inside = threads()
    assert inside == [1] * len(before)
    assert threads() == before


def test_an_error_inside_gives_the_threads_back() -> None:
    before = threads()
    with pytest.raises(ZeroDivisionError), limit_to_one_thread():
        raise ZeroDivisionError
    assert threads() == before
