"""Signs of clients that do not draw correctly: honesty cannot be proved, but many forged reports show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from siloquent.collect.estimate.linear import CountedReports
from siloquent.collect.spec.collection import WORDS, Collection
from siloquent.maths.local.row_layers import RowReports, count_users

ODD = 1e-6
"""The probability below which a comparison is odd: honest clients cause one in a million epochs."""


@dataclass(frozen=True, slots=True)
class ClientAnomaly:
    """A comparison of a channel's reports with honest clients; ``chance``: of at least this deviation."""

    services: tuple[str, ...]
    what: str
    chance: float

    @property
    def is_odd(self) -> bool:
        """Whether honest clients would hardly ever send such reports."""
        return self.chance < ODD


def find_client_anomalies(collection: Collection, tallies: Sequence[CountedReports]) -> list[ClientAnomaly]:
    """Check for each channel's tally that layers are as frequent as planned, and that no node has too few supporters.

    A user's layer is not the user's choice, so chi-square shows whether clients chose it. A node that nobody holds is
    supported by a share q of reports; far fewer mean reports that were not drawn.
    """
    return [one for tally in tallies for one in (_check_layers(collection, tally), _check_nodes(collection, tally))]


def _check_layers(collection: Collection, tally: CountedReports) -> ClientAnomaly:
    from scipy.stats import chi2

    (number,) = tally.channels
    planned, came = (np.zeros(len(collection.channels[number].layers)) for _ in range(2))
    for one in collection.assignments:
        planned[one.layers[number]] += one.words / WORDS
    for (layers, _), counts in tally.supports.items():
        came[layers[0]] += count_users(counts)
    wanted = planned * came.sum()
    square = float((np.square(came - wanted) / np.maximum(wanted, 1e-9)).sum())
    chance = float(chi2.sf(square, len(planned) - 1)) if len(planned) > 1 and came.sum() else 1.0
    return ClientAnomaly(collection.channels[number].services, "how often each layer comes", chance)


def _check_nodes(collection: Collection, tally: CountedReports) -> ClientAnomaly:
    from scipy.stats import binom

    (number,) = tally.channels
    least, tried = 1.0, 0
    for (layers, _), counts in tally.supports.items():
        oracle = collection.channels[number].layers[layers[0]].oracle
        assert not isinstance(counts, RowReports)  # of one channel
        reports, fewest = int(counts[-1]), int(counts[:-1].min())
        tried += len(counts) - 1
        least = min(least, float(binom.cdf(fewest, reports, oracle.q)))
    return ClientAnomaly(
        collection.channels[number].services, "the least supported node", min(1.0, least * max(tried, 1))
    )
