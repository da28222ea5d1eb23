"""Releases replayed on neighbours with the same noise: each loss is paid for, nothing else differs, faults are seen.

The large version: ``python -m benchmarks core --only replay``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks.replay.audit import Found
from benchmarks.replay.devices import reported
from benchmarks.replay.discovered import discovered
from benchmarks.replay.explored import FAR_APART, explored, far_apart, farthest
from benchmarks.replay.released import (
    breaking_all,
    furthest_gradients,
    kinds,
    leaving,
    one_release,
    released,
    synthesis,
)
from benchmarks.replay.silos import part_of_sum
from siloquent.data import PrivateTable
from siloquent.data import table as data_table
from siloquent.discover import measure as discovering
from siloquent.discover.plan import planner
from siloquent.explore import task
from siloquent.explore.measure import measure, multi_poking, run
from siloquent.explore.plan import replaced_rows
from siloquent.explore.plan.mechanisms import direct_noise, quantile, top
from siloquent.explore.plan.mechanisms import multi_poking as poking_prices
from siloquent.privacy.budget import Budget
from siloquent.privacy.noise import distributed
from siloquent.search.measure import statistics
from siloquent.share.measure import counting
from siloquent.sketch import federated
from siloquent.sketch import measure as sketched
from siloquent.sketch.measure import moments
from siloquent.synth.measure import chain
from siloquent.synth.plan import auxiliary_steps, tree

pytestmark = pytest.mark.xdist_group("replay")
Setting = tuple[str, str, int]
ROW: Setting = ("pure", "add-remove", 0)
REPLACED: Setting = ("pure", "replace-one", 0)
USER: Setting = ("pure", "add-remove", 3)
ZCDP: Setting = ("zcdp", "add-remove", 3)
ZCDP_ROW: Setting = ("zcdp", "add-remove", 0)


def faults(found: Iterator[Found]) -> list[str]:
    return [
        f"{one.name} ({one.account}, {one.unit}, {one.adjacency}): {fault}" for one in found for fault in one.faults
    ]


# The audit


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_question_tells_neighbours_apart_beyond_its_charge(part: int) -> None:
    assert not faults(explored(range(16 * part, 16 * part + 16), each=3))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_no_release_of_another_task_tells_neighbours_apart_beyond_its_charge(first: int) -> None:
    number = len(kinds(Budget(epsilon="2")))
    assert not faults(released(range(first * 5 * number, first * 5 * number + number)))


def test_no_discovery_of_keys_tells_neighbours_apart_beyond_its_charge() -> None:
    found = list(discovered(range(24)))
    assert not faults(iter(found))
    assert {one.status for one in found} == {"answered"}
    assert max(one.ratio for one in found) > 0.99


def lower(variance: Any, keys: int, moved: int, threshold: int, delta: Any) -> Any:
    """An event whose threshold is two lower than its delta says."""
    return real_event_of_keys(variance, keys, moved, threshold - 2, delta)


def for_one(variance: Any, *, keys_each: int, threshold: int) -> Any:
    """The delta of a single key where a unit has several."""
    return real_passing(variance, keys_each=1, threshold=threshold)


def one_more_key(*given: Any, **named: Any) -> Any:
    """A unit that counts for one key more."""
    return real_keys(*given, **{**named, "keys_each": named["keys_each"] + 1})


def quiet(plan: Any, table: Any, permit: Any) -> bytes:
    """Noise of half the deviation that was charged."""
    return real_measure(replace(plan, event=replace(plan.event, variance=plan.event.variance / 4)), table, permit)


def with_count(plan: Any, keys: Any) -> bytes:
    """The release with the number of common keys' units."""
    return real_pack(plan, keys).replace(b'"kind"', b'"of":%d,"kind"' % len(sighted), 1)


def count_too(table: Any, *given: Any, **named: Any) -> Any:
    """Note how many keys there are, before their noise."""
    sighted.clear()
    for part in real_units(table, *given, **named):
        sighted.extend(part.keys.to_pylist())
        yield part


def unsorted(plan: Any, keys: Any) -> bytes:
    """The release with its keys by their noisy counts."""
    plain = json.loads(real_pack(plan, keys))
    plain["keys"] = list(keys)[::-1]
    return json.dumps(plain).encode()


