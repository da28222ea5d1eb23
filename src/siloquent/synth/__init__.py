"""synth: a synthetic table that keeps the rules and the statistics of the real one.

spec = SynthSpec(table="visits", budget=Budget(epsilon="1"), targets=("readmitted",))
release = synthesize(session, spec, key="hackathon")
release.rows                                    # an Arrow table: no hard constraint is broken
release.model.draw(rows=1_000_000, where="ward = 'A' and age < 30")     # free, any time
release.report                                  # what a reader should know about its quality
"""

from siloquent.privacy.prices import Budget
from siloquent.synth.spec.spec import SynthSpec, read_spec, spec_from_plain
from siloquent.synth.task import explain, synthesize

__all__ = ["Budget", "SynthSpec", "explain", "read_spec", "spec_from_plain", "synthesize"]
