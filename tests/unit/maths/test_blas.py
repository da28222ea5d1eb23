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


def test_the_last_of_two_that_overlap_restores_thethreads() -> None:
    before = threads()
    first, second = limit_to_one_thread(), limit_to_one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before
