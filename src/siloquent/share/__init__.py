"""share: silos with like tables learn together without showing rows.

spec = ShareSpec("patients", label="diagnosis", features=("age", "ward"), budget=Budget(epsilon="1"))
mine = release(session, spec, key="2026-1")                   # one round, one price; send it to the others
advise(session, LearnSpec("patients", "diagnosis", theirs))   # constant, alone, shared, stacked; stays here
model = learn(session, LearnSpec("patients", "diagnosis", theirs))
rows = synthesize(theirs)                                     # labelled rows, from marginals or trees
"""

from siloquent.privacy.prices import Budget
from siloquent.share.estimate import Advice
from siloquent.share.files import load_release, save_release
from siloquent.share.model import Model, load_model
from siloquent.share.plan import SharePlan, plan
from siloquent.share.release import ShareRelease, release_from_bytes
from siloquent.share.spec import Agreement, LearnSpec, ShareSpec, TreeSpec, agreement_of, spec_from_plain
from siloquent.share.task import advise, explain, learn, release, synthesize
from siloquent.share.together import release_sum

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
    "agreement_of",
    "explain",
    "learn",
    "load_model",
    "load_release",
    "plan",
    "release",
    "release_from_bytes",
    "release_sum",
    "save_release",
    "spec_from_plain",
    "synthesize",
]
