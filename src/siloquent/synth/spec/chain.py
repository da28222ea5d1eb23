"""The settings of engine ``chain``: self-validating."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.foreign.spec_types import check_types
from siloquent.privacy import parse_exact
from siloquent.privacy.budget import Exact

Sampler = Literal["direct", "accept-reject"]


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """Settings of the chain of conditional models.

    Args:
        batch: The mean number of rows of a sample; None: 7 % of the table, at most 2,048.
        steps: Steps of each model.
        clip: The largest norm of one row's gradient: a power of two.
        rate: The initial step size; it falls to 0 like a cosine.
        width: The length of an embedding.
        sampler: "direct", or "accept-reject" (soft constraints only; the same distribution).
        resample: The number of cells of each column to redraw, as a multiple of the number of rows.
        reuse: Whether each model starts from the embeddings of the one before.
        counts: The share of the price for fine counts and FD tables; the steps take the rest.
        hyper: Neighbours in the order of columns are learned as one while the product of their sizes is at most this;
            1: never.
        fast_fd: Whether functional dependencies get a noisy table; otherwise their right sides have models, too, and
            the first value drawn for a left side holds for all rows that share it.
        search: Whether steps, noise and batch are searched on the thesis's grid (algorithm 12), from ``batch`` and
            ``steps`` down; otherwise only the noise is fitted to the price.
    """

    batch: int | None = None
    steps: int = 300
    clip: int = 8
    rate: float = 0.02
    width: int = 64
    sampler: Sampler = "direct"
    resample: float = 0.0
    reuse: bool = True
    counts: Exact = "0.1"
    hyper: int = 1
    fast_fd: bool = True
    search: bool = False

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if self.batch is not None and self.batch < 1:
            raise RequestError(f"batch must be at least 1 row, not {self.batch}.")
        if not 1 <= self.steps <= 10**6:
            raise RequestError(f"steps must be between 1 and 1,000,000, not {self.steps}.")
        if self.clip < 1 or self.clip & (self.clip - 1) or self.clip > 2**10:
            raise RequestError(
                f"clip must be a power of two from 1 to 1,024, not {self.clip}.", fix=UseOption("clip", 8)
            )
        # A file gives decimals; the training uses doubles.
        for name in ("rate", "resample"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0 < self.rate <= 1 or not 1 <= self.width <= 1_024:
            raise RequestError("rate must be in (0, 1], and width between 1 and 1,024.")
        if self.sampler not in ("direct", "accept-reject"):
            raise RequestError(f"sampler must be 'direct' or 'accept-reject', not {self.sampler!r}.")
        if not 0 < parse_exact(self.counts) < 1:
            raise RequestError(
                f"counts must be a share between 0 and 1, not {self.counts!r}.", fix=UseOption("counts", "0.1")
            )
        if not 0 <= self.resample <= 10:
            raise RequestError(f"resample must be between 0 and 10 times the rows, not {self.resample}.")
        if not 1 <= self.hyper <= MAX_HYPER:
            raise RequestError(
                f"hyper must be between 1 and {MAX_HYPER:,} cells, not {self.hyper}.", fix=UseOption("hyper", 128)
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__} | {"counts": str(parse_exact(self.counts))}


MAX_HYPER = 1_024
OURS = ChainSpec()
PAPER = ChainSpec(batch=23, steps=1_600, clip=1, rate=1e-3)
"""The settings of the thesis's code."""
SEARCHED = ChainSpec(batch=32, steps=10**6, clip=1, rate=1e-4, search=True)
"""The thesis's algorithm 12, which begins with five passes over the table in batches of 16."""
PRESETS: Mapping[str, ChainSpec] = {"default": OURS, "paper": PAPER, "search": SEARCHED}


def parse_chain_spec(plain: Mapping[str, Any]) -> ChainSpec:
    """Parse the settings of a file: those of its ``preset``, with its own values in their stead.

    Raises:
        RequestError: An unknown preset or setting, or a value that is out of range.
    """
    preset = str(plain.get("preset", "default"))
    if preset not in PRESETS:
        raise RequestError(f"Preset {preset!r} does not exist.", fix=f"preset = one of {', '.join(PRESETS)}")
    known = [each.name for each in fields(ChainSpec)]
    for name in plain:
        if name != "preset" and name not in known:
            raise RequestError(f"chain has no {str(name)[:40]!r}.", fix=f"use one of preset, {', '.join(known)}")
    return replace(PRESETS[preset], **{name: value for name, value in plain.items() if name != "preset"})
