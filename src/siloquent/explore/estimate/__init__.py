"""Answers from measurements: free post-processing of released values."""

from siloquent.explore.estimate.assemble import assemble
from siloquent.explore.estimate.completion import build_empty_measurement, complete_measurement, reads_rows
from siloquent.explore.estimate.progress import QueryProgress
from siloquent.explore.estimate.reconstruct import EstimatedRows, reconstruct
from siloquent.explore.estimate.rehearsal import rehearse

__all__ = [
    "EstimatedRows",
    "QueryProgress",
    "assemble",
    "build_empty_measurement",
    "complete_measurement",
    "reads_rows",
    "reconstruct",
    "rehearse",
]
