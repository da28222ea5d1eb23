"""Reports as they are kept: one a user, none lost, none counted twice; and what forged ones look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from siloquent.collect import (
    ReportStore,
    build_single_row_users,
    encode_batch,
    estimate,
    find_client_anomalies,
    perturb_all,
)
from siloquent.errors import RequestError, TooFewReports
from unit.collect.shops import FINE, ORDERS, PROFILE, WIDE, collection, shoppers

MADE = collection(PROFILE, ORDERS, min_reports=100)
BATCHES = perturb_all(MADE, shoppers(5_000, seed=1))
DATA = [encode_batch(MADE, batch) for batch in BATCHES]


def test_reports_outlive_the_program_and_duplicates_are_known_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.reports"
    with ReportStore(MADE, path) as store:
        assert store.ingest(DATA[0]).accepted == 5_000
    with ReportStore(MADE, path) as store:
        counters = store.ingest(DATA[0] + DATA[0][:40] + DATA[1])
        assert (counters.accepted, counters.duplicate) == (5_000, 5_001)
        assert store.count_reports() == (5_000, 5_000)
        assert store.counters.total == 15_001


def test_reports_of_several_services_come_as_one_column_of_a_table() -> None:
    public = collection(PROFILE.replace('null = "cell" }', 'null = "cell", sensitive = false }'), ORDERS)
    profiles, orders = shoppers(300, seed=2)
    ages = replace(profiles, places=profiles.places[:, :1], public=profiles.places[:, 1:])
    sent = [encode_batch(public, batch) for batch in perturb_all(public, [ages, orders])]
    cells = [sent[at][i : i + size] for at, size in ((1, 40), (0, 44)) for i in range(0, len(sent[at]), size)]
    table = pa.table({"report": pa.array([None, b"", b"short", *cells, cells[0]], pa.binary()), "other": [0] * 604})
    with ReportStore(public) as store:
        counters = store.ingest_arrow(table)
        assert (counters.accepted, counters.duplicate, counters.bad_length, counters.total) == (600, 1, 3, 604)
        assert store.count_reports() == (300, 300)
        for wrong in ("other", "nothing"):
            with pytest.raises(RequestError, match="no binary column"):
                store.ingest_arrow(table, wrong)
        assert store.counters.total == 604


def test_a_length_that_the_first_report_lies_about_loses_no_other() -> None:
    public = collection(PROFILE.replace('null = "cell" }', 'null = "cell", sensitive = false }'), ORDERS)
    profiles, orders = shoppers(50, seed=2)
    ages = replace(profiles, places=profiles.places[:, :1], public=profiles.places[:, 1:])
    data = encode_batch(public, perturb_all(public, [ages, orders])[0])
    cells = [data[i : i + 44] for i in range(0, len(data), 44)]
    forged = cells[0][:1] + b"\x01" + cells[0][2:]
    with ReportStore(public) as store:
        counters = store.ingest_arrow(pa.table({"report": [forged, *cells]}))
    assert (counters.accepted, counters.bad_length) == (50, 1)


def test_a_second_report_in_one_file_does_not_replace_the_first() -> None:
    with ReportStore(MADE) as store:
        first, second = bytearray(DATA[1][:40]), bytearray(DATA[1][:40])
        second[2:4], second[24:] = DATA[1][42:44], DATA[1][64:80]
        counters = store.ingest(bytes(first + second))
        assert (counters.accepted, counters.duplicate) == (1, 1)
        assert store.count_layer_reports(1)[int.from_bytes(first[2:4], "big")] == 1


def test_enough_users_must_have_reported_what_is_asked_and_not_anything_else() -> None:
    """1,500 users, but each told two of four attributes: some 250 know any two of them together, some 750 any one."""
    made = collection(WIDE, min_reports=500)
    places = np.random.default_rng(4).integers(0, 25, (1_500, 4))
    with ReportStore(made) as store:
        store.add(perturb_all(made, [build_single_row_users(places)]))
        assert estimate(store, "SELECT COUNT(*) FROM wide WHERE a < 9").users == 1_500
        with pytest.raises(TooFewReports, match="this collection needs at least 500"):
            estimate(store, "SELECT COUNT(*) FROM wide WHERE a < 9 AND b < 9")


def test_another_collections_reports_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "shop.reports"
    ReportStore(MADE, path).close()
    with pytest.raises(RequestError, match="a different collection, epoch or design"):
        ReportStore(collection(PROFILE, ORDERS, epoch=2), path)
    (tmp_path / "no.reports").write_text("no database")
    with pytest.raises(RequestError, match="cannot be opened"):
        ReportStore(MADE, tmp_path / "no.reports")


def test_an_interrupted_ingestion_counts_nothing() -> None:
    with ReportStore(MADE) as store:
        broken = replace(BATCHES[1], columns=BATCHES[1].columns[:10])
        with pytest.raises(Exception, match=r".*"):
            store.add([BATCHES[0], broken])
        assert (store.count_reports(), store.counters.total) == ((0, 0), 0)
        assert store.ingest(DATA[0]).accepted == 5_000


def test_too_few_reports_give_no_number() -> None:
    with ReportStore(MADE) as store:
        store.ingest(DATA[0][: 40 * 99])
        with pytest.raises(TooFewReports, match="99 users reported"):
            estimate(store, "SELECT COUNT(*) FROM profile")
        store.ingest(DATA[0])
        with pytest.raises(TooFewReports, match="0 users reported"):
            estimate(store, "SELECT COUNT(*) FROM orders JOIN profile USING (user)")


def test_honest_reports_are_not_odd_and_forged_ones_are() -> None:
    with ReportStore(MADE) as store:
        store.add(BATCHES)
        assert [one for one in find_client_anomalies(MADE, [store.tally((at,)) for at in (0, 1)]) if one.is_odd] == []
    with ReportStore(MADE) as store:
        chosen = replace(BATCHES[0], layers=np.zeros_like(BATCHES[0].layers))
        store.add([chosen])
        found = find_client_anomalies(MADE, [store.tally((0,))])
        assert found[0].is_odd
    with ReportStore(MADE) as store:
        one = BATCHES[0]
        same = one.columns.copy()
        for layer in np.unique(one.layers):
            mine = one.layers == layer
            same[mine] = one.columns[mine][0]  # everybody sends the same set
        store.add([replace(one, columns=same)])
        assert find_client_anomalies(MADE, [store.tally((0,))])[1].is_odd


def changed(report: bytes, place: int, value: int) -> bytes:
    return report[:place] + bytes([value]) + report[place + 1 :]


FORGED = {
    "bad_version": lambda report: changed(report, 0, 2),
    "wrong_digest": lambda report: changed(report, 4, report[4] ^ 1),
    "unknown_service": lambda report: changed(report, 1, 7),
    "bad_layer": lambda report: changed(report, 2, 255),
    "bad_length": lambda report: report[:39],
}


@pytest.mark.parametrize(("code", "forge"), FORGED.items(), ids=FORGED)
def test_each_edited_report_is_refused_under_its_code(code: str, forge: Callable[[bytes], bytes]) -> None:
    with ReportStore(MADE) as store:
        counters = store.ingest(DATA[1][:40] + forge(DATA[1][40:80]))
        assert (counters.accepted, getattr(counters, code), counters.total) == (1, 1, 2)


def test_payloads_that_no_client_draws_are_refused() -> None:
    made = collection(FINE)
    places = np.column_stack([np.arange(400) % 625, np.arange(400) % 25])
    (batch,) = perturb_all(made, [build_single_row_users(places)])
    data = encode_batch(made, batch)
    for kind, forge in (
        ("subset", lambda own: own[:24] + bytes(16)),  # nothing in the set
        ("subset", lambda own: own[:24] + bytes([255]) * 16),  # everything, and nodes that there are not
        ("hash", lambda own: own[:24] + bytes(4) + own[28:]),  # a = 0
        ("hash", lambda own: own[:35] + bytes([200]) + own[36:]),  # a bucket that there is not
        ("hash", lambda own: own[:39] + b"\x01"),  # four bytes that are zero
    ):
        at = next(i for i, layer in enumerate(batch.layers) if made.channels[0].layers[layer].kind == kind)
        with ReportStore(made) as store:
            counters = store.ingest(forge(data[40 * at : 40 * at + 40]))
            assert (counters.accepted, counters.bad_payload) == (0, 1)


def test_more_groups_than_ten_thousand_are_refused() -> None:
    made = collection(WIDE.replace("resolution = 5", "resolution = 25"), min_reports=2)
    with ReportStore(made) as store:
        places = np.random.default_rng(1).integers(0, 25, (100, 4))
        store.add(perturb_all(made, [build_single_row_users(places)]))
        with pytest.raises(RequestError, match="the limit is 10,000"):
            estimate(store, "SELECT a, b, c, COUNT(*) FROM wide GROUP BY a, b, c")
