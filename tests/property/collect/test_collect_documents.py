"""No document gets more from a device than the epsilon that it names, whatever number in it was changed."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from fractions import Fraction
from math import comb, prod
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from siloquent.collect import Client, Device
from siloquent.collect.spec.collection import compute_plain_digest
from unit.collect.shops import FINE, ORDERS, PROFILE, WIDE, collection

MEASURED = """
[[service]]
name = "paid"
per_user = 2
attribute = [
  { name = "sum", type = "real", lo = 0, hi = 9, grid = 0.5, outside = "clamp", null = { value = 0 }, use = "measure" },
  { name = "age", type = "integer", lo = 0, hi = 60, outside = "clamp", null = "cell", alone = [0, 60] },
]
"""
TOWN = """
[[service]]
name = "town"
everyone = true
attribute = [
  { name = "age", type = "integer", lo = 0, hi = 9, outside = "clamp", null = { value = 0 } },
  { name = "kind", type = "category", values = ["x", "y"], other = "cell", null = "cell", sensitive = false },
]
"""
DOCUMENTS = [
    json.loads(made.to_json())
    for made in (
        collection(PROFILE, ORDERS),
        collection(PROFILE, ORDERS, client="coordinated", epsilon="1/3"),
        collection(WIDE, epsilon="20"),
        collection(FINE, epsilon="2"),
        collection(MEASURED, epsilon="3/2"),
        collection(TOWN, epsilon="7/1000"),
    )
]
Path = tuple[str | int, ...]


def numbers(plain: Any, path: Path = ()) -> Iterator[Path]:
    """The places of numbers, also of those written as text."""
    if isinstance(plain, dict | list):
        for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
            yield from numbers(value, (*path, key))
    elif isinstance(plain, bool | int | float) or (isinstance(plain, str) and plain[:1].isdigit()):
        yield path


PLACES = [(at, path) for at, plain in enumerate(DOCUMENTS) for path in numbers(plain) if path[0] != "digest"]


def changed(value: Any, way: int, other: int) -> Any:
    """``value`` made another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and "-" in value:  # a date
        return ["2024-01-02", "1999-01-01", "2999-01-01", ""][way % 4]
    whole = Fraction(value)
    new = [whole + 1, whole - 1, whole * 2, whole / 2, -whole, Fraction(other), whole + other, Fraction(2**64 - 1)][
        way % 8
    ]
    if isinstance(value, str):
        return str(new)
    return [int(new), float(new), int(new), int(new)][way // 8 % 4]


def put(plain: Any, path: Path, way: int, other: int) -> None:
    for key in path[:-1]:
        plain = plain[key]
    plain[path[-1]] = changed(plain[path[-1]], way, other)


def exp_up(x: Fraction) -> Fraction:
    """Above e^x: the series and a bound on its rest."""
    term, total = Fraction(1), Fraction(1)
    for n in range(1, 150):
        term *= x / n
        total += term
    return total + 2 * term


def worst(layer: Any) -> Fraction:
    """The largest likelihood ratio of one report, from the probabilities of all kinds of reports."""
    p, k, w = Fraction(int(layer["truth"]), 2**64), int(layer["nodes"]), int(layer["size"])
    each = [p, (1 - p) / (w - 1)] if layer["kind"] == "hash" else [p / comb(k - 1, w - 1), (1 - p) / comb(k - 1, w)]
    if min(each) <= 0:
        raise AssertionError("a report that is impossible for some users")
    return max(each) / min(each)


def finite_source() -> Any:
    left = iter(range(4_000))

    def draw(n: int) -> bytes:
        next(left)  # a device that does not end is seen, like one that fails
        return os.urandom(n)

    return draw


VALUES = [None, True, 3, -1, 24, 10**9, float("nan"), 0.5, "a", "zz", "2024-01-25", "1900-01-01", "2999-12-31"]


def require_safe(plain: dict[str, Any]) -> bool:
    """Whether a device takes the document; then what it sends is what the document says, whatever the rows are."""
    try:
        client = Client(plain)
    except ValueError:
        return False
    told = Fraction(plain["epsilon"])
    ratios = [[worst(layer) for layer in channel["layers"]] for channel in plain["channels"]]
    for one in plain["assignments"]:
        ratio = prod((own[at] for own, at in zip(ratios, one["layers"], strict=True)), start=Fraction(1))
        assert ratio <= exp_up(told), f"more than epsilon {told}"
    assert sum(one["words"] for one in plain["assignments"]) == 2**32
    for channel in plain["channels"]:
        lengths = set()
        services = {one["name"]: one for one in plain["services"] if one["name"] in channel["services"]}
        for user, value in enumerate([*VALUES, *VALUES]):
            rows = [{one["name"]: value for service in services.values() for one in service["attributes"]}]
            own = dict.fromkeys(services, rows * (user % 4))
            device = Device(f"u{user}", bytes(16), {}, finite_source())
            sent = client.report(next(iter(services)), own, device)
            lengths.add(len(sent))
            layer = channel["layers"][int.from_bytes(sent[2:4], "big")]
            if layer["kind"] == "subset":  # no node that is not one: it would name the value
                bits = int.from_bytes(sent[24:40], "little")
                assert bits < 1 << layer["nodes"]
                assert bits.bit_count() == layer["size"]
        assert len(lengths) == 1
    return True


@pytest.mark.parametrize("at", range(len(DOCUMENTS)))
def test_devices_take_every_design(at: int) -> None:
    assert require_safe(DOCUMENTS[at])


@example([(0, 0, 7)], 0)
@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 31), st.integers(-3, 200)), min_size=1, max_size=2),
    st.integers(0, len(DOCUMENTS) - 1),
)
@settings(max_examples=250, deadline=None)
def test_any_changed_number_is_refused_or_costs_no_more_than_was_told(
    changes: list[tuple[int, int, int]], at: int
) -> None:
    plain = copy.deepcopy(DOCUMENTS[at])
    places = [path for document, path in PLACES if document == at]
    for place, way, other in changes:
        put(plain, places[place % len(places)], way, other)
    plain.pop("digest")
    require_safe({**plain, "digest": compute_plain_digest(plain)})


