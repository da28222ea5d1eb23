"""From a sketch to answers: free post-processing of what was released; no rows, no ledger."""

from siloquent.sketch.estimate.anomaly import anomaly
from siloquent.sketch.estimate.classify import classify
from siloquent.sketch.estimate.density import density, difference
from siloquent.sketch.estimate.modes import modes
from siloquent.sketch.estimate.regress import regress
from siloquent.sketch.estimate.sample import sample

__all__ = ["anomaly", "classify", "density", "difference", "modes", "regress", "sample"]
