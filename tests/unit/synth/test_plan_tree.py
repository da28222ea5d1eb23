"""Plans of synthesis: prices that add up, sensitivities of every unit, refusals before any charge."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from siloquent.errors import AccuracyUnreachable, ConstraintProblem, RequestError, UnknownName
from siloquent.privacy import Composed, DiscreteGaussian, ExponentialSelect, convert_epsilon_to_rho
from siloquent.synth import Budget
from siloquent.synth.estimate.enforce.trial import check_consistency
from siloquent.synth.plan.budget import allocate_shares, calibrate_noise, calibrate_selection
from siloquent.synth.plan.domain_splits import build_fine_domain, count_split_levels, split
from unit.synth.people import BUDGETS, ROW, USER, opened, planned, schema, spec, toml

WIDE = '  { name = "cost", type = "integer", lo = 0, hi = 99999, outside = "clamp", null = "drop" },\n'


@pytest.mark.parametrize("accountant", list(BUDGETS))
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", [ROW, USER])
@pytest.mark.parametrize("quality", ["fast", "best"])
def test_all_steps_together_cost_no_more_than_the_budget(
    accountant: str, adjacency: str, unit: str, quality: str
) -> None:
    of = schema(accountant=accountant, adjacency=adjacency, unit=unit, size_hint=20_000)
    found = planned(of, quality=quality, budget=Budget(epsilon="4"), targets=("smoker",))
    assert Fraction(9, 10) * found.amount < found.price <= found.amount
    expected = Fraction(4) if accountant == "pure" else Fraction(convert_epsilon_to_rho(4.0, 1e-6))
    unit_of = 10**9 if accountant == "pure" else 10**12
    assert found.amount == Fraction(math.floor(expected * unit_of), unit_of)


def test_sensitivities_are_those_of_the_unit_and_adjacency() -> None:
    wanted = {("add-remove", ROW): (1, 1), ("replace-one", ROW): (2, 2), ("add-remove", USER): (4, 2)}
    wanted["replace-one", USER] = (8, 4)
    for (adjacency, unit), (squared, moved) in wanted.items():
        found = planned(schema(adjacency=adjacency, unit=unit, size_hint=20_000), budget=Budget(epsilon="4"))
        assert found.joint is not None
        assert {found.joint.sensitivity, *(noise.sensitivity for noise in found.one_way)} == {squared}
        assert found.selection.sensitivity == moved
        assert found.report is not None
        columns = len(found.names)
        assert found.report[0].sensitivity == (moved * columns) ** 2
        assert found.report[1].sensitivity == (moved * columns * (columns - 1) // 2) ** 2


def test_the_event_names_every_step() -> None:
    found = planned()
    assert isinstance(found.event, Composed)
    kinds = [type(part) for part in found.event.parts]
    assert kinds.count(ExponentialSelect) == 1
    steps = len(found.names) + len(found.tables) + found.rounds + 2
    assert kinds.count(DiscreteGaussian) == steps
    assert sum(price for _, price in found.list_prices()) == pytest.approx(float(found.price), rel=1e-6)


@pytest.mark.parametrize(("law", "share"), [("gaussian", "0.01"), ("laplace", "0.3")])
def test_noise_and_choices_are_rounded_so_that_they_cost_less(law: Any, share: str) -> None:
    noise = calibrate_noise(law, Fraction(share), 3)
    assert Fraction(99, 100) * Fraction(share) < noise.price <= Fraction(share)
    choices = calibrate_selection(law, Fraction(share), rounds=7, sensitivity=2)
    cost = 7 * choices.range**2 / 8 if law == "gaussian" else 7 * choices.range
    assert Fraction(999, 1000) * Fraction(share) < cost <= Fraction(share)
    assert choices.rate == choices.range / 4


def test_budgets_follow_cells_to_the_two_thirds_within_a_factor_of_four() -> None:
    shares = allocate_shares([8, 64, 27])
    assert sum(shares) == 1
    assert float(shares[1] / shares[0]) == pytest.approx(4, rel=1e-5)
    wild = allocate_shares([1, 1, 1, 1, 1, 1, 1, 1, 1, 10**6])
    assert float(max(wild) / min(wild)) <= 16.01
    kept = allocate_shares([1, 1, 1, 1, 1, 1, 1, 1, 1, 10**6], even=[3])
    assert kept[3] == 4 * kept[0]
    assert sum(kept) == 1


def test_wide_columns_begin_with_equal_parts_and_full_ones_are_split() -> None:
    attribute = schema(columns=WIDE, rules="").domain["cost"]
    fine = build_fine_domain(attribute)
    assert len(fine.starts) == 128
    assert count_split_levels(fine) == 4
    counts = np.array([0] * 127 + [1_000])
    finer, new = split(fine, counts, total=1_000.0)
    assert len(finer.starts) == 128 + 15
    assert new.sum() == 16
    assert finer.widths.sum() == attribute.size
    assert (finer.widths > 0).all()


def test_noise_leaves_few_parts() -> None:
    attribute = schema(columns=WIDE, rules="").domain["cost"]
    assert len(build_fine_domain(attribute, clear=30.0).starts) == 30
    assert count_split_levels(build_fine_domain(attribute, clear=30.0), clear=30.0) == 1
    assert count_split_levels(build_fine_domain(attribute, clear=5_000.0), clear=5_000.0) == 4


def test_a_constant_of_a_rule_begins_a_run_of_its_own() -> None:
    found = planned()
    age = next(fine for fine in found.fines if fine.name == "age")
    assert 12 in age.cuts
    assert 12 in age.starts


def test_what_cannot_be_done_is_refused_with_a_way_out() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'ward'"):
        planned(columns=("wrad",))
    with pytest.raises(RequestError, match="No column can be synthesised"):
        planned(columns=("id", "note"))
    with pytest.raises(RequestError, match="not among"):
        planned(columns=("age", "ward"), targets=("smoker",))
    with pytest.raises(AccuracyUnreachable, match="nothing could be learned") as refused:
        planned(budget=Budget(epsilon="0.001"))
    assert "or more" in refused.value.fix
    many = "".join(f'  {{ name = "c{i}", type = "boolean", null = "drop" }},\n' for i in range(101))
    with pytest.raises(RequestError, match="limit of 100"):
        planned(schema(columns=many, rules=""))


def test_the_smallest_budget_that_is_named_is_accepted() -> None:
    with pytest.raises(AccuracyUnreachable) as refused:
        planned(budget=Budget(epsilon="0.001"))
    enough = refused.value.fix.split("rho ")[1].split()[0]
    assert planned(budget=Budget(rho=enough)).rounds > 0


def test_strange_names_and_two_columns_are_planned() -> None:
    columns = (
        '  { name = "select", type = "boolean", null = "drop" },\n'
        """  { name = "a b'; drop", type = "category", values = ["x", "y\\"z"], null = "cell" },\n"""
    )
    found = planned(schema(columns=columns, rules=""))
    assert found.names == ("select", "a b'; drop")
    assert found.rounds == 1


def test_one_column_has_no_pairs() -> None:
    found = planned(columns=("ward",))
    assert (found.rounds, found.joint) == (0, None)
    assert found.price > Fraction(9, 10) * found.amount


def test_the_plan_is_a_function_of_the_declaration() -> None:
    assert planned(schema()).event == planned(schema()).event
    assert "people" in toml()


def test_one_joint_is_said_to_be_one() -> None:
    found = planned(schema(size_hint=20_000), columns=("age", "weight"), constraints="none")
    assert found.outline.startswith("2 columns, 1 joint, at most")
    assert "counts of 1 joint" in dict(found.list_prices())


SOFT = (
    'constraint = [{ kind = "denial", not = "t1.age > t2.age and t1.floor < t2.floor and t1.ward = t2.ward", '
    "hard = false }]\n"
)


def test_pairs_that_a_soft_constraint_speaks_of_are_counted_before_all_others(tmp_path: Path) -> None:
    of = schema(rules=SOFT, size_hint=20_000)
    found = planned(of, quality="default")
    named = {frozenset(pair) for pair in ({"age", "floor"}, {"age", "ward"}, {"floor", "ward"})}
    assert {frozenset(found.names[place] for place in pair) for pair in found.before} == named
    others = planned(of, quality="default", constraints="none")
    assert (found.rounds, found.joint is None) == (others.rounds + len(named), False)
    assert [found.compute_joint_noise(pair).price for pair in found.before] == [
        pytest.approx(2 * float(found.compute_joint_noise((0, 5)).price), rel=1e-6)
    ] * len(named)
    assert found.compute_joint_noise(next(iter(found.before)), again=True) == found.joint
    with opened(tmp_path / "w", rules=SOFT, size_hint=20_000) as session:
        joints = session.synth.synthesize(spec(quality="default")).measurements.select_kind("joint")
    assert {frozenset(joint.attributes) for joint in joints[:3]} == named
    assert found.joint is not None
    charged = [part.variance for part in found.event.parts if isinstance(part, DiscreteGaussian)]
    for joint in joints:  # each was charged by its own noise
        charged.remove(joint.variance)


def test_nothing_comes_before_where_soft_constraints_speak_of_most_pairs() -> None:
    rules = SOFT.replace("t1.ward = t2.ward", "t1.ward = t2.ward and t1.weight > t2.weight and t1.smoker = t2.smoker")
    assert planned(schema(rules=rules, size_hint=20_000)).before == frozenset()
    assert planned(schema(size_hint=20_000)).before == frozenset()


def test_columns_take_a_fifth_of_the_budget_and_choices_a_twentieth_of_what_joints_have() -> None:
    found = planned(schema(size_hint=20_000), budget=Budget(epsilon="4"))
    shares = {name: price / float(found.amount) for name, price in found.list_prices()}
    assert shares["single columns"] == pytest.approx(1 / 5, rel=0.01)
    choices, counts = (
        sum(share for name, share in shares.items() if name.startswith(kind)) for kind in ("choices", "counts")
    )
    assert choices == pytest.approx((choices + counts) / 20, rel=0.01)


def test_candidates_are_all_pairs_and_each_triple_with_a_target_once() -> None:
    found = planned(schema(rules=""), targets=("smoker",))
    place, count = found.names.index("smoker"), len(found.names)
    triples = [axes for axes in found.candidates if len(axes) == 3]
    assert len(found.candidates) == len(set(found.candidates)) == math.comb(count, 2) + math.comb(count - 1, 2)
    assert all(place in axes and len(set(axes)) == 3 for axes in triples)


def test_rules_that_meet_over_a_chain_of_columns_are_seen_to_be_in_conflict() -> None:
    """a = b, b = c and c = d leave no room for a != d, though no two of them share more than one column."""
    columns = "".join(f'  {{ name = "{name}", type = "boolean", null = "drop" }},\n' for name in "abcd")
    rules = ["a != b", "b != c", "c != d", "a = d"]
    listed = ",\n".join(f"  {{ kind = \"denial\", not = '{rule}' }}" for rule in rules)
    with pytest.raises(ConstraintProblem, match="No declared values of a, d, c, b pass"):
        check_consistency(planned(schema(columns=columns, rules=f"constraint = [\n{listed}\n]\n")).compiled)
    for left_out in range(4):
        kept = ",\n".join(f"  {{ kind = \"denial\", not = '{rule}' }}" for i, rule in enumerate(rules) if i != left_out)
        check_consistency(planned(schema(columns=columns, rules=f"constraint = [\n{kept}\n]\n")).compiled)
