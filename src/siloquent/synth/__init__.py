"""synth: a synthetic table that keeps the rules and the statistics of the real one.

spec = SynthSpec(table="visits", budget=Budget(epsilon="1"), targets=("readmitted",))
release = synthesize(session, spec, key="hackathon")
release.rows                                    # an Arrow table: no hard constraint is broken
release.model.draw(rows=1_000_000, where="ward = 'A' and age < 30")     # free, any time
release.report                                  # the quality report
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.privacy.budget import Budget
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.model import TreeModel
from siloquent.synth.plan.chain import ChainPlan
from siloquent.synth.plan.tree import TreePlan
from siloquent.synth.spec.spec import SynthSpec, parse_spec, read_spec
from siloquent.synth.task import explain, synthesize

__all__ = ["Budget", "SynthSpec", "explain", "parse_spec", "read_spec", "synthesize"]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {"spec_from_plain": "parse_spec"},
    )
    for _kind in (TreePlan, ChainPlan):
        keep_old_methods(_kind, {"noises": "list_noises"})
    for _kind in (TreeModel, ChainModel):
        keep_old_methods(_kind, {"marginal": "compute_marginal"})
    keep_old_methods(TreeModel, {"groups": "describe_groups"})