def below(keys: Any, noisy: Any, threshold: int) -> Any:
    """Keys that are not behind the threshold."""
    return real_list(keys, noisy, threshold - 20)


sighted: list[str] = []
real_event_of_keys, real_passing = planner.ThresholdedGaussian, planner.compute_passing_probability
real_keys, real_measure, real_units = (
    data_table.build_key_query,
    discovering.measure_keys,
    PrivateTable.count_units_by_key,
)
real_pack, real_list = discovering.pack_keys, discovering._list_passing
DISCOVER: dict[str, list[tuple[Any, str, Any]]] = {
    "a threshold that is lower": [(planner, "ThresholdedGaussian", lower)],
    "a unit that counts for one key more": [(data_table, "build_key_query", one_more_key)],
    "noise of half the deviation": [(discovering, "measure_keys", quiet)],
    "a delta for one key where a unit has several": [(planner, "compute_passing_probability", for_one)],
    "keys in the order of their counts": [(discovering, "pack_keys", unsorted)],
    "the number of keys that there are": [
        (discovering, "pack_keys", with_count),
        (PrivateTable, "count_units_by_key", count_too),
    ],
    "keys that are not behind the threshold": [(discovering, "_list_passing", below)],
}


@pytest.mark.parametrize("name", DISCOVER)
def test_a_fault_planted_in_discovery_is_seen(name: str) -> None:
    with ExitStack() as stack:
        for place, what, fault in DISCOVER[name]:
            stack.enter_context(patch.object(place, what, fault))
        assert faults(discovered(range(24))), name


@pytest.mark.slow
def test_no_report_of_a_device_tells_users_apart_beyond_its_epsilon() -> None:
    found = list(reported(range(420)))  # some 5 % reach the whole ratio: none of them does in 1 of 10^9 runs
    assert not faults(iter(found))
    assert max(one.ratio for one in found) > 1 - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("setting", list(product(["pure", "zcdp"], ["add-remove", "replace-one"], [0, 3])))
def test_some_pair_uses_up_the_whole_charge_of_a_question(setting: Setting) -> None:
    found = list(farthest(setting))
    assert not faults(iter(found))
    assert not [one.name for one in found if one.ratio < one.most * (1 - 1e-6)]
    needless = [FAR_APART["medians of chosen groups"]] if setting[:2] == ("zcdp", "replace-one") else []
    assert [one.name for one in found if one.most < 1] == needless


SKETCHES = ["sketch dense", "sketch label", "sketch words"]
SUMS = [
    "discover bounds",
    "moments",
    "moments near",
    "offer",
    "offer cut",
    "offer key",
    "offer keys",
    "offer total",
    "offer per key",
]


@pytest.mark.parametrize("name", [*SUMS, "share moments", "share marginals", "share gram", *SKETCHES])
@pytest.mark.parametrize("account", ["pure", "zcdp"])
def test_some_pair_uses_up_the_whole_charge_of_a_release(name: str, account: str) -> None:
    for most in (0, 3):
        found = one_release(name, (account, "replace-one", most))
        assert found.status == "answered"
        assert not found.faults
        assert found.ratio > 1 - 1e-6


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_gradients_as_far_apart_as_the_clip_allows_use_up_the_price_of_training(adjacency: str) -> None:
    found = furthest_gradients(("zcdp", adjacency, 0))
    assert found.status == "answered"
    assert not found.faults
    assert 1 - 1e-6 < found.steps["training"] <= 1


@pytest.mark.parametrize("name", ["sum of marginals", "sum of gram", "sum of moments", "sum of sketches"])
def test_a_silos_part_in_a_sum_uses_up_what_it_can_of_its_charge(name: str) -> None:
    for setting in (ZCDP, ("zcdp", "replace-one", 0)):
        found = part_of_sum(name, setting, random.Random(0))
        assert found.status == "answered"
        assert not found.faults
        assert found.ratio > found.most * (1 - 1e-6) > 0.9


# Planted faults in the product's own modules


def question(name: str, setting: Setting, nth: int = 0) -> Callable[[], Iterator[Found]]:
    return lambda: far_apart(setting, [name], nth=nth)


