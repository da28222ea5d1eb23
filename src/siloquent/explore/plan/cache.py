"""A size-bounded LRU cache for compiled workloads and strategies, which are expensive functions of their keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteLRU(Generic[T]):
    """A cache of values by key, limited to ``limit`` bytes in total; the least recently used values are evicted first.

    Args:
        limit: The limit in bytes.
        size: Returns a value's approximate size in bytes.
    """

    def __init__(self, limit: int, size: Callable[[T], int]) -> None:
        self._limit, self._size = limit, size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``, computing it if not cached. Two threads may compute the same one at once."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = made
                self._total += self._size(made)
            while self._total > self._limit:
                _, dropped = self._values.popitem(last=False)
                self._total -= self._size(dropped)
        return made
