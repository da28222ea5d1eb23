"""Strategies: what to measure instead of the workload, so that its answers come out with less noise."""

from siloquent.maths.strategies.base import Norm, Strategy, WholeStrategy, quantise, reconstruct
from siloquent.maths.strategies.offers import (
    Calibrated,
    gaussian_strategy,
    laplace_strategy,
    product_strategy,
    proposals,
)

__all__ = [
    "Calibrated",
    "Norm",
    "Strategy",
    "WholeStrategy",
    "gaussian_strategy",
    "laplace_strategy",
    "product_strategy",
    "proposals",
    "quantise",
    "reconstruct",
]
