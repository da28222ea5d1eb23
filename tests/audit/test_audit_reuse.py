"""What is measured beside earlier answers, as a black box, at the price that it pays; and a fault that is caught."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from audit.harness import assert_caught, assert_private
from audit.test_audit_explore import BLOCKS, MANY, PAIRS, charged, claim, noise_again, planned, release
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswer, EarlierAnswers
from siloquent.explore.plan.reuse.linear_measurements import build_footprint, build_linear_measurement
from siloquent.explore.plan.reuse.plans import ReusedMechanism, find_cheapest_with_reuse
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace

pytestmark = pytest.mark.statistical
N = 6_000


def topped(name: str, adjacency: str) -> Plan:
    """A question over two blocks that an earlier, rougher answer helps with."""
    before, now = planned(BLOCKS % 14, name, adjacency), planned(BLOCKS % 12, name, adjacency)
    footprint = build_footprint(before.compiled, before.schema, by_strategy=before.chosen.form != "answers")
    strategy = before.chosen.strategy
    values = (0,) * (sum(len(one) for one in strategy) or before.compiled.answers)
    assert footprint is not None
    past = build_linear_measurement(footprint, before.event, values, strategy, source=2, account="t@1")  # type: ignore[arg-type]
    measured = StoredMeasurement(before.chosen.name, before.chosen.form, before.event, values, "14", strategy)
    found = find_cheapest_with_reuse(now, EarlierAnswers((EarlierAnswer(2, "t@1", measured, past),)), "any")
    assert isinstance(found.chosen, ReusedMechanism)
    assert found.chosen.blend is not None
    assert found.chosen.blend.added is not None
    return found


@pytest.mark.parametrize("adjacency", PAIRS)
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_what_is_measured_beside_earlier_answers_keeps_its_claim(name: str, adjacency: str) -> None:
    found = topped(name, adjacency)
    assert_private(release(found), PAIRS[adjacency], n=N, **claim(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_a_top_up_charged_for_its_largest_block_alone_is_caught(name: str) -> None:
    found = charged(topped(name, "add-remove"), Fraction(1, 2))
    sharper = _sharper(found)
    assert_caught(noise_again(sharper), PAIRS["add-remove"], n=MANY, **claim(sharper))


def _sharper(found: Plan) -> Plan:
    """The same fault at an epsilon of about 2, where black boxes see it."""
    event = found.event
    if isinstance(event, DiscreteLaplace):
        sharp: DiscreteLaplace | DiscreteGaussian = replace(event, scale=Fraction(event.l1, 2))
    else:
        assert isinstance(event, DiscreteGaussian)
        sharp = replace(event, variance=Fraction(int(event.l2_squared)))
    return replace(found, chosen=replace(found.chosen, event=sharp))
