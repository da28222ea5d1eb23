"""The sum of several silos' releases, and its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError, RequestError
from siloquent.fixes import run
from siloquent.share.spec import Agreement
from siloquent.share.spec.encoding import Encoding, build_encoding
from siloquent.share.spec.layout import Layout
from siloquent.share.spec.release import ShareRelease

Floats = NDArray[np.float64]
ABOVE_HINT = 10
"""The maximal number of synthetic rows, as a multiple of the declared sizes, whatever the noise says."""


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

    def get_part(self, number: int) -> tuple[Floats, Floats]:
        """Return the numbers and deviations of one part of ``layout.list_lengths()``."""
        ends = np.cumsum((0, *self.layout.list_lengths()))
        here = slice(ends[number], ends[number + 1])
        return self.counts[here], self.deviations[here]


def check_together(releases: Sequence[ShareRelease]) -> Agreement:
    """Return the agreement that all of ``releases`` share.

    Raises:
        RequestError: A silo occurs twice, or a release has another agreement; the agent is named.
    """
    first, seen = releases[0], dict[tuple[str, str], ShareRelease]()
    for release in releases:
        difference = first.agreement.describe_difference(release.agreement)
        if difference:
            raise RequestError(
                f"The release of {release.name} was made under another agreement than that of {first.name}: "
                f"they differ in {difference}.",
                fix="release again under one spec file",
            )
        _check_once(seen, release)
    return first.agreement


def _check_once(seen: dict[tuple[str, str], ShareRelease], release: ShareRelease) -> None:
    """Check that a silo occurs once, not by a copy or by two releases of one account: its rows would count twice."""
    part = release.part
    account = part.account.partition("/")[0]  # an analyst's account has the same rows
    other = seen.setdefault((part.ledger, account), release)
    if other is release or not part.ledger or release.agreement.trust == "sum":
        return
    if other.part.seq == part.seq:
        raise RequestError(f"The releases of {other.name} and {release.name} are the same release.",
                           fix="name the release of each silo once")  # fmt: skip
    raise RequestError(
        f"The releases of {other.name} and {release.name} are both of {account!r} in one ledger: its rows would "
        "count twice.",
        fix="name one of them",
    )


def pool_releases(releases: Sequence[ShareRelease]) -> Pool:
    """Add releases, all of one agreement.

    Raises:
        RequestError: As ``check_together``, or they are trees, which cannot be added.
    """
    agreement = check_together(releases)
    if agreement.method == "tree":
        raise RequestError(
            "Trees vote; they cannot be added.", fix=run("share synthesize", "RELEASE", "-o", "ROWS.csv")
        )
    if agreement.trust == "sum" and len(releases) > 1:
        raise RequestError("A secure sum is one release for all of its silos: name one of the copies.")
    encoding = build_encoding(agreement)
    total = np.zeros(len(releases[0].counts))
    variance = np.zeros_like(total)
    for release in releases:
        total += release.counts
        variance += np.repeat(
            [float(noise.variance) for noise in release.noise], [noise.length for noise in release.noise]
        )
    if not np.isfinite(total).all():
        raise ReleaseError("A release contains values that are not numbers.")
    return Pool(
        agreement=agreement,
        encoding=encoding,
        layout=Layout(agreement.method, encoding),
        counts=total,
        deviations=np.sqrt(variance),
        silos=sum(release.silos for release in releases),
        most_rows=compute_max_rows(releases),
    )


def compute_max_rows(releases: Sequence[ShareRelease]) -> int | None:
    """Return the maximal number of rows in the releases; None where a silo declared no size."""
    if not all(release.rows for release in releases):
        return None
    return ABOVE_HINT * sum(release.rows for release in releases)


def clamp_rows(estimate: float, most: int | None) -> int:
    """Clamp an estimated number of rows to 0 at least and ``most`` at most."""
    found = max(0, round(estimate)) if math.isfinite(estimate) else 0
    return found if most is None else min(found, most)
