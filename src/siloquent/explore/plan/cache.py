"""What took long to find and is a function of its key alone: compiled workloads, strategies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteLRU(Generic[T]):
    """Values by key, up to ``limit`` bytes together; those that were not asked for the longest go first.

    Args:
        limit: In bytes.
        size: Roughly how many bytes a value takes.
    """

    def __init__(self, limit: int, size: Callable[[T], int]) -> None:
        self._limit, self._size = limit, size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._total = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of ``key``, made now if it is not kept. Two threads may make the same one at once."""
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
