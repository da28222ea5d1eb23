"""Argument checks of all noise functions and of their parameters, made before any bit is drawn.

Failures are bugs in the calling code, not errors of the analyst: fractions and int64 arrays are made by our own plan
and measure stages.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError

LIMIT_VALUE = 2**60
_BUG = "report this as a bug: noise got a parameter that no plan may produce"


def require_fraction(
    name: str,
    value: object,
    *,
    above: int | Fraction | None = None,
    least: int | Fraction | None = None,
    most: int | Fraction | None = None,
) -> Fraction:
    """Return ``value`` as an exact fraction, ``above`` < value, ``least`` <= value <= ``most``.

    Raises:
        RequestError: A float (its decimal text is not its value), a boolean, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise RequestError(f"The {name} must be a Fraction or an int, not {type(value).__name__}.", fix=_BUG)
    if above is not None and not value > above:
        raise RequestError(f"The {name} must be above {above}, not {value}.", fix=_BUG)
    if least is not None and value < least:
        raise RequestError(f"The {name} must be at least {least}, not {value}.", fix=_BUG)
    if most is not None and value > most:
        raise RequestError(f"The {name} must be at most {most}, not {value}.", fix=_BUG)
    return Fraction(value)


def require_whole(name: str, value: object, *, least: int, most: int) -> int:
    """Return ``value`` as an int in [least, most].

    Raises:
        RequestError: Not an int, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(f"The {name} must be an int, not {type(value).__name__}.", fix=_BUG)
    if not least <= value <= most:
        raise RequestError(f"The {name} must lie in [{least}, {most}], not at {value}.", fix=_BUG)
    return value


def require_int64(name: str, values: object) -> NDArray[np.int64]:
    """Return ``values`` if it is an int64 array of any shape with every entry within +-2^60.

    Raises:
        RequestError: Another type, or an entry out of range. The message shows no entry, since entries are private.
    """
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        found = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        raise RequestError(f"The {name} must be an array of int64, not {found}.", fix=_BUG)
    if values.size and (values.min() < -LIMIT_VALUE or values.max() > LIMIT_VALUE):
        raise RequestError(f"The {name} must lie within +-2^60, where noise cannot overflow.", fix=_BUG)
    return values


def build_refusal(detail: str) -> RequestError:
    """Build the error for a violated rule between several parameters."""
    return RequestError(detail, fix=_BUG)
