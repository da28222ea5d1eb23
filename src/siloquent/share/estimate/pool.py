"""Releases of several silos added up: what they hold together, and how noisy that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError, RequestError
from siloquent.share.encoding import Encoding, encoding_of
from siloquent.share.layout import Layout
from siloquent.share.release import ShareRelease
from siloquent.share.spec import Agreement

Floats = NDArray[np.float64]
ABOVE_HINT = 10
"""No more synthetic rows than so many times the declared sizes, whatever the noise says."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The sum of releases' vectors: ``counts`` (length,), ``deviations`` (length,) of the noise on each number."""

    agreement: Agreement
    encoding: Encoding
    layout: Layout
    counts: Floats
    deviations: Floats
    silos: int
    most_rows: int | None

    def part(self, number: int) -> tuple[Floats, Floats]:
        """The numbers and deviations of one of ``layout.lengths()``."""
        ends = np.cumsum((0, *self.layout.lengths()))
        here = slice(ends[number], ends[number + 1])
        return self.counts[here], self.deviations[here]


def check_together(releases: Sequence[ShareRelease]) -> Agreement:
    """The agreement that all of ``releases`` keep.

    Raises:
        RequestError: One is there twice, or was made under another agreement; the agent is named.
    """
    first, seen = releases[0], dict[tuple[str, int], str]()
    for release in releases:
        difference = first.agreement.difference(release.agreement)
        if difference:
            raise RequestError(
                f"The release of {release.name} was made under another agreement than that of {first.name}: "
                f"they differ in {difference}.",
                fix="release again under one spec file",
            )
        place = (release.part.ledger, release.part.seq)
        if place in seen and release.part.ledger:
            raise RequestError(
                f"The releases of {seen[place]} and {release.name} are the same one.", fix="name each silo's once"
            )
        seen[place] = release.name
    return first.agreement


def pool(releases: Sequence[ShareRelease]) -> Pool:
    """The sum of releases, all of one agreement.

    Raises:
        RequestError: As ``check_together``, or they are trees, which do not add up.
    """
    agreement = check_together(releases)
    if agreement.method == "tree":
        raise RequestError("Trees vote; they do not add up.", fix="synthesize(releases)")
    if agreement.trust == "sum" and len(releases) > 1:
        raise RequestError("A secure sum is one release for all of its silos: name one of the copies.")
    encoding = encoding_of(agreement)
    total = np.zeros(len(releases[0].counts))
    variance = np.zeros_like(total)
    for release in releases:
        total += release.counts
        variance += np.repeat(
            [float(noise.variance) for noise in release.noise], [noise.length for noise in release.noise]
        )
    if not np.isfinite(total).all():
        raise ReleaseError("A release holds numbers that are none.")
    return Pool(
        agreement=agreement,
        encoding=encoding,
        layout=Layout(agreement.method, encoding),
        counts=total,
        deviations=np.sqrt(variance),
        silos=sum(release.silos for release in releases),
        most_rows=most_rows(releases),
    )


def most_rows(releases: Sequence[ShareRelease]) -> int | None:
    """The most rows that the releases may stand for; None where a silo declared no size."""
    if not all(release.rows for release in releases):
        return None
    return ABOVE_HINT * sum(release.rows for release in releases)


def total_variance(releases: Sequence[ShareRelease]) -> Fraction:
    """The variance of the noise on the first number of the sum."""
    return sum((release.noise[0].variance for release in releases), Fraction(0))


def rows_within(estimate: float, most: int | None) -> int:
    """An estimated number of rows, at least 0 and at most ``most``."""
    found = max(0, round(estimate)) if math.isfinite(estimate) else 0
    return found if most is None else min(found, most)
