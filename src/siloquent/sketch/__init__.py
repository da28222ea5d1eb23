"""sketch: release a table once as a small table of hashed counters, then ask it without end.

    spec = SketchSpec(table="skin", features=("B", "G", "R"), kernel=PStable(2, 5.0), budget=Budget(epsilon="1"))
    made = build(session, spec, key="skin")         # one pass, one price
    ask(made, Density(points))                      # free: values, standard errors, intervals
    merge([a, b, c])                                # silos that used one hash plan

Questions: ``Density``, ``Difference``, ``Classify``, ``Anomaly``, ``Modes``, ``Sample``, ``Regress``.
"""

from siloquent.maths.lsh import Angular, Hamming, Jaccard, Laplacian, Power, Product, PStable, Surrogate
from siloquent.privacy.prices import Budget
from siloquent.sketch.estimate.density import median_of_means, paper_mean
from siloquent.sketch.hash_plan import HashPlan
from siloquent.sketch.merge import merge
from siloquent.sketch.plan import SketchPlan, plan, read_hash_plan
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.sketch.regression import regress
from siloquent.sketch.release import load_sketch, save_sketch
from siloquent.sketch.sketch import Sketch, sketch_from_bytes
from siloquent.sketch.spec import (
    Accuracy,
    Anomaly,
    Classify,
    Density,
    Difference,
    Estimate,
    LinearModel,
    Modes,
    Regress,
    Sample,
    SketchSpec,
    spec_from_plain,
)
from siloquent.sketch.task import ask, build, explain

__all__ = [
    "Accuracy",
    "Angular",
    "Anomaly",
    "Budget",
    "Classify",
    "Density",
    "Difference",
    "Estimate",
    "Hamming",
    "HashPlan",
    "Jaccard",
    "Laplacian",
    "LinearModel",
    "Modes",
    "MomentsSpec",
    "PStable",
    "Power",
    "Product",
    "Regress",
    "Sample",
    "Sketch",
    "SketchPlan",
    "SketchSpec",
    "Surrogate",
    "ask",
    "build",
    "explain",
    "load_sketch",
    "median_of_means",
    "merge",
    "paper_mean",
    "plan",
    "read_hash_plan",
    "regress",
    "save_sketch",
    "sketch_from_bytes",
    "spec_from_plain",
]
