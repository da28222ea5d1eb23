"""What is kept is found again; what does not fit goes, the longest unused first."""

from __future__ import annotations

import threading

from siloquent.explore.plan.cache import ByteLRU


def test_a_value_is_made_once_and_found_again() -> None:
    kept, made = ByteLRU[str](100, len), []
    for _ in range(3):
        assert kept.get("a", lambda: made.append(1) or "value") == "value"  # type: ignore[func-returns-value]
    assert made == [1]


def test_the_longest_unused_goes_first() -> None:
    kept = ByteLRU[str](10, len)
    kept.get("a", lambda: "xxxx")
    kept.get("b", lambda: "xxxx")
    kept.get("a", lambda: "never")
    kept.get("c", lambda: "xxxx")
    assert kept.get("a", lambda: "again") == "xxxx"
    assert kept.get("b", lambda: "again") == "again"


def test_a_value_larger_than_the_limit_is_given_but_not_kept() -> None:
    kept = ByteLRU[str](3, len)
    assert kept.get("a", lambda: "xxxx") == "xxxx"
    assert kept.get("a", lambda: "y") == "y"


def test_many_threads_see_the_same_value_and_the_sizes_add_up() -> None:
    kept, seen = ByteLRU[str](50, len), []
    threads = [threading.Thread(target=lambda i=i: seen.append(kept.get(i % 3, lambda: "x" * 10))) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["x" * 10] * 60
    assert [kept.get(i, lambda: "other") for i in range(3)] == ["x" * 10] * 3
