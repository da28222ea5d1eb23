"""From measurements to answers: free post-processing of what was released."""

from siloquent.explore.estimate.reconstruct import Estimate, reconstruct

__all__ = ["Estimate", "reconstruct"]
