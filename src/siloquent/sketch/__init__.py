"""sketch: release a table once as a small table of hashed counters, then ask any number of questions.

    spec = SketchSpec(table="skin", features=("B", "G", "R"), kernel=PStable(2, 5.0), budget=Budget(epsilon="1"))
    made = build(session, spec, key="skin")         # one pass, one price
    ask(made, Density(points))                      # free: values, standard errors, intervals
    merge([a, b, c])                                # silos with the same hash plan

Questions: ``Density``, ``Difference``, ``Classify``, ``Anomaly``, ``Modes``, ``Sample``, ``Regress``.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.maths.lsh import Angular, Hamming, Jaccard, Laplacian, Power, Product, PStable, Surrogate
from siloquent.privacy.budget import Budget
from siloquent.sketch.estimate.density import compute_paper_mean, median_of_means
from siloquent.sketch.hash_plan import HashPlan
from siloquent.sketch.merge import merge
from siloquent.sketch.plan import SketchPlan, plan, read_hash_plan
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.sketch.regression import regress
from siloquent.sketch.release import load_sketch, save_sketch
from siloquent.sketch.sketch import Sketch, decode_sketch
from siloquent.sketch.spec import (
    Anomaly,
    Classify,
    Density,
    DensityEstimate,
    Difference,
    LinearModel,
    Modes,
    Regress,
    Sample,
    SketchAccuracy,
    SketchSpec,
    parse_spec,
)
from siloquent.sketch.task import ask, build, explain

__all__ = [
    "Angular",
    "Anomaly",
    "Budget",
    "Classify",
    "Density",
    "DensityEstimate",
    "Difference",
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
    "SketchAccuracy",
    "SketchPlan",
    "SketchSpec",
    "Surrogate",
    "ask",
    "build",
    "compute_paper_mean",
    "decode_sketch",
    "explain",
    "load_sketch",
    "median_of_means",
    "merge",
    "parse_spec",
    "plan",
    "read_hash_plan",
    "regress",
    "save_sketch",
]

if not TYPE_CHECKING:  # the names in version 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Accuracy": "SketchAccuracy",
            "Estimate": "DensityEstimate",
            "paper_mean": "compute_paper_mean",
            "sketch_from_bytes": "decode_sketch",
            "spec_from_plain": "parse_spec",
        },
    )
    keep_old_methods(Sketch, {"class_sizes": "estimate_class_sizes", "sentence": "describe_guarantee"})
    keep_old_methods(SketchPlan, {"typical_error": "estimate_typical_error"})
