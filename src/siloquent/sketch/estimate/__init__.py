"""Answers from a sketch: free post-processing of the release; no rows, no ledger."""

from siloquent.sketch.estimate.anomaly import find_anomalies
from siloquent.sketch.estimate.classify import classify
from siloquent.sketch.estimate.density import estimate_density, estimate_difference
from siloquent.sketch.estimate.modes import find_modes
from siloquent.sketch.estimate.regress import regress
from siloquent.sketch.estimate.sample import sample

__all__ = ["classify", "estimate_density", "estimate_difference", "find_anomalies", "find_modes", "regress", "sample"]
