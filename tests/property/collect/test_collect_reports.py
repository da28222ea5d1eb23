"""What holds for all users and all reports: lengths, totals, order, sums of disjoint ranges, bytes of any kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.collect import Client, Device, ReportStore, encode_batch, estimate, perturb_all
from siloquent.collect.measure.tally import tally
from siloquent.collect.measure.wire import read_reports
from unit.collect.shops import FINE, ORDERS, PROFILE, collection, shoppers

KEY = bytes(32)
MADE = collection(PROFILE, ORDERS, min_reports=2)
CLIENT = Client(json.loads(MADE.to_json()))
VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.none(), max_size=1)
ROWS = st.lists(st.dictionaries(st.sampled_from(["amount", "gift", "age", "region", "other"]), VALUE), max_size=8)


@settings(deadline=None)
@given(service=st.sampled_from(["profile", "orders"]), rows=ROWS, user=st.text(max_size=8, alphabet="abc0"))
def test_every_user_sends_the_same_number_of_bytes(service: str, rows: list[dict[str, object]], user: str) -> None:
    report = CLIENT.report(service, rows, Device(user, KEY, {}))
    assert len(report) == 40
    batches, counters = read_reports(MADE, report)
    assert counters.total == 0
    assert [len(batch.layers) for batch in batches] == [1]


@settings(deadline=None)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_accepted_or_counted_as_refused(data: bytes) -> None:
    batches, counters = read_reports(MADE, data)
    assert sum(len(batch.layers) for batch in batches) + counters.total == -(-len(data) // 40)


@settings(deadline=None)
@given(place=st.integers(0, 39), value=st.integers(0, 255))
def test_a_report_with_another_head_is_not_counted(place: int, value: int) -> None:
    honest = CLIENT.report("orders", [], Device("u", KEY, {}))
    report = bytearray(honest)
    report[place] = value
    batches, counters = read_reports(MADE, bytes(report))
    counted = sum(len(batch.layers) for batch in batches)
    assert counted + counters.total == 1
    if place in (0, 1, *range(4, 8)):  # version, service, digest: only what it was is counted
        assert counted == (bytes(report) == honest) or (place, value) == (1, 0)


@pytest.fixture(scope="module")
def store() -> ReportStore:
    made = collection(PROFILE, ORDERS, min_reports=2)
    kept = ReportStore(made)
    kept.add(perturb_all(made, shoppers(20_000, seed=1)))
    return kept


@given(cut=st.integers(0, 22), end=st.integers(0, 1))
@settings(deadline=None, max_examples=25)
def test_disjoint_ranges_add_up(store: ReportStore, cut: int, end: int) -> None:
    high = 24 - end
    parts = [
        estimate(store, f"SELECT COUNT(*) FROM profile WHERE age BETWEEN {low} AND {top}").value
        for low, top in ((0, cut), (cut + 1, high), (0, high))
    ]
    assert parts[0] + parts[1] == pytest.approx(parts[2], rel=1e-9)


def test_all_users_are_counted_exactly_where_everyone_has_a_row(store: ReportStore) -> None:
    assert estimate(store, "SELECT COUNT(*) FROM profile").value == pytest.approx(20_000, rel=1e-12)
    groups = estimate(store, "SELECT region, COUNT(*) FROM profile GROUP BY region").estimates
    assert sum(row[0].value for row in groups) == pytest.approx(20_000, rel=1e-9)


def test_the_order_of_reports_changes_nothing() -> None:
    batches = perturb_all(MADE, shoppers(500, seed=2))
    data = encode_batch(MADE, batches[1])
    reports = [data[at : at + 40] for at in range(0, len(data), 40)]
    np.random.default_rng(0).shuffle(reports)  # type: ignore[arg-type]
    (again,), _ = read_reports(MADE, b"".join(reports))
    one, other = tally(MADE, [batches[1]]).supports, tally(MADE, [again]).supports
    assert one.keys() == other.keys()
    assert all((one[key] == other[key]).all() for key in one)


@pytest.mark.parametrize("services", [(PROFILE, ORDERS), (FINE,)], ids=["sets", "hashes"])
def test_reports_travel_as_bytes_and_come_back(services: tuple[str, ...]) -> None:
    made = collection(*services)
    rows = shoppers(300, seed=3)
    if len(made.channels) == 1:
        random = np.random.default_rng(1)
        from siloquent.collect import build_single_row_users

        rows = (build_single_row_users(np.column_stack([random.integers(0, 625, 300), random.integers(0, 25, 300)])),)  # type: ignore[assignment]
    for batch in perturb_all(made, rows):
        (back,), counters = read_reports(made, encode_batch(made, batch))
        assert counters.total == 0
        for field in ("layers", "tokens", "columns", "public"):
            assert (getattr(back, field) == getattr(batch, field)).all()
