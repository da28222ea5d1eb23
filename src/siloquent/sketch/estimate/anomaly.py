"""Anomalies: points of low density, and the certainty of that."""

from __future__ import annotations

import numpy as np

from siloquent.sketch.estimate.density import estimate_density
from siloquent.sketch.estimate.sample import sample
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.spec import Anomaly, Density, Flags, Sample

DRAWS = 2_000


def find_anomalies(sketch: Sketch, question: Anomaly) -> Flags:
    """Flag the points whose density is below the threshold, including the upper end of its interval.

    With ``share`` the threshold is the quantile of the density at points drawn from the sketch: an estimate itself,
    since points hidden by the noise are never drawn.
    """
    found = estimate_density(sketch, Density(question.points, normalise=True, beta=question.beta))
    threshold = question.threshold
    if threshold is None:
        assert question.share is not None
        drawn = sample(sketch, Sample(DRAWS, seed=question.seed)).points
        levels = estimate_density(sketch, Density(drawn, normalise=True)).values
        threshold = float(np.quantile(levels, question.share))
    return Flags(found.high < threshold, found, float(threshold))
