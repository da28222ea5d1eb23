"""From measurements to answers: free post-processing of what was released."""

from siloquent.explore.estimate.assemble import assemble
from siloquent.explore.estimate.completed import completed, nothing_new, reads_rows
from siloquent.explore.estimate.progress import Progress
from siloquent.explore.estimate.reconstruct import Estimate, reconstruct
from siloquent.explore.estimate.rehearsal import rehearse

__all__ = [
    "Estimate",
    "Progress",
    "assemble",
    "completed",
    "nothing_new",
    "reads_rows",
    "reconstruct",
    "rehearse",
]