def test_a_document_that_says_epsilon_4_with_thresholds_for_45_is_refused() -> None:
    plain = copy.deepcopy(DOCUMENTS[0])
    for channel in plain["channels"]:
        for layer in channel["layers"]:
            layer["truth"] = str(2**64 - 1)
    plain.pop("digest")
    with pytest.raises(ValueError, match="reveals more than the document's epsilon"):
        Client({**plain, "digest": compute_plain_digest(plain)})


@pytest.mark.parametrize("step", [1, -1])
def test_a_threshold_is_the_largest_that_is_allowed(step: int) -> None:
    """One more in 2^64 is refused: the comparison is exact, and its test sees the smallest fault."""
    plain = copy.deepcopy(DOCUMENTS[2])
    layer = plain["channels"][0]["layers"][0]
    layer["truth"] = str(int(layer["truth"]) + step)
    plain.pop("digest")
    sealed = {**plain, "digest": compute_plain_digest(plain)}
    if step < 0:
        Client(sealed)
        return
    with pytest.raises(ValueError, match="reveals more"):
        Client(sealed)


def test_what_refuses_is_seen_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from siloquent.collect.measure import device

    monkeypatch.setattr(device, "_compute_exp_down", lambda x: 1 << 400)
    plain = copy.deepcopy(DOCUMENTS[0])
    layer = plain["channels"][0]["layers"][0]
    layer["truth"] = str(2**64 - 1)
    plain.pop("digest")
    with pytest.raises(AssertionError, match="more than epsilon"):
        require_safe({**plain, "digest": compute_plain_digest(plain)})


def sealed(plain: dict[str, Any]) -> dict[str, Any]:
    plain.pop("digest")
    return {**plain, "digest": compute_plain_digest(plain)}


@pytest.mark.parametrize("name", ["", "a b", "a-b", "1st", "x" * 65, "caf\u00e9", "a\n", "a:1"])
def test_a_collection_whose_name_is_no_name_is_refused(name: str) -> None:
    """Memories are filed under name and epoch: one collection's could be another's."""
    plain = copy.deepcopy(DOCUMENTS[0])
    Client(sealed(copy.deepcopy(plain)))
    with pytest.raises(ValueError, match="named with letters"):
        Client(sealed({**plain, "name": name}))


@pytest.mark.parametrize("epsilon", ["0", "0/7", "21", "41/2", "-1", "1e1", "4.0", "", " 4", "4/0", 4, None, "4/3/2"])
def test_an_epsilon_that_no_device_takes_is_refused(epsilon: Any) -> None:
    with pytest.raises(ValueError, match="epsilon is above 0 and at most 20"):
        Client(sealed({**copy.deepcopy(DOCUMENTS[0]), "epsilon": epsilon}))


@pytest.mark.parametrize("change", [{"type": "decimal"}, {"lo": 0}, {"hi": 24}, {"grid": 1}, {"lo": None}])
def test_an_attribute_of_a_kind_that_no_device_knows_is_refused(change: dict[str, Any]) -> None:
    plain = copy.deepcopy(DOCUMENTS[2])
    plain["services"][0]["attributes"][0].update(change)
    with pytest.raises(ValueError, match="devices report categories"):
        Client(sealed(plain))


def test_a_layer_names_attributes_from_the_first_on() -> None:
    for plain in copy.deepcopy(DOCUMENTS):
        for channel in plain["channels"]:
            layer = next(one for one in channel["layers"] if one["attributes"][-1:] == [len(channel["fanouts"]) - 1])
            layer["attributes"][-1:] = []
            layer["attributes"][:0] = [-1]  # the same one, counted from the end
            layer["levels"] = layer["levels"][-1:] + layer["levels"][:-1]
        with pytest.raises(ValueError, match="attributes that are not the service's"):
            Client(sealed(plain))


HALVES = """
[[service]]
name = "halves"
everyone = true
attribute = [
  { name = "x", type = "real", lo = 0, hi = 12, grid = 0.5, outside = "clamp", null = { value = 0 } },
  { name = "y", type = "integer", lo = -3, hi = 20, outside = "clamp", null = { value = 0 } },
]
"""


def test_a_whole_number_is_reported_as_the_same_real_one_is() -> None:
    client = Client(json.loads(collection(HALVES).to_json()))

    def report(user: int, value: float) -> bytes:
        return client.report(
            "halves", [{"x": value, "y": value}], Device(f"u{user}", bytes(16), {}, Random(user).randbytes)
        )

    for value in (0, 5, 7, 12, 13, -1, -3, 20, 21):
        for user in range(20):
            assert report(user, value) == report(user, float(value))
    assert report(0, 5) != report(0, 6)
