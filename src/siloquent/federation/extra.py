"""A check, before any work starts, that the optional packages of a federation are installed."""

from __future__ import annotations

from importlib.util import find_spec

from siloquent.errors import MissingExtra

PACKAGES = ("nacl", "cryptography", "httpx", "starlette", "uvicorn", "rbcl")


def require_extra(purpose: str = "A federation") -> None:
    """Check that the extra ``federation`` is installed.

    Raises:
        MissingExtra: one of its packages is not installed.
    """
    if any(find_spec(package) is None for package in PACKAGES):
        raise MissingExtra("federation", purpose)
