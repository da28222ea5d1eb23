"""The one file that runs on devices: values, lengths, memory, and what it refuses."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from siloquent.collect import Client, Device, perturb
from siloquent.collect.measure import device as module
from siloquent.collect.spec.collection import compute_plain_digest
from siloquent.errors import RequestError, UnknownName
from unit.collect.shops import FINE, ORDERS, PROFILE, WIDE, collection

KEY = bytes(range(32))


def client(*services: str, **settings: object) -> Client:
    return Client(json.loads(collection(*services, **settings).to_json()))


def test_it_is_one_short_file_that_needs_nothing_but_python() -> None:
    source = Path(module.__file__).read_text("utf-8")
    assert len(source.splitlines()) < 450  # the client, and what it checks
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("rows", [[], [{}], [{"amount": 3}], [{"amount": 3, "gift": True}] * 3, [{"amount": 3}] * 50])
def test_reports_have_one_length_whatever_the_rows(rows: list[dict[str, object]]) -> None:
    made = client(PROFILE, ORDERS)
    for user in range(30):
        assert len(made.report("orders", rows, Device(f"u{user}", KEY, {}))) == 40


def test_the_same_bytes_are_sent_again_and_new_rows_change_nothing() -> None:
    made, device = client(PROFILE, ORDERS), Device("u", KEY, {})
    first = made.report("orders", [{"amount": 3, "gift": True}], device)
    assert made.report("orders", [{"amount": 24, "gift": False}] * 3, device) == first
    assert made.report("profile", [], device) != first
    assert set(device.memory) == {f"{made.digest}:0", f"{made.digest}:1", "shop:1"}


def test_a_second_design_of_an_epoch_gets_no_second_draw() -> None:
    device = Device("u", KEY, {})
    first = client(PROFILE).report("profile", [], device)
    again = client(PROFILE, min_reports=2_000)  # the owner's new design under the old name and epoch
    with pytest.raises(ValueError, match="another design of this epoch"):
        again.report("profile", [], device)
    with pytest.raises(RequestError, match="another design"):
        perturb(collection(PROFILE, min_reports=2_000), "profile", [], device)
    assert client(PROFILE).report("profile", [], device) == first
    assert len(client(PROFILE, min_reports=2_000, epoch=2).report("profile", [], device)) == 40


def test_a_new_epoch_is_a_new_report_under_a_new_token() -> None:
    device = Device("u", KEY, {})
    one = client(PROFILE).report("profile", [], device)
    other = client(PROFILE, epoch=2).report("profile", [], device)
    assert one[8:24] != other[8:24]
    assert one[4:8] != other[4:8]


def test_services_of_one_user_share_the_token_and_nobody_without_the_key_knows_it() -> None:
    made = client(PROFILE, ORDERS)
    mine, theirs = (made.report(name, [], Device("u", KEY, {}))[8:24] for name in ("profile", "orders"))
    assert mine == theirs
    assert made.report("profile", [], Device("u", bytes(32), {}))[8:24] != mine


def test_layers_hang_on_the_user_alone() -> None:
    made = client(PROFILE, ORDERS)
    rows = [[], [{"amount": 0, "gift": False}], [{"amount": 24, "gift": True}] * 3]
    for user in range(50):
        assert len({made.report("orders", own, Device(f"u{user}", KEY, {}))[2:4] for own in rows}) == 1


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Device("u", b"short", {})


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not a collection's document"):
        Client({"kind": "other", "format": 1})
    plain = json.loads(collection(PROFILE).to_json())
    plain["assignments"][0]["words"] += 1
    with pytest.raises(ValueError, match="digest does not fit"):
        Client(plain)
    bare = {name: value for name, value in plain.items() if name != "digest"}
    with pytest.raises(ValueError, match="add up"):
        Client({**bare, "digest": compute_plain_digest(bare)})


BROKEN: dict[str, tuple[tuple[str | int, ...], object]] = {
    "a name with a space": (("name",), "my shop"),
    "a name that is a path": (("name",), "../shop"),
    "a long name": (("name",), "s" * 65),
    "epoch 0": (("epoch",), 0),
    "an epoch beyond 32 bits": (("epoch",), 2**31),
    "an epoch that is true": (("epoch",), True),
    "an epoch in words": (("epoch",), "1"),
    "a boolean of one value": (("services", 1, "attributes", 1, "size"), 1),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_document_with_a_part_that_cannot_be_is_refused(broken: str) -> None:
    """Its digest fits: whoever writes the document computes it."""
    (*path, last), value = BROKEN[broken]
    plain = json.loads(collection(PROFILE, ORDERS).to_json())
    del plain["digest"]
    part = plain
    for step in path:
        part = part[step]
    part[last] = value
    with pytest.raises(ValueError, match=r"."):
        Client({**plain, "digest": compute_plain_digest(plain)})


def test_the_front_door_says_what_is_wrong() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'orders'"):
        perturb(collection(PROFILE, ORDERS), "order", [], Device("u", KEY, {}))
    together = collection(PROFILE, ORDERS, client="coordinated")
    with pytest.raises(RequestError, match="rows by service"):
        perturb(together, "orders", [], Device("u", KEY, {}))


def test_a_coordinated_client_reports_once_for_all_services() -> None:
    together, device = collection(PROFILE, ORDERS, client="coordinated"), Device("u", KEY, {})
    rows = {"profile": [{"age": 3, "region": "a"}], "orders": [{"amount": 5, "gift": True}]}
    assert perturb(together, "orders", rows, device) == perturb(together, "profile", rows, device)
    for own in ({}, {"profile": [{"age": 3}]}, {"orders": rows["orders"]}):
        assert len(perturb(together, "orders", own, Device("u", KEY, {}))) == 40


def test_public_attributes_make_every_report_longer_by_the_same() -> None:
    public = PROFILE.replace('null = "cell" }', 'null = "cell", sensitive = false }')
    made = client(public)
    for region in ("a", "c", "nowhere", None, 7):
        report = made.report("profile", [{"age": 3, "region": region}], Device("u", KEY, {}))
        assert len(report) == 44
        wanted = {"a": 0, "c": 2, "nowhere": 3}.get(region, 4) if isinstance(region, str) else 4
        assert int.from_bytes(report[40:], "big") == wanted


VALUES = [
    *[0, 1, 24, 25, -1, 3.4, 3.5, -0.0, 1e300, -1e308, 10**400, float("inf"), float("-inf"), float("nan")],
    *[None, True, False, "a", "b", "nowhere", "", [], {}],
    *["2024-01-01", "2024-01-25", "2024-01-26", "2023-12-31", "2024-02-30", "2024-01-07T12:00:00"],
]


@pytest.mark.parametrize("services", [PROFILE, ORDERS, WIDE, FINE], ids=["profile", "orders", "wide", "fine"])
def test_a_device_reads_values_as_the_schema_does(services: str) -> None:
    made = collection(services)
    for role, plain in zip(
        made.spec.services[0].roles, json.loads(made.to_json())["services"][0]["attributes"], strict=True
    ):
        index = module._build_index(plain)
        for value in VALUES:
            if isinstance(value, bool) and role.attribute.kind != "boolean":
                continue  # JSON's true is no number and no text on a device
            if isinstance(value, str) == role.attribute.is_numeric or (
                role.attribute.kind == "boolean" and not isinstance(value, bool)
            ):
                continue  # nor is text a number
            if role.attribute.kind == "category" and not isinstance(value, str):
                continue
            assert index(value) == role.attribute.index(value), (role.attribute.name, value)
