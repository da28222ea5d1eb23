"""Names of version 0.1: each works in 0.2 with a ``DeprecationWarning`` that tells the new one; 0.3 drops them."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def keep_old_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, some of whose names have changed.

    Args:
        package: Its ``__name__``.
        names: Each old name and the new one, which the package has.
    """

    def find_name(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warn_of_old_name(f"{package}.{name}", f"{package}.{names[name]}")
        return getattr(sys.modules[package], names[name])

    return find_name


def keep_old_methods(kind: type, names: Mapping[str, str]) -> None:
    """Let a class have the old names of its methods, too: they call what the object has under the new name."""
    for old, new in names.items():
        setattr(kind, old, _OldMethod(kind.__name__, old, new))


class _OldMethod:
    """An old name of a method: it calls the new one, and reads as a hint where somebody forgets to call it."""

    def __init__(self, kind: str, old: str, new: str) -> None:
        self.__name__, self.__doc__ = old, f"Deprecated: use ``{new}``."
        self._kind, self._new = kind, new

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else _BoundOldMethod(self._kind, self.__name__, self._new, instance)


class _BoundOldMethod:
    def __init__(self, kind: str, old: str, new: str, instance: Any) -> None:
        self._kind, self._old, self._new, self._instance = kind, old, new, instance
        self.__doc__ = f"Deprecated: use ``{new}``."

    def __repr__(self) -> str:
        method = getattr(self._instance, self._new)
        named = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
        given = ", ".join(one.name.upper() for one in named)
        return f"<{self._kind}.{self._old} is a method, called {self._new} now. Call it: {self._new}({given})>"

    def __call__(self, *given: Any, **named: Any) -> Any:
        warn_of_old_name(f"{self._kind}.{self._old}", f"{self._kind}.{self._new}")
        return getattr(self._instance, self._new)(*given, **named)


def warn_of_old_name(old: str, new: str) -> None:
    """Warn the caller's caller that ``old`` is called ``new``."""
    warnings.warn(f"{old} is now {new}; the old name goes in 0.3.", DeprecationWarning, stacklevel=3)
