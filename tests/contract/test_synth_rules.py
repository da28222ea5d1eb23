"""A release of an earlier day gives the same model: what changes that is another set of rules, and takes a number.

``tests/vectors/synth`` holds the measurements of one release, its declaration and the model that followed from them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from siloquent.api import read_schema
from siloquent.errors import ReleaseError
from siloquent.releases.arrays import pack, unpack
from siloquent.synth.engines import build_model, plan, rebuild_learner
from siloquent.synth.estimate.generate import draw_systematically
from siloquent.synth.estimate.model import TreeModel
from siloquent.synth.spec.measurements import RULES, decode_run_measurements
from siloquent.synth.spec.spec import parse_spec

KEPT = Path(__file__).parents[1] / "vectors" / "synth"


def model_again() -> TreeModel:
    """The model that this version makes of the kept measurements."""
    measured = decode_run_measurements((KEPT / "measurements.npz").read_bytes())
    schema = read_schema((KEPT / "people.toml").read_text())
    assert measured.schema_digest == schema.digest
    chosen = plan(parse_spec(json.loads(measured.request)), schema)
    model = build_model(rebuild_learner(chosen, measured, extra={}), "")
    assert isinstance(model, TreeModel)
    return model


def described(model: TreeModel) -> dict[str, Any]:
    """Groups, joints and some expected shares of a model, and how values are drawn."""
    law = np.add.outer(np.arange(4.0), np.arange(1.0, 6.0))
    drawn = draw_systematically(np.arange(40) % 4, law, np.random.default_rng(0))
    belief = np.asarray(model.fitted.beliefs[0], dtype=np.float64)
    return {
        "rules": RULES,
        "groups": [one.tolist() for one in model.frame.groups],
        "joints": [[list(one.attributes), list(one.shape)] for one in model.fitted.tree.cliques],
        "drawn": drawn.tolist(),
        "shares": [float(one) for one in belief.sum(axis=tuple(range(1, belief.ndim))) / belief.sum()],
    }


def test_a_release_of_an_earlier_day_gives_the_same_groups_joints_and_shares() -> None:
    kept, now = json.loads((KEPT / "model.json").read_text()), described(model_again())
    exact = ("rules", "groups", "joints", "drawn")
    assert {name: now[name] for name in exact} == {name: kept[name] for name in exact}
    np.testing.assert_allclose(now["shares"], kept["shares"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rules", [None, RULES + 1])
def test_a_model_of_other_rules_is_refused_in_words(rules: int | None) -> None:
    arrays, words = unpack((KEPT / "measurements.npz").read_bytes(), ("counts", "starts"))
    changed = {**words, "rules": rules} if rules else {name: each for name, each in words.items() if name != "rules"}
    with pytest.raises(ReleaseError, match="other rules") as refused:
        decode_run_measurements(pack(arrays, changed))
    assert "manifest.json" in (refused.value.fix or "")