def release(name: str, setting: Setting) -> Callable[[], Iterator[Found]]:
    return lambda: iter([one_release(name, setting)])


def halved(kind: Any, name: str) -> Callable[..., Any]:
    """An event that says half of what it should."""
    return lambda **given: kind(**{**given, name: given[name] // 2})


def early(event: Any, *, stop: int) -> Any:
    """The stop charged one look early."""
    return replace(event, stop=max(stop - 1, 0))


def by_rows(real: Any) -> Callable[..., Any]:
    """m for m^2."""
    return lambda **given: real(**{**given, "l2_squared": given["l2_squared"] // 3})


def shown_exactly(plan: Any, table: Any, permit: Any) -> Any:
    """One exact number among the released ones."""
    found = measure(plan, table, permit)
    (cells,) = table.count_by_cell([plan.compiled.parts[0].block], permit)
    return replace(found, values=(*found.values[:-1], int(cells.sum())))


def unpaid(plan: Any, table: Any, permit: Any) -> Any:
    """The same release once more, for nothing."""
    measure(plan, table, permit)
    return measure(plan, table, permit)


def measure_each(measure_one: Callable[..., Any]) -> Callable[..., Any]:
    """All plans of a step, one by one."""
    return lambda plans, table, permit: [measure_one(plan, table, permit) for plan in plans]


def groups_of_rows(real: Any) -> Callable[..., Any]:
    """Only groups that have more rows than the others are there at all."""
    return lambda compiled, columns: (found := real(compiled, columns))[found > 10]


def when_there(real: Any) -> Callable[..., Any]:
    """A second read where the first one finds many rows."""

    def counts(table: Any, blocks: Any, permit: Any) -> Any:
        found = real(table, blocks, permit)
        if sum(int(cells.sum()) for cells in found) > 30:
            table.rows(["ward"], permit)
        return found

    return counts


def once(plan: Any) -> Any:
    """Fine counts charged once, whatever the number of levels."""
    assert max(plan.levels) > 1
    return real_event(replace(plan, levels=tuple(1 for _ in plan.levels)))


def few_judges(*given: Any) -> Any:
    """Counts of users with m for m^2."""
    found = real_reports(*given)
    last = found[-1]
    return (*found[:-1], auxiliary_steps.calibrate_noise(given[-1], last.price, last.sensitivity // 3))


def quarter(plan: Any, values: Any, parameter: Any) -> Any:
    """A quarter of the variance off the diagonal, where half is right."""
    return real_noisy(plan, values, parameter / 2 if parameter == plan.parameters[-1] / 2 else parameter)


top_of, real_weight = top.GeometricTopK, replaced_rows._compute_weight
real_event = tree.TreePlan.event.fget  # type: ignore[attr-defined]
real_reports, real_rates = tree.plan_report_noises, tree.plan_rate_noise
real_noisy, real_sums = moments._add_noise, statistics._add_noise
real_counters, real_gradients = sketched.add_counter_noise, chain.sum_clipped_gradients
TARGET = synthesis(budget=Budget(epsilon="2"), columns=("ward", "age", "ill", "dose"), report="0.5", targets=("ill",))
ALONE = synthesis(budget=Budget(epsilon="20"), columns=("cost",))
EXPLORE = {
    "a Laplace price of half the sensitivity": (
        question("groups", USER),
        (direct_noise, "DiscreteLaplace", halved(direct_noise.DiscreteLaplace, "l1")),
    ),
    "a Gaussian price of m for m^2": (
        question("groups", ZCDP),
        (direct_noise, "DiscreteGaussian", by_rows(direct_noise.DiscreteGaussian)),
    ),
    "a chain's price of half the sensitivity": (
        question("iceberg", USER),
        (poking_prices, "NoiseReduction", halved(poking_prices.NoiseReduction, "l1")),
    ),
    "the stop charged one look early": (question("iceberg", ROW), (multi_poking, "replace", early)),
    "a top list at half its price": (
        question("top", REPLACED),
        (top, "GeometricTopK", lambda **given: top_of(**{**given, "scale": given["scale"] * 2})),
    ),
    "a median at the price of one row of a user": (
        question("median", USER),
        (quantile, "bound_total_change", lambda compiled, share: 1),
    ),
    "an exact number among noisy ones": (question("groups", ROW), (task, "measure_all", measure_each(shown_exactly))),
    "a call that nobody pays for": (question("groups", ROW), (task, "measure_all", measure_each(unpaid))),
    "groups that are there where rows are": (
        question("groups", ROW),
        (run, "compute_answers", groups_of_rows(run.compute_answers)),
    ),
    "averages priced as if no row could leave": (
        question("several", REPLACED),
        (replaced_rows, "_counts_every_row", lambda plan: True),
    ),
    "averages of groups priced as of one": (
        question("averages of groups", ("zcdp", "replace-one", 3)),
        (replaced_rows, "_compute_weight", lambda plan: real_weight(plan) / 2),
    ),
    "a read that hangs on rows": (
        question("groups", ROW),
        (PrivateTable, "count_by_cell", when_there(PrivateTable.count_by_cell)),
    ),
}
OTHERS = {
    "fine counts charged once whatever their levels": (
        lambda: iter([one_release("synth levels", ROW, bounds=(0, 123_456), kind=ALONE)]),
        (tree.TreePlan, "event", property(once)),
    ),
    "noise for one bought rate whatever their number": (
        lambda: iter([breaking_all(ZCDP_ROW)]),
        (tree, "plan_rate_noise", lambda spec, schema, count, *rest: real_rates(spec, schema, min(count, 1), *rest)),
    ),
    "counts of right answers of users with m for m^2": (
        lambda: iter([one_release("synth judges", ZCDP, kind=TARGET)]),
        (tree, "plan_report_noises", few_judges),
    ),
    "moments with a quarter of the variance off the diagonal": (
        release("moments", ZCDP),
        (moments, "_add_noise", quarter),
    ),
    "an offer's sums at half the variance": (
        release("offer key", ZCDP),
        (statistics, "_add_noise", lambda plan, values, p: real_sums(plan, values, None if p is None else p / 2)),
    ),
    "a sketch whose number of records costs nothing at all": (
        lambda: leaving("sketch dense", ("pure", "replace-one", 3)),
        (
            sketched,
            "add_counter_noise",
            lambda plan, values, p: real_counters(plan, values, p / 64 if values.size == 1 else p),
        ),
    ),
    "a sketch at half the scale": (
        release("sketch dense", USER),
        (sketched, "add_counter_noise", lambda plan, values, p: real_counters(plan, values, p / 2)),
    ),
    "gradients that are not clipped": (
        release("synth chain", ZCDP_ROW),
        (chain, "sum_clipped_gradients", lambda *given: real_gradients(*given) * 100),
    ),
}


def one_more(real: Any) -> Callable[..., Any]:
    """Shares of noise as for one honest silo more than there surely are."""

    def measured(*given: Any, **named: Any) -> Any:
        def more(add: Any) -> Callable[..., Any]:
            return lambda values, *, honest, **settings: add(values, honest=honest + 1, **settings)

        with patch.multiple(distributed, **{name: more(getattr(distributed, name)) for name in SHARES}):
            return real(*given, **named)

    return measured


def in_a_sum(name: str, setting: Setting) -> Callable[[], Iterator[Found]]:
    return lambda: iter([part_of_sum(name, setting, random.Random(0))])


SHARES = ("add_laplace_share", "add_gaussian_share")
SILOS = {
    f"a share of {law} noise for one honest silo more, in a {name}": (
        in_a_sum(name, setting),
        (place, measured, one_more(getattr(place, measured))),
    )
    for name, place, measured in (
        ("sum of marginals", counting, "add_noise_shares"),
        ("sum of sketches", federated, "measure_share"),
    )
    for law, setting in (("Laplace", ROW), ("Gaussian", ZCDP_ROW))
}
PLANTED: dict[str, Any] = {**EXPLORE, **OTHERS, **SILOS}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name: str) -> None:
    audited, fault = PLANTED[name]
    found = list(audited())
    assert [one.status for one in found] == ["answered"]
    assert not faults(iter(found))
    with patch.object(*fault):
        assert faults(audited()), name
