"""Names of version 0.1: each works in 0.2 with a ``DeprecationWarning`` that tells the new one; 0.3 drops them."""

from __future__ import annotations

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
        setattr(kind, old, _build_old_method(kind.__name__, old, new))


def _build_old_method(kind: str, old: str, new: str) -> Callable[..., Any]:
    def call_new(self: Any, *given: Any, **named: Any) -> Any:
        warn_of_old_name(f"{kind}.{old}", f"{kind}.{new}")
        return getattr(self, new)(*given, **named)

    call_new.__name__, call_new.__doc__ = old, f"Deprecated: use ``{new}``."
    return call_new


def warn_of_old_name(old: str, new: str) -> None:
    """Warn the caller's caller that ``old`` is called ``new``."""
    warnings.warn(f"{old} is now {new}; the old name goes in 0.3.", DeprecationWarning, stacklevel=3)
