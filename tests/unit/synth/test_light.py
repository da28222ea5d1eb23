"""What a run of ordinary size does without: a compiler in memory, and models that are no longer asked."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from siloquent.maths.graphical.fit import Target, fit
from siloquent.synth.estimate.tree import compute_expected_shares
from siloquent.synth.measure.selection import PLAIN, SHORT, add_vector_noise
from siloquent.synth.plan.budget import VectorNoise

RUN = """
import sys, tempfile
from pathlib import Path
from unit.synth.people import opened, spec
with opened(Path(tempfile.mkdtemp()) / "w") as session:
    made = session.synth.synthesize(spec(rows=300, report=0))
assert made.rows.num_rows == 300
print(sorted({name.split(".")[0] for name in sys.modules} & {"numba", "llvmlite", "sklearn", "torch", "jax"}))
"""


@pytest.mark.slow
def test_a_run_without_a_report_loads_no_compiler_and_no_learner() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'tests')\n{RUN}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_noise_in_parts_keeps_the_shape_and_is_independent_everywhere() -> None:
    noise = VectorNoise("gaussian", Fraction(400), 1)
    for shape in ((0,), (SHORT,), (3, SHORT), (PLAIN + 1,)):
        assert add_vector_noise(np.zeros(shape, dtype=np.int64), noise).shape == shape
    drawn = add_vector_noise(np.zeros(4 * SHORT, dtype=np.int64), noise).reshape(4, SHORT)
    assert len({tuple(part) for part in drawn.tolist()}) == 4


def test_expected_counts_of_candidates_are_the_model_s_marginals() -> None:
    random = np.random.default_rng(2)
    sizes = (3, 2, 4, 3, 2)
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4)]
    targets = [Target(axes, random.random([sizes[a] for a in axes]) * 100, np.array(4.0)) for axes in pairs]
    model = fit(sizes, targets, total=100.0)
    candidates = [(0, 4), (1, 2), (0, 1, 3), (1, 2, 4), (2, 3, 4)]
    found = compute_expected_shares(model, candidates, targets=frozenset({4}))
    for axes, shares in zip(candidates, found, strict=True):
        assert np.allclose(shares, model.compute_marginal(axes), atol=1e-12)
