"""The demo's visits keep every statement that their table file makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from siloquent.demo import check_visits, make_visits
from siloquent.demo import visits as declared


@pytest.fixture(scope="module")
def visits() -> pa.Table:
    return make_visits(np.random.default_rng(20240229))


@pytest.mark.parametrize("seed", range(5))
def test_every_statement_holds_whatever_the_seed(seed: int) -> None:
    check_visits(make_visits(np.random.default_rng(seed), rows=2_000, patients=600))


def test_there_are_20_000_visits_of_6_000_patients(visits: pa.Table) -> None:
    assert visits.num_rows == 20_000
    assert len(set(visits["patient"].to_pylist())) == 6_000
    assert len(set(visits["visit_id"].to_pylist())) == 20_000


def test_the_same_generator_gives_the_same_rows(visits: pa.Table) -> None:
    assert make_visits(np.random.default_rng(20240229)).equals(visits)
    assert not make_visits(np.random.default_rng(1)).equals(visits)


def test_some_sixteen_percent_come_back_and_every_ward_is_used(visits: pa.Table) -> None:
    share = np.mean(visits["readmitted"].to_numpy())
    assert 0.15 < share < 0.17
    assert set(visits["ward"].to_pylist()) == set(declared.WARDS)
    assert set(visits["diagnosis"].to_pylist()) == set(declared.DIAGNOSES)


def changed(visits: pa.Table, name: str, row: int, value: object) -> pa.Table:
    values = visits[name].to_pylist()
    values[row] = value
    return visits.set_column(
        visits.column_names.index(name), name, pa.array(values, type=visits.schema.field(name).type)
    )


def first(visits: pa.Table, name: str, value: object) -> int:
    return int(visits[name].to_pylist().index(value))


def test_a_broken_dependency_is_caught(visits: pa.Table) -> None:
    row = first(visits, "chapter", "endocrine")
    with pytest.raises(AssertionError, match="diagnosis -> chapter"):
        check_visits(changed(visits, "chapter", row, "nervous"))


def test_a_deceased_patient_who_comes_back_is_caught(visits: pa.Table) -> None:
    with pytest.raises(AssertionError, match="deceased"):
        check_visits(changed(visits, "readmitted", first(visits, "outcome", "deceased"), 1))


def test_an_icu_visit_without_a_day_is_caught(visits: pa.Table) -> None:
    with pytest.raises(AssertionError, match="icu"):
        check_visits(changed(visits, "stay_days", first(visits, "ward", "icu"), 0))


def test_a_longer_stay_that_is_cheaper_is_caught(visits: pa.Table) -> None:
    with pytest.raises(AssertionError, match="dearer but shorter"):
        check_visits(changed(visits, "cost_eur", first(visits, "stay_days", 20), 1))


def test_a_value_beyond_its_bounds_is_caught(visits: pa.Table) -> None:
    with pytest.raises(AssertionError, match="bounds of stay_days"):
        check_visits(changed(visits, "stay_days", int(np.argmax(visits["stay_days"].to_numpy())), 61))
