"""What every client keeps: the same words give the same bytes, whoever draws them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from contract.collect import vectors
from siloquent.collect.measure.device import RandomWords, _build_hash_draw, _build_subset_draw
from siloquent.collect.measure.simulate import _encode_payload, pack_bit_words
from siloquent.collect.plan.thresholds import compute_threshold
from siloquent.collect.spec import read_collection
from siloquent.collect.spec.collection import LayerPlan
from siloquent.maths.local.frequency_oracles import Kind, choose_size
from siloquent.maths.local.supports import count_joint_supports, count_supports, find_supported
from siloquent.privacy.noise.local import HashDistribution, SetDistribution, draw_hashes, draw_sets


def kept() -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(vectors.FILE.read_text("utf-8"))
    return found


def test_the_vectors_are_two_hundred_and_are_what_the_client_sends() -> None:
    file = kept()
    assert len(file["cases"]) == 200
    made = [read_collection(json.dumps(one)) for one in file["collections"]]
    wrong = [
        case["user"]
        for case in file["cases"]
        if vectors.report_of(made[case["collection"]], case).hex() != case["report"]
    ]
    assert wrong == []


def layer(kind: Kind, nodes: int, epsilon: int = 2) -> LayerPlan:
    size = choose_size(kind, nodes, epsilon)
    weight, others = (size, nodes - size) if kind == "subset" else (1, size - 1)
    return LayerPlan(
        (0,), (1,), kind, nodes, size, compute_threshold(epsilon=Fraction(epsilon), weight=weight, others=others)
    )


def recorded() -> tuple[Callable[[int], bytes], bytearray]:
    """A source of random bytes, and all that it gave."""
    given = bytearray()

    def source(count: int) -> bytes:
        fresh = os.urandom(count)
        given.extend(fresh)
        return fresh

    return source, given


@pytest.mark.parametrize("nodes", [2, 3, 5, 25, 64, 65, 86, 87, 125, 128])
def test_compiled_sets_are_the_devices_sets(nodes: int) -> None:
    plan = layer("subset", nodes)
    source, given = recorded()
    held = np.random.default_rng(nodes).integers(0, nodes, 400)
    compiled = draw_sets(held, SetDistribution(nodes, plan.size, plan.truth), source=source)
    words, draw = RandomWords(reader(given)), _build_subset_draw(nodes, plan.size, plan.truth)
    plain = [draw(int(node), words) for node in held]
    assert compiled.astype("<u8").tobytes() == b"".join(plain)
    assert _encode_payload(plan, pack_bit_words(compiled)).tobytes() == b"".join(plain)


@pytest.mark.parametrize(("nodes", "epsilon"), [(2, 1), (129, 2), (625, 2), (10_000, 4), (300, 1)])
def test_compiled_hashes_are_the_devices_hashes(nodes: int, epsilon: int) -> None:
    plan = layer("hash", nodes, epsilon)
    source, given = recorded()
    held = np.random.default_rng(nodes).integers(0, nodes, 400)
    compiled = draw_hashes(held, HashDistribution(nodes, plan.size, plan.truth), source=source)
    words, draw = RandomWords(reader(given)), _build_hash_draw(nodes, plan.size, plan.truth)
    assert _encode_payload(plan, compiled).tobytes() == b"".join(draw(int(node), words) for node in held)


def reader(data: bytearray) -> Callable[[int], bytes]:
    """The bytes again, in order; then zeros, for what a reader fetches ahead."""
    at = 0

    def source(count: int) -> bytes:
        nonlocal at
        part = bytes(data[at : at + count])
        at += count
        return part + bytes(count - len(part))

    return source


def drawn(plan: LayerPlan, users: int, seed: int) -> np.ndarray:
    from siloquent.collect.measure.simulate import draw_reports

    return draw_reports(plan, np.random.default_rng(seed).integers(0, plan.nodes, users))


@pytest.mark.parametrize("plan", [layer("subset", 5), layer("subset", 125), layer("hash", 200)], ids=str)
def test_compiled_counts_are_the_sums_of_what_each_report_supports(plan: LayerPlan) -> None:
    columns = drawn(plan, 300, seed=1)
    wanted = find_supported(plan.kind, plan.nodes, plan.size, columns).sum(axis=0)
    assert (count_supports(plan.kind, plan.nodes, plan.size, columns) == wanted).all()


@pytest.mark.parametrize("count", [2, 3])
def test_joint_counts_are_the_sums_of_products(count: int) -> None:
    plans = [layer("subset", 6), layer("hash", 9), layer("subset", 4)][:count]
    columns = [drawn(plan, 200, seed) for seed, plan in enumerate(plans)]
    each = [
        find_supported(plan.kind, plan.nodes, plan.size, own).astype(int)
        for plan, own in zip(plans, columns, strict=True)
    ]
    wanted = np.einsum("ui,uj->ij" if count == 2 else "ui,uj,uk->ijk", *each)
    kinds, nodes, sizes = zip(*((plan.kind, plan.nodes, plan.size) for plan in plans), strict=True)
    assert (count_joint_supports(kinds, nodes, sizes, columns) == wanted).all()


def test_bits_beyond_the_last_node_count_nowhere() -> None:
    wild = np.full((100, 3), 2**43 - 1, dtype=np.int64)
    assert count_supports("subset", 5, 2, wild).tolist() == [100] * 6
