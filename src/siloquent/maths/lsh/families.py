"""Hash families by their kernels: k(x, q) is the probability that one row's hash gives x and q the same code.

The formulas hold for real numbers. ``hashes`` rounds projections to whole numbers, at most 2^-30 of a code's width off
if the domain is small enough; the kernel that a sketch estimates is that of the whole-number family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Union

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import KernelInvalid
from siloquent.fixes import UseOption, build_fix

Floats = NDArray[np.float64]
MAX_BITS = 62


_PRODUCT = {
    "kind": "product",
    "kernels": [{"kind": "laplacian", "bandwidth": 1.0}, {"kind": "angular", "bits": 4}],
}


def _use_surrogate(bits: int) -> UseOption:
    return UseOption("kernel", {"kind": "surrogate", "bits": bits}, f"Surrogate(bits={bits})")


def _require_positive(name: str, value: float) -> None:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise KernelInvalid(
            f"{name} must be a finite number above 0, not {str(value)[:40]!r}.", fix=UseOption(name, 1.0)
        )


def _require_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_BITS:
        raise KernelInvalid(
            f"{name} must be a whole number from 1 to {MAX_BITS}, not {str(value)[:40]!r}.", fix=UseOption(name, 4)
        )


@dataclass(frozen=True, slots=True)
class PStable:
    """floor((a.x + b) / bandwidth): ``order`` 2 has normal projections a and Euclidean distance, 1 Cauchy and L1.

    Source: "Locality-Sensitive Hashing Scheme Based on p-Stable Distributions" (SoCG 2004), section 3.
    """

    order: Literal[1, 2]
    bandwidth: float

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise KernelInvalid(
                f"order must be 1 (L1 distance) or 2 (Euclidean), not {str(self.order)[:40]!r}.",
                fix=UseOption("order", 2),
            )
        _require_positive("bandwidth", self.bandwidth)

    def probability(self, distance: Floats) -> Floats:
        """Return the kernel at distances of any shape; 1 at distance 0."""
        from scipy.special import ndtr

        ratio = np.minimum(self.bandwidth / np.maximum(np.asarray(distance, dtype=np.float64), 1e-150), 1e150)
        if self.order == 2:
            near = -np.expm1(-(ratio**2) / 2)
            return np.asarray(1 - 2 * ndtr(-ratio) - 2 / (math.sqrt(2 * math.pi) * ratio) * near)
        return np.asarray(2 / math.pi * np.arctan(ratio) - np.log1p(ratio**2) / (math.pi * ratio))


@dataclass(frozen=True, slots=True)
class Laplacian:
    """Random binning of every attribute, pitch ~ Gamma(2, sigma): exp(-L1 distance / sigma), exactly.

    Source: "Random Features for Large-Scale Kernel Machines" (NIPS 2007), algorithm 2; the codes are kept unchanged.
    """

    sigma: float

    def __post_init__(self) -> None:
        _require_positive("sigma", self.sigma)

    def probability(self, distance: Floats) -> Floats:
        """Return the kernel at L1 distances of any shape."""
        return np.exp(-np.asarray(distance, dtype=np.float64) / self.sigma)


@dataclass(frozen=True, slots=True)
class Angular:
    """``bits`` signs of random projections: (1 - angle / pi)^bits. Angles are at the origin of the attributes.

    Source: "Similarity Estimation Techniques from Rounding Algorithms" (STOC 2002), section 3.
    """

    bits: int

    def __post_init__(self) -> None:
        _require_count("bits", self.bits)

    def probability(self, angle: Floats) -> Floats:
        """Return the kernel at angles in radians."""
        return np.asarray((1 - np.asarray(angle, dtype=np.float64) / math.pi) ** self.bits)


@dataclass(frozen=True, slots=True)
class Hamming:
    """``bits`` sampled attributes, with replacement: (1 - share of attributes that differ)^bits."""

    bits: int

    def __post_init__(self) -> None:
        _require_count("bits", self.bits)

    def probability(self, share: Floats) -> Floats:
        """Return the kernel at shares of attributes that differ."""
        return np.asarray((1 - np.asarray(share, dtype=np.float64)) ** self.bits)


@dataclass(frozen=True, slots=True)
class Surrogate:
    """``bits`` signs of projections of an asymmetric pair: (1 - acos(z.t) / pi)^bits for record z and model t.

    Summed for t and -t it is a loss of linear regression, least where z.t is near 0; constant for one bit.

    Source: "A One-Pass Distributed and Private Sketch for Kernel Sums" (CCS 2021), section 4.
    """

    bits: int

    def __post_init__(self) -> None:
        _require_count("bits", self.bits)
        if not 2 <= self.bits <= 16:
            raise KernelInvalid(
                f"A surrogate loss takes 2 to 16 bits, not {self.bits}: with one it is constant.",
                fix=_use_surrogate(4),
            )

    def probability(self, angle: Floats) -> Floats:
        """Return the kernel at angles acos(z.t) in radians."""
        return np.asarray((1 - np.asarray(angle, dtype=np.float64) / math.pi) ** self.bits)


@dataclass(frozen=True, slots=True)
class Jaccard:
    """The least hash of a set's elements: the size of the intersection of two sets over that of their union.

    Source: "On the Resemblance and Containment of Documents" (SEQUENCES 1997).
    """

    def probability(self, similarity: Floats) -> Floats:
        """Return the similarity itself."""
        return np.asarray(similarity, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Power:
    """``times`` codes of ``kernel`` at once: the kernel to that power."""

    kernel: Kernel
    times: int

    def __post_init__(self) -> None:
        _require_kernel(self.kernel)
        _require_count("times", self.times)
        if isinstance(self.kernel, Surrogate):
            raise KernelInvalid(
                "A power of a surrogate loss is a surrogate loss of more bits.",
                fix=_use_surrogate(min(self.kernel.bits * self.times, 16)),
            )


@dataclass(frozen=True, slots=True)
class Product:
    """A code of each kernel at once: the product of their kernels."""

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernels, tuple) or len(self.kernels) < 2:
            raise KernelInvalid(
                "A product has at least two kernels.",
                fix=UseOption("kernel", _PRODUCT, "Product((Laplacian(1.0), Angular(4)))"),
            )
        for kernel in self.kernels:
            _require_kernel(kernel)
        if any(isinstance(kernel, Surrogate) for kernel in self.kernels):
            raise KernelInvalid(
                "A surrogate loss cannot be a factor of a product.", fix=build_fix(_use_surrogate(4), " alone")
            )
        if any(is_of_sets(kernel) for kernel in self.kernels):
            raise KernelInvalid(
                "Jaccard is a kernel of sets, which no product with kernels of numbers has.",
                fix=UseOption(
                    "kernel", {"kind": "power", "kernel": {"kind": "jaccard"}, "times": 4}, "Power(Jaccard(), 4)"
                ),
            )


Kernel = Union[PStable, Laplacian, Angular, Hamming, Surrogate, Jaccard, Power, Product]  # noqa: UP007 - they refer to each other

KINDS: dict[str, type[Any]] = {
    "p-stable": PStable,
    "laplacian": Laplacian,
    "angular": Angular,
    "hamming": Hamming,
    "surrogate": Surrogate,
    "jaccard": Jaccard,
}


def _require_kernel(kernel: object) -> None:
    if not isinstance(kernel, (*KINDS.values(), Power, Product)):
        raise KernelInvalid(
            f"{type(kernel).__name__} is not a kernel.",
            fix=UseOption("kernel", {"kind": "laplacian", "bandwidth": 1.0}, "Laplacian(1.0)"),
        )


def is_of_sets(kernel: Kernel) -> bool:
    """Return whether the kernel compares sets of elements, not numbers."""
    return isinstance(kernel, Jaccard) or (isinstance(kernel, Power) and is_of_sets(kernel.kernel))


def compute_similarity(kernel: Kernel, points: Floats, queries: Floats) -> Floats:
    """Return k(x, q) for all pairs of rows of numbers, shape (points, queries)."""
    if isinstance(kernel, Power):
        return np.asarray(compute_similarity(kernel.kernel, points, queries) ** kernel.times)
    if isinstance(kernel, Product):
        return np.asarray(np.prod([compute_similarity(part, points, queries) for part in kernel.kernels], axis=0))
    if isinstance(kernel, Jaccard):
        raise KernelInvalid(
            "Jaccard compares sets, not rows of numbers.",
            fix=UseOption("kernel", {"kind": "laplacian", "bandwidth": 1.0}, "Laplacian(1.0)"),
        )
    return kernel.probability(_compute_distance(kernel, points, queries))


def _compute_distance(
    kernel: PStable | Laplacian | Angular | Hamming | Surrogate, points: Floats, queries: Floats
) -> Floats:
    if isinstance(kernel, Surrogate):
        return np.asarray(np.arccos(np.clip(points @ queries.T, -1, 1)))
    if isinstance(kernel, Angular):
        lengths = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(queries, axis=1)[None]
        return np.asarray(np.arccos(np.clip(points @ queries.T / np.maximum(lengths, 1e-300), -1, 1)))
    if isinstance(kernel, PStable) and kernel.order == 2:
        squares = (points**2).sum(axis=1)[:, None] + (queries**2).sum(axis=1)[None] - 2 * points @ queries.T
        return np.asarray(np.sqrt(np.maximum(squares, 0)))
    apart = points[:, None] - queries[None]
    return np.asarray((apart != 0).mean(axis=2) if isinstance(kernel, Hamming) else np.abs(apart).sum(axis=2))


def dump_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return the kernel as JSON values."""
    if isinstance(kernel, Power):
        return {"kind": "power", "kernel": dump_kernel(kernel.kernel), "times": kernel.times}
    if isinstance(kernel, Product):
        return {"kind": "product", "kernels": [dump_kernel(part) for part in kernel.kernels]}
    kind = next(name for name, made in KINDS.items() if isinstance(kernel, made))
    return {"kind": kind, **{name: getattr(kernel, name) for name in kernel.__dataclass_fields__}}


def parse_kernel(plain: dict[str, Any]) -> Kernel:
    """Parse the output of ``dump_kernel``.

    Raises:
        ValueError, KeyError, TypeError: It is not a kernel.
    """
    fields = {name: value for name, value in plain.items() if name != "kind"}
    if plain["kind"] == "power":
        return Power(parse_kernel(fields.pop("kernel")), **fields)
    if plain["kind"] == "product":
        return Product(tuple(parse_kernel(part) for part in fields["kernels"]))
    made: Kernel = KINDS[plain["kind"]](**fields)
    return made
