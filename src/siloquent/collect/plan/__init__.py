"""From a declaration to a public document, and what its answers will be worth; decided before anybody reports."""

from siloquent.collect.plan.check import DesignFinding, check
from siloquent.collect.plan.design import design
from siloquent.collect.plan.predict import Prediction, predict

__all__ = ["DesignFinding", "Prediction", "check", "design", "predict"]
