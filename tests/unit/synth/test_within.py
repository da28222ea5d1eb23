"""Values inside groups follow another column, and keep their own shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from siloquent.synth import Budget
from siloquent.synth.estimate.group_values import compute_partner_weights, compute_run_weights, find_partners
from siloquent.synth.spec.release import SyntheticRelease
from unit.synth.people import opened, spec

RULES = (
    'constraint = [{ kind = "denial", not = "t1.age > t2.age and t1.weight < t2.weight and t1.smoker = t2.smoker", '
    "hard = false }]\n"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRelease:
    with opened(tmp_path_factory.mktemp("synth") / "w", rules=RULES, size_hint=20_000) as session:
        return session.synth.synthesize(spec(rows=1_500, budget=Budget(epsilon="90")))  # next to no noise


def test_only_ordered_columns_of_one_soft_constraint_are_partners(made: SyntheticRelease) -> None:
    frame, fitted = made.model.frame, made.model.fitted
    age, weight = frame.names.index("age"), frame.names.index("weight")
    assert find_partners(frame, fitted) == {age: weight, weight: age}


def test_values_lean_as_groups_do_and_keep_their_shares(made: SyntheticRelease) -> None:
    frame = made.model.frame
    place = frame.names.index("age")
    size, runs = frame.sizes[place], len(frame.groups[place])
    mass = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=size)
    # Two groups of the partner: beside the second, every next group of ages has higher odds than the one before.
    odds = 1.2 ** np.arange(size)
    joint = np.stack([mass / (1 + odds), mass * odds / (1 + odds)])
    joint /= joint.sum()
    tilted = compute_partner_weights(frame, place, joint).reshape(2, size, runs)
    plain = compute_run_weights(frame, place)
    for group in np.flatnonzero(mass > 0.02):
        inside = np.flatnonzero((frame.groups[place] == group) & (frame.shares[place] > 0))
        laws = tilted[:, group, inside] / tilted[:, group, inside].sum(axis=1, keepdims=True)
        mixed = (joint[:, group] / joint[:, group].sum()) @ laws
        assert np.abs(mixed - plain[group, inside] / plain[group, inside].sum()).sum() < 0.02
        if len(inside) > 1:
            assert laws[1] @ inside > laws[0] @ inside
    assert (tilted[:, plain == 0] == 0).all()


def test_independent_columns_change_nothing(made: SyntheticRelease) -> None:
    frame = made.model.frame
    place = frame.names.index("weight")
    mass = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
    tilted = compute_partner_weights(frame, place, np.outer([0.3, 0.7], mass / mass.sum()))
    plain = compute_run_weights(frame, place)
    plain /= np.maximum(plain.sum(axis=1, keepdims=True), 1e-300)
    tilted /= np.maximum(tilted.sum(axis=1, keepdims=True), 1e-300)
    held = np.flatnonzero(mass > 1e-9)
    assert np.allclose(tilted.reshape(2, *plain.shape)[:, held], plain[held], atol=0.01)


def test_a_condition_leaves_the_law_of_what_it_lets_pass(made: SyntheticRelease) -> None:
    frame, fitted = made.model.frame, made.model.fitted
    place, other = frame.names.index("age"), frame.names.index("weight")
    joint = fitted.compute_marginal((other, place))
    kept = np.where(np.arange(len(frame.shares[place])) % 2 == 0, frame.shares[place], 0.0)
    plain, some = compute_partner_weights(frame, place, joint), compute_partner_weights(frame, place, joint, kept=kept)
    passing = (kept > 0) & (plain > 1e-12)
    assert np.allclose(some[passing], plain[passing])
    assert some[:, kept == 0].max() <= 1e-22


def test_a_column_without_ordered_rows_is_left_as_it_is(made: SyntheticRelease) -> None:
    frame = made.model.frame
    place = frame.names.index("age")
    empty = replace(
        frame, shares=tuple(np.zeros_like(each) if i == place else each for i, each in enumerate(frame.shares))
    )
    joint = np.full((2, frame.sizes[place]), 0.5 / frame.sizes[place])
    found = compute_partner_weights(empty, place, joint).reshape(2, frame.sizes[place], -1)
    assert np.isfinite(found).all()
    assert ((found[0] > 0) == (compute_run_weights(empty, place) > 0)).all()
