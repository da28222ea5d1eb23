"""Design of a public document from a declaration, and the prediction of accuracy, before any report."""

from siloquent.collect.plan.check import DesignFinding, check
from siloquent.collect.plan.design import design
from siloquent.collect.plan.predict import Prediction, predict

__all__ = ["DesignFinding", "Prediction", "check", "design", "predict"]
