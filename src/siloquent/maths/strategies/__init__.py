"""Strategies: measurements in place of the workload, from which its answers follow with less noise."""

from siloquent.maths.strategies.base import Norm, Strategy, WholeStrategy, quantise, reconstruct
from siloquent.maths.strategies.selection import (
    CalibratedStrategy,
    choose_gaussian_strategy,
    choose_laplace_strategy,
    list_proposals,
)

__all__ = [
    "CalibratedStrategy",
    "Norm",
    "Strategy",
    "WholeStrategy",
    "choose_gaussian_strategy",
    "choose_laplace_strategy",
    "list_proposals",
    "quantise",
    "reconstruct",
]
