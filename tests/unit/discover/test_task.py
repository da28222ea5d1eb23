"""Discovery through the Python interface: what is charged, what is released, and what is refused before a charge."""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.discover import BoundsPlan, BoundsSpec, DiscoveredKeys, KeysPlan, KeysSpec, ProposedBounds
from siloquent.discover import plan as plan_discovery
from siloquent.discover.plan import compute_passing_probability, restore_plan
from siloquent.discover.release import pack_keys, unpack_keys
from siloquent.errors import (
    BudgetExceeded,
    DataError,
    KeyReused,
    NotAllowed,
    RequestError,
    SiloquentError,
    UnknownName,
    WorkspaceError,
)
from siloquent.privacy import ThresholdedGaussian
from siloquent.privacy.budget import Budget
from siloquent.privacy.guarantee import Guarantee
from siloquent.releases.provenance import Provenance
from siloquent.schema.domains import MAX_DOMAIN_BYTES, parse_domain
from unit.discover.tables import CATEGORY, PURE, ROW, TEXT, declare, open_clinic, rows, schema, table

MANY = 2_000
COMMON = rows(("a", "flu", MANY), ("b", "cough", MANY), ("c", "rare", 1))


def spent(session: Any) -> tuple[int, int]:
    account = session.get_account("visits").spent
    return account.amount, account.delta


