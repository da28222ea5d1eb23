"""What an offer releases is what the rows say; its file is safe; keys with other values line up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from siloquent.errors import ReleaseError
from siloquent.search import Budget, Feature, KeyOf, Offer, decode_offer, plan
from siloquent.search.domains import JoinKey, KeyPart
from siloquent.search.estimate.joins import compute_offer_means
from siloquent.search.offers import MeasuredSums
from unit.search.tables import TOWNS, rows, schema, session, spec

RICH = Budget(rho="500")


def truth(column: str, town: str) -> float:
    table = rows().to_pandas()
    return float(table[table.town == town][column].mean())


def test_means_by_key_are_those_of_the_rows(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        made = opened.search.offer(spec(features=("x", "kind"), budget=RICH))
    found = compute_offer_means(made, 0).values
    for place, town in enumerate(TOWNS):
        # The middle of x is 5 and half its range 5; a category's column is the share of its value.
        assert 5 + 5 * found[place, 0] == pytest.approx(truth("x", town), abs=0.05)
        table = rows().to_pandas()
        assert found[place, 1] == pytest.approx((table[table.town == town].kind == "p").mean(), abs=0.01)
    assert made.columns == ("x", "kind=p", "kind=q", "kind=r")


def test_second_moments_are_those_of_the_rows(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        made = opened.search.offer(spec(keys=(), features=("x", "y"), budget=RICH))
    table = rows().to_pandas()
    numbers = np.column_stack([(table.x - 5) / 5, (table.y - 50) / 50])
    second = made.compute_second_moments()
    assert second is not None
    assert np.allclose(second, numbers.T @ numbers, atol=2)
    assert np.array_equal(second, second.T)


def test_a_missing_value_counts_as_the_middle_and_its_indicator_says_so(tmp_path: Path) -> None:
    frame = rows(400)
    holed = frame.set_column(frame.column_names.index("y"), "y", pa.array([None] * 400, pa.int64()))
    with session(tmp_path, holed) as opened:
        made = opened.search.offer(spec(features=("y",), indicators=("y",), budget=RICH))
    counts, sums = made.get_key_sums(0)
    assert np.allclose(sums[:, 0], 0, atol=2)
    assert np.allclose(sums[:, 1], counts, atol=2)
    assert counts.sum() == pytest.approx(400, abs=3)


def test_a_row_with_a_feature_outside_counts_nowhere(tmp_path: Path) -> None:
    frame = rows(400)
    holed = frame.set_column(frame.column_names.index("x"), "x", pa.array([None, 5.0] * 200, pa.float64()))
    with session(tmp_path, holed) as opened:
        made = opened.search.offer(spec(budget=RICH))
    assert made.get_key_sums(0)[0].sum() == pytest.approx(200, abs=3)


def test_a_row_without_its_key_counts_nowhere(tmp_path: Path) -> None:
    frame = rows(400)
    lost = frame.set_column(frame.column_names.index("town"), "town", pa.array(["elsewhere"] * 400))
    with session(tmp_path, lost) as opened:
        made = opened.search.offer(spec(budget=RICH))
    assert abs(made.get_key_sums(0)[0]).max() < 2


def test_a_cut_draws_long_records_in(tmp_path: Path) -> None:
    frame = rows(200)
    far = frame.set_column(frame.column_names.index("x"), "x", pa.array(np.full(200, 10.0)))
    with session(tmp_path, far) as opened:
        made = opened.search.offer(spec(norm_cut=0.25, budget=RICH))
    counts, sums = made.get_key_sums(0)
    assert sums.sum() / counts.sum() == pytest.approx(0.25, abs=0.01)


def released(tmp_path: Path) -> Offer:
    with session(tmp_path) as opened:
        return opened.search.offer(spec(features=("x", "y"), second_moments="total"), key="k")


def test_higher_products_are_those_of_the_rows_and_round_trip(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        made = opened.search.offer(spec(keys=(), features=("x", "wet"), order=4, budget=RICH))
    again = decode_offer(made.to_bytes())
    assert again.to_bytes() == made.to_bytes()
    table = rows().to_pandas()
    x, wet = (table.x - 5) / 5, table.wet * 2.0 - 1
    expected = [(x**a * wet ** (4 - a)).sum() for a in (4, 3, 2, 1, 0)]
    assert np.allclose(again.measured.higher[1] / made.steps**4, expected, atol=25)
    for wrong in ((), again.measured.higher[:1], (again.measured.higher[0][:-1], again.measured.higher[1])):
        with pytest.raises(ReleaseError, match="higher products"):
            replace(made, measured=replace(made.measured, higher=wrong))


def test_the_file_round_trips_and_anything_else_is_refused(tmp_path: Path) -> None:
    made = released(tmp_path)
    data = made.to_bytes()
    assert decode_offer(data).to_bytes() == data
    for wrong in (b"", b"PK", data[:-20], data.replace(b"words", b"wards")):
        with pytest.raises(ReleaseError):
            decode_offer(wrong)


def test_a_file_with_other_shapes_or_noise_is_refused(tmp_path: Path) -> None:
    made = released(tmp_path)
    short = MeasuredSums(tuple(c[:-1] for c in made.measured.counts), made.measured.sums, made.measured.second)
    with pytest.raises(ReleaseError, match="shape"):
        replace(made, measured=short)
    floats = MeasuredSums(
        made.measured.counts, tuple(s.astype(float) for s in made.measured.sums), made.measured.second
    )  # type: ignore[arg-type]
    with pytest.raises(ReleaseError, match="whole numbers"):
        replace(made, measured=floats)
    from siloquent.releases.arrays import pack, unpack

    arrays, words = unpack(made.to_bytes(), (".*",))
    for change in ({"noise": "none"}, {"parameters": ["-1", "2", "3"]}, {"steps": 0}, {"format": 2}, {"keys": []}):
        with pytest.raises(ReleaseError):
            decode_offer(pack(arrays, {**words, **change}))


def key(*labels: str) -> JoinKey:
    return JoinKey((KeyPart("t", "category", len(labels), values=labels),))


def test_keys_line_up_by_value_whatever_their_order_and_names() -> None:
    mine, theirs = key("a", "b", "c"), key("c", "x", "a")
    assert mine.align_cells(theirs).tolist() == [2, -1, 0]
    assert mine.compute_overlap(theirs) == pytest.approx(2 / 3)
    assert key("a", "b").digest == JoinKey((KeyPart("other", "category", 2, values=("a", "b")),)).digest
    assert mine.digest != theirs.digest


def test_composite_keys_line_up_part_by_part() -> None:
    year = KeyPart("y", "integer", 2, "2020", "1")
    mine = JoinKey((*key("a", "b").parts, year))
    theirs = JoinKey((*key("b", "a").parts, KeyPart("y", "integer", 3, "2019", "1")))
    found = mine.align_cells(theirs)
    assert [theirs.get_labels(int(cell)) for cell in found] == [
        ("a", "2020"),
        ("a", "2021"),
        ("b", "2020"),
        ("b", "2021"),
    ]
    assert mine.compute_overlap(key("a")) == 0


def test_the_parent_of_a_key_is_its_first_characters() -> None:
    group, groups = plan(spec(keys=(KeyOf("town", parent=1),)), schema()).keys[0].compute_parents()
    assert (group.tolist(), groups) == ([0, 0, 1, 1], 2)


def test_a_category_or_number_knows_its_unit() -> None:
    number = Feature("x", "real", "0", "10", "1/100")
    assert (number.steps, number.columns, number.scale) == (1001, ("x",), ((5.0, 5.0),))
    holed = Feature("x", "category", values=("p", "q"), indicator=True)
    assert holed.columns == ("x=p", "x=q", "x is missing")
    assert (holed.blocks, len(holed.scale)) == (1, 3)  # where it is missing, it is neither p nor q
