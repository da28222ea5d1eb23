"""From a declaration to a public document, and what its answers will be worth; decided before anybody reports."""

from siloquent.collect.plan.check import Finding, check
from siloquent.collect.plan.designing import design
from siloquent.collect.plan.predict import Prediction, predict

__all__ = ["Finding", "Prediction", "check", "design", "predict"]