def test_common_keys_are_found_and_a_key_of_one_person_is_not(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    found = session.discover("visits", "diagnosis", epsilon="1")
    assert isinstance(found, DiscoveredKeys)
    assert found.keys == ("cough", "flu")  # a key of one person passes once in twenty million runs
    assert found.name == "visits-diagnosis"


def test_the_charge_is_the_planned_one_with_its_delta(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    planned = session.discover.explain("visits", "diagnosis", rho="0.01", keys_each=2)
    assert isinstance(planned, KeysPlan)
    found = session.discover("visits", "diagnosis", rho="0.01", keys_each=2)
    amount, delta = spent(session)
    assert 0.0099 * 10**12 < amount <= 0.01 * 10**12
    assert 0 < delta <= 5 * 10**10  # a tenth of delta_events, in billionths of a billionth
    assert found.guarantee.rho == planned.price
    assert found.guarantee.delta == planned.event.delta
    assert f"delta {float(planned.event.delta):.7f}"[:12] in found.guarantee.describe()
    assert session.ledger.verify().ok


def test_a_key_gives_the_same_release_at_no_cost_also_when_it_is_in_use(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    first = session.discover("visits", "diagnosis", epsilon="1", key="monday")
    before, file = spent(session), tmp_path / "domains" / "visits-diagnosis.toml"
    text = file.read_text()
    assert session.discover("visits", "diagnosis", epsilon="1", key="monday") == first
    file.unlink()
    assert session.discover("visits", "diagnosis", epsilon="1", key="monday") == first
    assert file.read_text() == text
    assert spent(session) == before
    with pytest.raises(KeyReused):
        session.discover("visits", "diagnosis", epsilon="2", key="monday")


def test_a_key_still_gives_the_release_when_the_account_s_delta_was_declared_anew(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    first = session.discover("visits", "diagnosis", epsilon="1", key="monday")
    file = tmp_path / "domains" / "visits-diagnosis.toml"
    earlier = file.read_text().replace(first.guarantee.describe(), "a guarantee under another delta")
    assert earlier != file.read_text()
    file.write_text(earlier)
    assert session.discover("visits", "diagnosis", epsilon="1", key="monday") == first
    assert file.read_text() == earlier


def test_a_name_that_was_taken_after_the_charge_or_edited_gives_way_to_the_next_one(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    prepared = session.discover.prepare("visits", "diagnosis", epsilon="1", name="found", key="late")
    late = prepared.run()
    first = session.discover("visits", "diagnosis", epsilon="1", name="found", key="first")
    before = spent(session)
    assert isinstance(late, DiscoveredKeys)
    for _ in range(2):
        assert session.discover.save(late).name == "found-2"
    assert session.discover("visits", "diagnosis", epsilon="1", name="found", key="late").name == "found-2"
    file = tmp_path / "domains" / "found.toml"
    file.write_text(file.read_text().replace('"flu"', '"flu", "the key of one person"'))
    again = session.discover("visits", "diagnosis", epsilon="1", name="found", key="first")
    assert (again.name, again.keys) == ("found-3", first.keys)
    assert parse_domain((tmp_path / "domains" / "found-3.toml").read_text()).values == first.keys
    assert spent(session) == before


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"values = [", b"", b"x" * (MAX_DOMAIN_BYTES + 1)], ids=range(4))
def test_a_damaged_domain_file_costs_no_release(tmp_path: Path, damage: bytes) -> None:
    session = open_clinic(tmp_path, COMMON)
    first = session.discover("visits", "diagnosis", epsilon="1", name="found", key="first")
    before, file = spent(session), tmp_path / "domains" / "found.toml"
    file.write_bytes(damage)
    again = session.discover("visits", "diagnosis", epsilon="1", name="found", key="first")
    assert (again.name, again.keys, spent(session)) == ("found-2", first.keys, before)
    assert file.read_bytes() == damage


def test_discoveries_that_race_for_a_name_are_all_kept(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    keys = [f"k{number}" for number in range(4)]
    found = [session.discover.prepare("visits", "diagnosis", epsilon="0.5", name="one", key=key).run() for key in keys]
    kept = [one for one in found if isinstance(one, DiscoveredKeys)]
    with ThreadPoolExecutor(4) as threads:
        names = list(threads.map(lambda one: session.discover.save(one).name, kept))
    assert sorted(names) == ["one", "one-2", "one-3", "one-4"]
    for one, name in zip(kept, names, strict=True):
        receipt = tomllib.loads((tmp_path / "domains" / f"{name}.toml").read_text())["release"]
        assert receipt["seq"] == one.provenance.seq


def test_the_declaration_may_use_what_was_found_and_the_key_still_replays(tmp_path: Path) -> None:
    first = open_clinic(tmp_path, COMMON)
    found = first.discover("visits", "diagnosis", epsilon="1", key="monday")
    first.close()
    session = sq.open(tmp_path)
    session.add_frame(schema(diagnosis=CATEGORY), COMMON)
    assert session.discover("visits", "diagnosis", epsilon="1", key="monday").keys == found.keys


def test_the_domain_file_holds_the_keys_and_their_receipt(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    found = session.discover("visits", "diagnosis", epsilon="1", name="diagnoses")
    text = (tmp_path / "domains" / "diagnoses.toml").read_text()
    assert parse_domain(text).values == found.keys
    receipt = tomllib.loads(text)["release"]
    assert receipt["account"] == "visits@1"
    assert receipt["seq"] == found.provenance.seq
    assert receipt["threshold"] == found.threshold
    assert receipt["guarantee"] == found.guarantee.describe()


def test_a_taken_name_is_refused_before_the_charge(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    session.discover("visits", "diagnosis", epsilon="1")
    before = spent(session)
    with pytest.raises(RequestError, match="already exists") as refused:
        session.discover("visits", "diagnosis", epsilon="1")
    assert "name='visits-diagnosis-2'" in refused.value.fix
    assert spent(session) == before
    assert session.discover("visits", "diagnosis", epsilon="1", name="visits-diagnosis-2").keys == ("cough", "flu")


def test_a_folder_that_cannot_be_written_is_found_before_the_charge(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    (tmp_path / "domains").write_text("a file is in the way")
    with pytest.raises(WorkspaceError):
        session.discover("visits", "diagnosis", epsilon="1")
    assert spent(session) == (0, 0)


DOTS = "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18"
HOSTILE = ['say "flu"', "back\\slash", "tab\there", "line\nbreak", "\x7f", "\u202eright to left", "\u00fcber", "", " "]
HOSTILE += [
    DOTS,
    f"x {DOTS}",
    "[[[[[[",
    "a" * 256,
    "9" * 250,
    "'; DROP TABLE visits; --",
    "Flu",
    "flu",
    "flu ",
    "x,y,z",
]
HOSTILE += ["\U0001f637", "-- ", "#", "= 1", "'''", '"' * 3]


def test_keys_are_told_apart_by_bytes_and_come_back_as_they_are(tmp_path: Path) -> None:
    frame = rows(*((f"{i}-", key, 400) for i, key in enumerate(HOSTILE)))
    session = open_clinic(tmp_path, frame)
    found = session.discover("visits", "diagnosis", epsilon="3")
    assert found.keys == tuple(sorted(HOSTILE, key=str.encode))
    assert parse_domain((tmp_path / "domains" / "visits-diagnosis.toml").read_text()).values == found.keys


def test_texts_that_cannot_be_values_count_as_no_key(tmp_path: Path) -> None:
    frame = rows(("a", "b" * 257, MANY), ("b", "(other)", MANY), ("c", None, MANY), ("d", "nul\0", MANY),
                 (None, "nobody", MANY), ("e", "fine", MANY))  # fmt: skip
    assert open_clinic(tmp_path, frame).discover("visits", "diagnosis", epsilon="1").keys == ("fine",)


@pytest.mark.parametrize("unit", [ROW, '{ kind = "user", column = "patient", max_rows = 3 }'])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_both_units_and_both_neighbour_relations(unit: str, adjacency: str, tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON, unit=unit, adjacency=adjacency)
    found = session.discover("visits", "diagnosis", rho="0.01")
    assert found.keys == ("cough", "flu")
    planned = plan_discovery(KeysSpec("visits", "diagnosis", Budget(rho="0.01")), session.schema("visits"))
    assert isinstance(planned.event, ThresholdedGaussian)
    assert planned.event.l2_squared == (2 if adjacency == "replace-one" else 1)


@pytest.mark.parametrize(("noise", "found"), [(-(10**6), ()), (10**6, ("cough", "flu", "rare"))])
def test_noisy_counts_alone_decide_what_is_found(
    noise: int, found: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siloquent.privacy.noise.add_gaussian", lambda values, **_: values + noise)
    assert open_clinic(tmp_path, COMMON).discover("visits", "diagnosis", epsilon="1").keys == found


@pytest.mark.parametrize("keys_each", [2, 5])
def test_the_planned_delta_is_that_of_all_keys_of_one_unit(keys_each: int) -> None:
    spec = KeysSpec("visits", "diagnosis", Budget(rho="0.01"), keys_each=keys_each)
    event = plan_discovery(spec, schema()).event
    assert isinstance(event, ThresholdedGaussian)
    passing = [
        compute_passing_probability(event.variance, keys_each=k, threshold=event.threshold) for k in (1, keys_each)
    ]
    assert event.delta == passing[1] > passing[0]


def test_an_event_of_other_sensitivity_is_planned_anew() -> None:
    spec = KeysSpec("visits", "diagnosis", Budget(rho="0.01"), keys_each=2)
    planned = plan_discovery(spec, schema())
    assert restore_plan(spec, schema(), planned.event) == planned
    assert restore_plan(spec, schema(adjacency="replace-one"), planned.event).event != planned.event
    assert restore_plan(replace(spec, keys_each=3), schema(), planned.event).event != planned.event


def test_a_person_with_many_rows_of_one_key_counts_once(tmp_path: Path) -> None:
    frame = table(["ann"] * 5_000 + [f"p{i}" for i in range(MANY)], ["one person"] * 5_000 + ["flu"] * MANY)
    assert open_clinic(tmp_path, frame).discover("visits", "diagnosis", epsilon="1", keys_each=3).keys == ("flu",)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_noise_is_that_of_the_event_on_counts_of_as_many_keys(
    adjacency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[list[int], Any]] = []

    def add_gaussian(values: Any, *, variance: Any) -> Any:
        drawn.append((sorted(values.tolist()), variance))
        return values

    monkeypatch.setattr("siloquent.privacy.noise.add_gaussian", add_gaussian)
    people = [f"p{i}" for i in range(200)]
    held = [(who, f"key {n}") for who in people for n in range(5)] * 2
    frame = table([who for who, _ in held], [what for _, what in held])
    session = open_clinic(tmp_path, frame, adjacency=adjacency)
    planned = session.discover.explain("visits", "diagnosis", rho="0.125", keys_each=2)
    assert isinstance(planned, KeysPlan)
    found = session.discover("visits", "diagnosis", rho="0.125", keys_each=2)
    ((counts, variance),) = drawn
    assert sum(counts) == 2 * len(people)
    assert variance == planned.event.variance == (16 if adjacency == "replace-one" else 8)
    assert isinstance(found, DiscoveredKeys)
    assert len(found.keys) == sum(count >= planned.event.threshold for count in counts)
    exact = session.discover.explain("visits", "cost", rho="0.125")
    assert isinstance(exact, BoundsPlan)
    session.discover("visits", "cost", rho="0.125")
    assert sum(drawn[1][0]) == 3 * len(people)
    assert drawn[1][1] == 36 * (2 if adjacency == "replace-one" else 1)


def test_nothing_found_is_an_answer(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, rows(("a", "flu", 3)))
    found = session.discover("visits", "diagnosis", epsilon="0.1")
    assert found.keys == ()
    assert "larger budget" in found.describe()
    assert not (tmp_path / "domains" / "visits-diagnosis.toml").exists()
    session.discover("visits", "diagnosis", epsilon="0.2")  # the name is still free


def test_an_empty_table_is_an_answer(tmp_path: Path) -> None:
    assert open_clinic(tmp_path, rows(("a", "flu", 0))).discover("visits", "diagnosis", epsilon="0.1").keys == ()


@pytest.mark.parametrize(
    ("given", "asked", "message", "fix"),
    [
        ({}, {"column": "patient"}, "identifies people", "describes people"),
        ({"diagnosis": TEXT.replace("text", "id").replace(", max_bytes = 1000", "")}, {}, "identifies", "describes"),
        ({"more": 'constraint = [{ kind = "key", columns = ["diagnosis"] }]'}, {}, "is a key", "describes"),
        ({}, {"column": "smoker"}, "known from its declaration", 'SELECT "smoker", COUNT(*) FROM "visits"'),
        ({}, {"column": "year"}, "derived from 'day'|bounds", "session.discover('visits', 'day', epsilon='1')"),
        ({"budget": PURE}, {}, "requires a delta", 'accountant = "zcdp"'),
        ({"budget": 'accountant = "zcdp"\nepsilon = "4"\ndelta = "1e-6"'}, {}, "no delta", "delta_events"),
        ({}, {"delta": "6e-7"}, "at most the account's", "epsilon='1', delta='0.00000005')"),
        ({"unit": ROW}, {"keys_each": 2}, "one value", "session.discover('visits', 'diagnosis', epsilon='1')"),
        ({"table": "size_hint = 20"}, {"epsilon": "0.1"}, "nothing would be found", "epsilon='"),
        ({"table": "size_hint = 3"}, {"epsilon": "0.1"}, "nothing would be found", "by hand"),
        ({"table": "size_hint = 3000"}, {"at_least": 5_000}, "nothing would be found", "epsilon='1', at_least=300)"),
        (
            {},
            {"column": "cost", "at_least": 5},
            "belongs to the keys",
            "session.discover('visits', 'cost', epsilon='1')",
        ),
        ({}, {"epsilon": "1e-9"}, "below rho|cannot be drawn", "0.0"),
        ({}, {"at_least": 0}, "at_least", "at_least=20"),
        ({}, {"name": "../x"}, "name of a released domain", 'name="___x"'),
        ({}, {"epsilon": None}, "budget of a discovery is missing", "epsilon='0.2')"),
    ],
)
def test_refusals_say_the_fix_and_spend_nothing(
    given: dict[str, str], asked: dict[str, Any], message: str, fix: str, tmp_path: Path
) -> None:
    session = open_clinic(tmp_path, COMMON, **given)
    asked = {"column": "diagnosis", "epsilon": "1", **asked}
    with pytest.raises(SiloquentError, match=message) as refused:
        session.discover("visits", asked.pop("column"), **asked)
    assert fix in refused.value.fix
    assert refused.value.spent == "nothing"
    assert spent(session) == (0, 0)


def test_the_fix_of_a_hopeless_budget_is_enough(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON, table="size_hint = 20")
    with pytest.raises(RequestError, match="nothing would be found") as refused:
        session.discover.explain("visits", "diagnosis", epsilon="0.1")
    enough = refused.value.fix.partition("epsilon='")[2].partition("'")[0]
    planned = session.discover.explain("visits", "diagnosis", epsilon=enough)
    assert isinstance(planned, KeysPlan)
    assert planned.sure_from <= 20


def plan_or_fix(session: Any, column: str, epsilon: str) -> tuple[Any, str]:
    try:
        return session.discover.explain("visits", column, epsilon=epsilon), ""
    except RequestError as refused:
        return None, refused.fix


@pytest.mark.parametrize("column", ["diagnosis", "cost"])
@pytest.mark.parametrize("size", [3, 20, 200, 3_000, 50_000])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
def test_a_budget_that_could_find_nothing_is_refused_free_and_its_fix_finds(
    column: str, size: int, epsilon: str, tmp_path: Path
) -> None:
    session = open_clinic(tmp_path, COMMON, table=f"size_hint = {size}")
    planned, fix = plan_or_fix(session, column, epsilon)
    assert spent(session) == (0, 0)
    if planned is None:
        enough = fix.partition("epsilon='")[2].partition("'")[0]
        if not enough:
            assert "size_hint" in fix
            return
        planned, fix = plan_or_fix(session, column, enough)
        assert planned is not None, fix
        assert not isinstance(planned, BoundsPlan) or planned.needed_rows <= size
    if isinstance(planned, KeysPlan):
        assert planned.sure_from <= size, "a value of all rows is surely found"
        assert ("at most one" in planned.warning) == (2 * planned.sure_from > size)


def test_what_is_refused_as_hopeless_would_have_found_nothing(tmp_path: Path) -> None:
    """All rows share one value, and the table does not say how many there are: nothing is refused."""
    size = 150
    told = open_clinic(tmp_path / "told", rows(("a", "flu", size)), table=f"size_hint = {size}")
    silent = open_clinic(tmp_path / "silent", rows(("a", "flu", size)))
    asked: list[tuple[str, str]] = [("diagnosis", "0.1"), ("cost", "0.2")]
    for column, epsilon in asked:
        with pytest.raises(RequestError, match="would be"):
            told.discover("visits", column, epsilon=epsilon)
        named = [{"name": f"d{n}"} if column == "diagnosis" else {} for n in range(4)]
        found = [silent.discover("visits", column, epsilon=epsilon, key=f"{column}{n}", **named[n]) for n in range(4)]
        empty = sum(one.keys == () if isinstance(one, DiscoveredKeys) else one.lo is None for one in found)
        assert empty >= 2, f"one of four finds something with probability 0.05 each: {column}"
    assert spent(told) == (0, 0)


def test_the_budget_and_its_deltas_have_an_end(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    with pytest.raises(BudgetExceeded):
        session.discover("visits", "diagnosis", epsilon="40")
    for number in range(2):
        session.discover("visits", "diagnosis", rho="0.0001", name=f"d{number}", delta="2e-7")
    with pytest.raises(BudgetExceeded, match="delta"):
        session.discover("visits", "diagnosis", rho="0.0001", name="d2", delta="2e-7")


def test_a_limit_on_the_cost_is_kept(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    with pytest.raises(RequestError, match="more than"):
        session.discover("visits", "diagnosis", rho="0.01", max_cost="0.005")
    assert spent(session) == (0, 0)


def test_unknown_names_are_suggested(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    with pytest.raises(UnknownName, match="diagnosis"):
        session.discover("visits", "diagnoses", epsilon="1")


def test_a_source_that_fails_leaves_the_charge_and_a_retry_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_clinic(tmp_path, COMMON)
    engine = session.table("visits").open_for_owner()[0]

    def fail(query: object) -> object:
        raise MemoryError("flu")

    with monkeypatch.context() as broken:
        broken.setattr(type(engine), "read_batches", lambda self, query: fail(query))
        with pytest.raises(DataError) as failed:
            session.discover("visits", "diagnosis", epsilon="1", key="k")
    assert "flu" not in str(failed.value)
    before = spent(session)
    assert before[0] > 0
    assert session.discover("visits", "diagnosis", epsilon="1", key="k").keys == ("cough", "flu")
    assert spent(session) == before


def test_rows_are_not_read_without_a_permit(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    other = session.ledger.open_account("other@1", limit=session.get_account("visits").limit, accountant="zcdp",
                                        unit="row", adjacency="add-remove")  # fmt: skip
    assert other
    planned = session.discover.explain("visits", "diagnosis", epsilon="1")
    permit = session.ledger.reserve("other@1", planned.event, key=None, digest="d" * 64)
    with pytest.raises(NotAllowed):
        list(session.table("visits").count_units_by_key("diagnosis", permit, keys_each=1))


@pytest.mark.slow
def test_a_stored_release_never_outgrows_a_domain_file() -> None:
    planned = plan_discovery(KeysSpec("visits", "diagnosis", Budget(rho="0.01")), schema())
    assert isinstance(planned, KeysPlan)
    price = planned.price
    nothing = Guarantee("zcdp", "one row", "add-remove", "visits@1", spent_before=price, spent_after=price)
    for key in ('"' * 256, "." * 256, "," * 256, "\u0001" * 256, "\U0001f637" * 64):
        payload = pack_keys(planned, [f"{i}{key}" for i in range(100_000)])
        found = unpack_keys(payload, "d", nothing, Provenance())
        assert len(found.keys) > 1_000
        assert parse_domain(found.to_toml()).values == found.keys


@pytest.mark.parametrize("budget", [PURE, None], ids=["pure", "zcdp"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_bounds_are_near_the_outer_quantiles(budget: str | None, adjacency: str, tmp_path: Path) -> None:
    size = 50_000
    cost = np.round(np.exp(np.random.default_rng(5).normal(3, 1, size)) - 5, 2)
    frame = table([f"p{i}" for i in range(size)], ["flu"] * size).set_column(2, "cost", pa.array(cost))
    session = open_clinic(tmp_path, frame, adjacency=adjacency, **({} if budget is None else {"budget": budget}))
    planned = session.discover.explain("visits", "cost", epsilon="3")
    assert isinstance(planned, BoundsPlan)
    found = session.discover("visits", "cost", epsilon="3")
    assert isinstance(found, ProposedBounds)
    low, high = np.quantile(cost, [0.001, 0.999])
    assert 2 * low < float(found.lo) < low / 2 < 0  # type: ignore[arg-type]
    assert high / 2 < float(found.hi) < 2 * high  # type: ignore[arg-type]
    assert Decimal(str(found.lo)) % Decimal("0.01") == 0
    assert "lo = " in found.declaration
    assert not (tmp_path / "domains").exists()


def test_bounds_of_dates_are_dates(tmp_path: Path) -> None:
    found = open_clinic(tmp_path, COMMON).discover("visits", "day", epsilon="1")
    assert isinstance(found, ProposedBounds)
    assert found.lo is not None
    assert found.lo <= date(2024, 2, 29) <= found.hi  # type: ignore[operator]
    assert 200 < (found.hi - found.lo).days < 400  # type: ignore[operator]
    assert f"lo = {found.lo}" in found.declaration


def test_no_bounds_are_an_answer(tmp_path: Path) -> None:
    found = open_clinic(tmp_path, rows(("a", "flu", 3))).discover("visits", "cost", epsilon="0.1")
    assert isinstance(found, ProposedBounds)
    assert found.lo is None
    assert "spend more" in found.describe()
    assert found.declaration == ""


def test_bins_cover_every_cell_once() -> None:
    for lo, hi, grid in ((-1_000_000, 1_000_000, "0.01"), (0, 9, "1"), (5, 5, "1"), (-3, -3, "0.5"), (-8, 100, "2")):
        text = f'lo = {lo}, hi = {hi}, grid = {grid}, outside = "clamp"'
        declared = declare().replace('lo = -1000000, hi = 1000000, grid = 0.01, outside = "clamp"', text)
        planned = plan_discovery(BoundsSpec("visits", "cost", Budget(rho="0.01")), sq.read_schema(declared))
        assert isinstance(planned, BoundsPlan)
        starts, cells = planned.starts, planned.schema.domain["cost"].steps
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        assert starts[-1] < cells
        first = int(lo / float(grid))
        assert len(starts) <= 4 * 48 + 3
        edges = [*starts.tolist(), cells]
        for start, end in pairwise(edges):
            inside = [abs(start + first), abs(end - 1 + first)]
            assert max(inside) <= 2 * min(inside) or len(set(inside)) == 1 or min(inside) <= 1
