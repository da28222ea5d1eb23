"""The reports of a user's devices in one epoch, replayed for another user's rows: local privacy, call by call."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.replay.audit import Found
from benchmarks.replay.tape import Differs, Tape
from siloquent.collect import design, parse_spec
from siloquent.collect.measure import device

SERVICES = """
format = 1
name = "shop"
epsilon = "{epsilon}"
[[service]]
name = "profile"
everyone = true
attribute = [
  {{ name = "age", type = "integer", lo = 0, hi = {hi}, outside = "clamp", null = {{ value = 0 }} }},
  {{ name = "region", type = "category", values = ["a", "b", "c"], other = "cell", null = "cell" }},
]
[[service]]
name = "orders"
per_user = {per_user}
attribute = [
  {{ name = "amount", type = "integer", lo = 0, hi = {hi}, outside = "clamp", null = "drop" }},
  {{ name = "gift", type = "boolean", null = "drop" }},
]
"""
VALUES: list[Any] = [
    0,
    1,
    5,
    -3,
    10**9,
    2**62,
    1e308,
    -0.0,
    float("nan"),
    float("inf"),
    None,
    "a",
    "b",
    "?",
    True,
    False,
    [],
]


def reported(seeds: range) -> Iterator[Found]:
    """Reports to both services of one collection a seed, from rows of two users who have nothing in common."""
    for seed in seeds:
        chance = random.Random(f"reported {seed}")
        epsilon = Fraction(chance.choice(["1/2", "1", "2", "4"]))
        text = SERVICES.format(epsilon=epsilon, hi=chance.choice([3, 24, 99]), per_user=chance.choice([1, 2, 3]))
        document = json.loads(design(parse_spec(text)).to_json())
        users = [{name: _rows(chance, name) for name in ("profile", "orders")} for _ in range(2)]
        first = Tape()
        sent = _sent(document, users[0], first)
        faults, loss = [], Fraction(0)
        try:
            tape = Tape(first=first)
            again = _sent(document, users[1], tape)
            if sent != again:
                faults.append("released differs")
            loss = sum((_loss(a, b) for a, b in zip(first.calls, tape.calls, strict=True)), Fraction(0))
        except Differs as differs:
            faults.append(f"calls differ: {differs}")
        # Two of 2^64 words are between a threshold and the real number that it is rounded from.
        if loss > epsilon:
            faults.append(f"undercharged: {float(loss)} for {float(epsilon)}")
        kinds = tuple(call.name for call in first.calls)
        yield Found("collect", "local", "user", "any rows", "answered", kinds, loss, epsilon, tuple(faults))


def _rows(chance: random.Random, service: str) -> list[dict[str, Any]]:
    names = ("age", "region") if service == "profile" else ("amount", "gift")
    count = 1 if service == "profile" else chance.randint(0, 5)
    return [{name: chance.choice(VALUES) for name in names} for _ in range(count)]


def _sent(document: dict[str, Any], rows: dict[str, list[dict[str, Any]]], tape: Tape) -> list[bytes]:
    subset, hashed = _over(tape, device._build_subset_draw), _over(tape, device._build_hash_draw)
    with patch.object(device, "_build_subset_draw", subset), patch.object(device, "_build_hash_draw", hashed):
        client, own = device.Client(document), device.Device("u", b"k" * 16, {})
        return [client.report(name, rows[name], own) for name in ("profile", "orders")]


def _over(tape: Tape, real: Callable[..., Any]) -> Callable[..., Any]:
    def make(nodes: int, size: int, truth: int) -> Callable[..., bytes]:
        draw = real(nodes, size, truth)
        settings = {"nodes": nodes, "size": size, "truth": truth}

        def over(node: int, words: Any) -> bytes:
            given: bytes = tape(real.__name__, np.array([node]), settings, lambda: draw(node, words))
            return given

        return over

    return make


def _loss(call: Any, other: Any) -> Fraction:
    """ln of the most that any report is likelier under one node than under another; from the thresholds alone."""
    if int(call.exact[0]) == int(other.exact[0]):
        return Fraction(0)
    nodes, size, truth = (call.settings[name] for name in ("nodes", "size", "truth"))
    lies = 2**64 - truth
    if call.name == "_build_subset_draw":
        # A set with the node: truth / C(k-1, w-1); one without it: lies / C(k-1, w).
        ratio = Fraction(truth * (nodes - size), lies * size)
    else:
        ratio = Fraction(truth * (size - 1), lies)
    assert ratio >= 1, "the truth is the less likely report"
    # Rounded down by less than 2^-50, so that a threshold that fits is not called too high.
    return Fraction(math.log(ratio)) * (1 - Fraction(1, 2**50))
