"""share: silos with similar tables learn together without revealing rows.

spec = ShareSpec("patients", label="diagnosis", features=("age", "ward"), budget=Budget(epsilon="1"))
mine = release(session, spec, key="2026-1")                   # one round, one price; send it to the others
advise(session, LearnSpec("patients", "diagnosis", theirs))   # constant, alone, shared, stacked; not a release
model = learn(session, LearnSpec("patients", "diagnosis", theirs))
rows = synthesize(theirs)                                     # labelled rows, from marginals or trees
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.privacy.budget import Budget
from siloquent.share.estimate import Advice
from siloquent.share.federated import release_sum
from siloquent.share.files import load_release, save_release
from siloquent.share.model import Model, load_model
from siloquent.share.plan import SharePlan, plan
from siloquent.share.spec import Agreement, LearnSpec, ShareSpec, TreeSpec, build_agreement, parse_spec
from siloquent.share.spec.release import ShareRelease, decode_release
from siloquent.share.task import advise, explain, learn, release, synthesize

__all__ = [
    "Advice",
    "Agreement",
    "Budget",
    "LearnSpec",
    "Model",
    "SharePlan",
    "ShareRelease",
    "ShareSpec",
    "TreeSpec",
    "advise",
    "build_agreement",
    "decode_release",
    "explain",
    "learn",
    "load_model",
    "load_release",
    "parse_spec",
    "plan",
    "release",
    "release_sum",
    "save_release",
    "synthesize",
]

if not TYPE_CHECKING:  # the names in version 0.1
    __getattr__ = keep_old_names(
        __name__,
        {"agreement_of": "build_agreement", "release_from_bytes": "decode_release", "spec_from_plain": "parse_spec"},
    )
    keep_old_methods(Advice, {"sentence": "describe"})
    keep_old_methods(Model, {"strongest": "list_strongest"})
    keep_old_methods(SharePlan, {"relative_noise": "compute_relative_noise"})
    keep_old_methods(ShareRelease, {"sentence": "describe_guarantee"})
