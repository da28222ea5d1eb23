"""OpenDP's integer noise for short vectors; of OpenDP only one Laplace and one Gaussian constructor are used.

OpenDP takes a float scale and draws exactly for the rational value of this float. It is therefore used only if the
float *is* the scale that the event names; docs/decisions/noise-samplers.md says when that is and why no other
constructor is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: Up to this size OpenDP's 6 microseconds per value are cheap; beyond, our own samplers are 40 times as fast.
SMALL = 10_000

Kind = Literal["laplace", "gaussian"]


def find_float_scale(kind: Kind, parameter: Fraction) -> float | None:
    """Return the float that is exactly the scale (Laplace) or the root of the variance (Gaussian), or None."""
    scale = parameter if kind == "laplace" else _find_square_root(parameter)
    if scale is None:
        return None
    nearest = float(scale)
    return nearest if Fraction(nearest) == scale else None


def _find_square_root(value: Fraction) -> Fraction | None:
    """Return the square root, if it is a fraction."""
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    return Fraction(top, bottom) if (top * top, bottom * bottom) == value.as_integer_ratio() else None


def build_measurement(kind: Kind, scale: float) -> Callable[[NDArray[np.int64]], list[int]]:
    """Build OpenDP's measurement on int64 vectors; it takes random bits from the operating system at each draw."""
    made: Callable[[NDArray[np.int64]], list[int]] = _build_cached(kind, scale)
    return made


@lru_cache(maxsize=1)
def load() -> tuple[Any, Any]:
    """Load OpenDP's constructors of Laplace and Gaussian noise, once.

    Raises:
        ImportError, OSError: The installation is broken.
    """
    # Imported by submodule: opendp.prelude takes ten times as long.
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_laplace, make_gaussian


@lru_cache(maxsize=256)  # building one takes longer than drawing sixteen values
def _build_cached(kind: Kind, scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.metrics import l1_distance, l2_distance

    make_laplace, make_gaussian = load()
    domain = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        return make_laplace(domain, l1_distance(T="i64"), scale=scale)
    return make_gaussian(domain, l2_distance(T="f64"), scale=scale)


def add_opendp_noise(values: NDArray[np.int64], kind: Kind, scale: float) -> NDArray[np.int64]:
    """Return ``values`` (any shape, not empty) plus OpenDP's noise."""
    noisy = build_measurement(kind, scale)(values.flatten())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)
