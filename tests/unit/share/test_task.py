"""The verbs: what a release costs, what may be learnt from it, and what is refused before anything is spent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent as sq
from siloquent import share
from siloquent.errors import (
    BudgetExceeded,
    KeyReused,
    NotAllowed,
    ReleaseError,
    RequestError,
    SchemaError,
    SiloquentError,
    UnknownName,
)
from siloquent.releases.arrays import pack
from siloquent.share import Budget, LearnSpec, ShareRelease, ShareSpec, TreeSpec
from siloquent.share.plan import plan
from unit.share.tables import PURE, ROW, USER, ZCDP, rows, schema, session, spec

PEOPLE = {"age": [10, 90, None], "dose": [0, 3, 1.5], "ward": ["A", "B", "elsewhere"], "smoker": [False, True, True]}


@pytest.fixture
def clinics(tmp_path: Path) -> list[sq.Session]:
    return [session(tmp_path / f"c{i}", rows(400, seed=i)) for i in range(3)]


def releases(clinics: list[sq.Session], **changed: Any) -> list[ShareRelease]:
    return [clinic.share.release(spec(**changed), key="k") for clinic in clinics]


def spent(opened: sq.Session) -> int:
    return opened.get_account("patients").spent.amount


CASES = [(m, label) for m in ("marginals", "gram", "moments", "tree") for label in ("sick", "kind", "cost")]


@pytest.mark.parametrize(("method", "label"), [case for case in CASES if case != ("moments", "kind")])
def test_every_method_teaches_a_clinic_without_rows_about_the_label(
    clinics: list[sq.Session], method: str, label: str
) -> None:
    found = releases(clinics, method=method, label=label, budget=Budget(epsilon="60"), tree=TreeSpec(h=4, t=6, p=3))
    told = LearnSpec("patients", label, found, use_own=False)
    said = share.learn(clinics[0], told).predict(PEOPLE)
    low, high = {"sick": (False, True), "kind": ("x", "z"), "cost": (480, 520)}[label]
    assert (said[0] <= low, said[1] >= high) == (True, True)


@pytest.mark.parametrize("kind", ["logistic", "svm"])
def test_own_rows_and_releases_make_a_model_that_stays_at_home(clinics: list[sq.Session], kind: Any) -> None:
    found = releases(clinics)
    model = share.learn(clinics[0], LearnSpec("patients", "sick", found, kind))
    assert model.predict(PEOPLE)[:2] == [False, True]
    assert (model.silos, model.holds_own_rows) == (2, True)
    with pytest.raises(NotAllowed, match="your own exact rows"):
        model.require_publishable()
    given = share.learn(clinics[0], LearnSpec("patients", "sick", found, use_own=False)).require_publishable()
    assert (given.silos, given.holds_own_rows) == (3, False)


def test_a_price_is_charged_once_and_a_key_gives_the_same_release(clinics: list[sq.Session]) -> None:
    first = clinics[0].share.release(spec(), key="k")
    assert spent(clinics[0]) == 2 * 10**9
    again = clinics[0].share.release(spec(), key="k")
    assert again.to_bytes() == first.to_bytes()
    assert spent(clinics[0]) == 2 * 10**9
    with pytest.raises(KeyReused):
        clinics[0].share.release(spec(method="gram"), key="k")
    assert not np.array_equal(clinics[0].share.release(spec()).counts, first.counts)


@pytest.mark.parametrize("unit", [ROW, USER], ids=["row", "user"])
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
@pytest.mark.parametrize("method", ["marginals", "gram", "moments"])
def test_the_charge_is_what_was_asked_for(tmp_path: Path, method: str, budget: str, unit: str) -> None:
    planned = plan(spec(method=method, budget=Budget(epsilon="0.7")), schema(budget=budget, unit=unit))
    amount = Budget(epsilon="0.7").convert_to_account(
        planned.schema.budget.accountant, delta=planned.schema.budget.delta
    )
    assert amount * 98 / 100 < planned.price <= amount + planned.price / 10**6


def test_advice_says_yes_where_others_help_and_no_where_labels_are_shuffled(tmp_path: Path) -> None:
    small = session(tmp_path / "small", rows(60, seed=4))
    others = [session(tmp_path / f"o{i}", rows(3_000, seed=10 + i)) for i in range(2)]
    shuffled = [session(tmp_path / f"s{i}", rows(3_000, seed=20 + i, shuffled=True)) for i in range(2)]
    helped, misled = (
        small.share.advise(LearnSpec("patients", "sick", releases(c, method="gram", budget=Budget(epsilon="60"))))
        for c in (others, shuffled)
    )
    assert helped.recommended
    assert helped.describe().startswith("Yes")
    assert helped.measures["stacked"].loss < helped.measures["alone"].loss < helped.measures["constant"].loss
    assert not misled.recommended
    assert misled.describe().startswith("No")
    assert spent(small) == 0


def test_a_clinic_without_rows_and_one_with_one_label_still_learn(tmp_path: Path, clinics: list[sq.Session]) -> None:
    found = releases(clinics)
    empty = session(tmp_path / "empty", rows(0))
    healthy = rows(200, seed=3)
    healthy = healthy.set_column(5, "sick", [np.zeros(200, dtype=bool)])
    one = session(tmp_path / "one", healthy)
    for opened in (empty, one):
        model = share.learn(opened, LearnSpec("patients", "sick", found))
        assert model.predict(PEOPLE)[:2] == [False, True]
        assert not share.advise(opened, LearnSpec("patients", "sick", found)).recommended
        opened.share.release(spec(), key="k")


def test_labels_outside_the_declared_set_count_nowhere_and_no_number_shows_them(tmp_path: Path) -> None:
    """Which rows count is the declaration's word, equal at all silos; here OUTSIDE is declared to drop them."""
    frame = rows(300)
    odd = pa.array(["w" if i % 3 == 0 else value for i, value in enumerate(frame["kind"].to_pylist())])
    opened = session(tmp_path / "odd", frame.set_column(frame.column_names.index("kind"), "kind", odd))
    wanted = spec(label="kind", features=("ward",), budget=Budget(epsilon="900"))
    made = opened.share.release(wanted)
    kept = np.array([i % 3 > 0 for i in range(300)])
    wards = np.array(frame["ward"].to_pylist())[kept]
    counted = made.counts.reshape(3, 4).sum(axis=0)[:3]
    assert counted.tolist() == [int((wards == ward).sum()) for ward in "ABC"]  # noise of scale 1/900 is 0: e^-900
    told = opened.share.advise(LearnSpec("patients", "kind", [replace(made, part=replace(made.part, ledger="other"))]))
    assert told.rows == int(kept.sum())


@pytest.mark.parametrize("count", [0, 1, 4])
def test_too_few_rows_release_as_others_do_and_get_no_advice(
    tmp_path: Path, clinics: list[sq.Session], count: int
) -> None:
    few = session(tmp_path / "few", rows(count))
    assert few.share.release(spec()).counts.shape == clinics[0].share.release(spec()).counts.shape
    told = few.share.advise(LearnSpec("patients", "sick", releases(clinics)))
    assert (told.rows, told.recommended) == (0, False)
    assert "no own rows to compare on" in told.describe()


def test_rows_are_drawn_from_the_declared_domain(clinics: list[sq.Session]) -> None:
    for method in ("marginals", "tree"):
        found = [clinic.share.release(spec(method=method, budget=Budget(epsilon="8"))) for clinic in clinics]
        table = share.synthesize(found, rows=500, seed=1)
        assert table.num_rows == 500
        assert set(table["ward"].to_pylist()) <= {"A", "B", "C", "(other)"}
        assert {0, 0.5, 1, 1.5, 2, 2.5, 3} >= set(table["dose"].to_pylist())
        assert table.equals(share.synthesize(found, rows=500, seed=1))


def test_releases_and_models_survive_their_files(clinics: list[sq.Session], tmp_path: Path) -> None:
    found = releases(clinics)
    folder = clinics[0].share.save(found[0])
    assert clinics[0].share.save(found[0]) == folder
    back = share.load_release(folder, agent="north")
    assert back.to_bytes() == found[0].to_bytes()
    assert clinics[0].verify(folder).ok
    assert clinics[0].verify(folder).compared
    model = share.learn(clinics[0], LearnSpec("patients", "sick", found))
    model.save(tmp_path / "model.npz")
    assert share.load_model(tmp_path / "model.npz").predict(PEOPLE) == model.predict(PEOPLE)
    with pytest.raises(RequestError, match="already exists"):
        model.save(tmp_path / "model.npz")
    with pytest.raises(ReleaseError, match="Cannot write"):
        model.save(tmp_path / "nowhere" / "model.npz")


def test_a_changed_release_is_found(clinics: list[sq.Session]) -> None:
    made = releases(clinics)[0]
    folder = clinics[0].share.save(made)
    changed = replace(made, values={"counts": made.counts + 1})
    (folder / "share.npz").write_bytes(changed.to_bytes())
    with pytest.raises(ReleaseError, match="r-000003 was changed"):
        share.load_release(folder)
    assert not clinics[0].verify(folder).ok


def test_the_sentence_says_what_overlap_costs(clinics: list[sq.Session]) -> None:
    assert "pays k times" in clinics[0].share.release(spec()).describe_guarantee()
    assert "this price 3 times" in clinics[0].share.release(spec(overlap=3)).describe_guarantee()


REFUSED_SPECS: dict[str, tuple[dict[str, Any], type[SiloquentError], str]] = {
    "a label among the features": ({"label": "age"}, RequestError, "distinct features"),
    "an unknown label": ({"label": "sik"}, UnknownName, "Did you mean 'sick'"),
    "a label that is text": ({"label": "note"}, SchemaError, "it must be a category"),
    "a feature that is an id": ({"features": ("person",)}, SchemaError, "features are numbers"),
    "an unknown method": ({"method": "magic"}, RequestError, "method must be one of"),
    "moments of three classes": ({"method": "moments", "label": "kind"}, RequestError, "two classes"),
    "a sum without silos": ({"trust": "sum"}, RequestError, "how many silos"),
    "more honest than there are": ({"trust": "sum", "agents": 3, "honest": 3}, RequestError, "at most"),
    "a sum of trees": ({"trust": "sum", "agents": 3, "honest": 2, "method": "tree"}, RequestError, "added up"),
    "honest without a sum": ({"honest": 2}, RequestError, "only to secure sums"),
    "a sum alone": ({"trust": "sum", "agents": 3, "honest": 2}, RequestError, "needs the other silos"),
    "no budget at all": ({"budget": Budget(rho="1")}, RequestError, "accepts only epsilon"),
    "more than is left": ({"budget": Budget(epsilon="5000")}, BudgetExceeded, "has"),
    "next to nothing": ({"budget": Budget(epsilon="1e-15")}, RequestError, "below epsilon"),
}


@pytest.mark.parametrize("case", REFUSED_SPECS.values(), ids=REFUSED_SPECS)
def test_what_cannot_be_released_costs_nothing(
    tmp_path: Path, case: tuple[dict[str, Any], type[SiloquentError], str]
) -> None:
    changed, kind, words = case
    opened = session(tmp_path / "c")
    with pytest.raises(kind, match=words) as refused:
        opened.share.release(spec(**changed))
    assert refused.value.spent == "nothing"
    assert spent(opened) == 0


@pytest.mark.parametrize("wrong", [{"h": 1}, {"h": 4, "p": 5}, {"t": 0}, {"max_nodes": 10**7}, {"variant": "new"}])
def test_a_tree_that_cannot_grow_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"tree must be a whole number|variant must be ours"):
        TreeSpec(**wrong)


def test_a_price_above_the_limit_is_refused(tmp_path: Path) -> None:
    opened = session(tmp_path / "c")
    with pytest.raises(RequestError, match="more than the 1 that you allow"):
        opened.share.release(spec(), max_cost="1")
    assert spent(opened) == 0


def test_releases_that_do_not_fit_are_refused_by_name(clinics: list[sq.Session]) -> None:
    mine, other = clinics[0].share.release(spec()), clinics[1].share.release(spec(budget=Budget(epsilon="1")))
    north, river = (replace(r, agent=name) for r, name in ((mine, "north"), (other, "river")))
    cases: list[tuple[list[ShareRelease], str]] = [
        ([north, river], "river was made under another agreement than that of north: they differ in budget"),
        ([north, replace(north, agent="copy")], "north and copy are the same release"),
        ([north, replace(clinics[0].share.release(spec()), agent="again")], "north and again are both of 'patients@1'"),
        ([replace(clinics[2].share.release(spec(features=("age",))), agent="hill"), north], "number of features"),
    ]
    for found, words in cases:
        with pytest.raises(RequestError, match=words):
            share.learn(clinics[0], LearnSpec("patients", "sick", found, use_own=False))


def test_learning_refuses_what_makes_no_sense(clinics: list[sq.Session], tmp_path: Path) -> None:
    found = releases(clinics)
    with pytest.raises(RequestError, match="about 'sick', not 'kind'"):
        share.learn(clinics[0], LearnSpec("patients", "kind", found))
    with pytest.raises(RequestError, match="does not fit the label"):
        share.learn(clinics[0], LearnSpec("patients", "sick", found, "linear"))
    with pytest.raises(RequestError, match="no other silo to learn from"):
        share.learn(clinics[0], LearnSpec("patients", "sick", found[:1]))
    with pytest.raises(RequestError, match="Rows come from marginals or trees"):
        share.synthesize([clinics[0].share.release(spec(method="gram"))])
    clamped = session(tmp_path / "clamped", outside="clamp")
    with pytest.raises(RequestError, match="declares 'dose' differently"):
        share.learn(clamped, LearnSpec("patients", "sick", found))
    analyst = sq.open(clinics[0].workspace.folder, analyst="ana")
    analyst.add_frame(schema(), rows(50))
    with pytest.raises(NotAllowed, match="only the owner"):
        share.advise(analyst, LearnSpec("patients", "sick", found))


HOSTILE = {
    "cut": lambda data: data[:300],
    "text": lambda data: b"hello",
    "another's file": lambda data: pack({}, {"format": 1}),
}


@pytest.mark.parametrize("broken", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_release_is_refused_by_name(tmp_path: Path, broken: Any) -> None:
    opened = session(tmp_path / "c")
    (tmp_path / "river.share").write_bytes(broken(opened.share.release(spec()).to_bytes()))
    with pytest.raises(ReleaseError, match="river"):
        share.load_release(tmp_path / "river.share")


def test_a_missing_column_and_an_undeclared_value_are_named(clinics: list[sq.Session]) -> None:
    model = share.learn(clinics[0], LearnSpec("patients", "sick", releases(clinics), use_own=False))
    with pytest.raises(UnknownName, match="column named 'age'"):
        model.predict({"dose": [1]})
    with pytest.raises(RequestError, match="Row 2 has no declared value of 'dose'"):
        model.predict({"age": [1, 2], "dose": [1, 99], "ward": ["A", "A"], "smoker": [True, True]})


def test_negative_totals_give_no_rows_and_high_ones_are_cut(clinics: list[sq.Session]) -> None:
    made = clinics[0].share.release(spec())
    for total, most in ((-(10**6), 0), (10**9, 20_000)):
        odd = replace(made, values={"counts": np.full_like(made.counts, total)})
        assert share.synthesize([odd]).num_rows == most


NULLS = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["NULL", "A", "'NULL'"], null = "cell" },
  { name = "sick", type = "boolean", null = "drop" },
]
[table]
name = "patients"
adjacency = "add-remove"
size_hint = 300
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "100"
"""


@pytest.mark.parametrize("is_earlier", [False, True])
def test_the_text_null_is_told_from_a_missing_value(
    is_earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases that earlier versions wrote, which told them apart by their order alone, are verified."""
    frame = pa.table({"ward": ["NULL", None, "A"] * 100, "sick": [True, False, True] * 100})
    sq.create_workspace(tmp_path)
    clinic = sq.open(tmp_path)
    clinic.add_frame(sq.read_schema(NULLS), frame)
    asked = ShareSpec("patients", label="sick", features=("ward",), budget=Budget(epsilon="5"))
    made = clinic.share.release(asked, key="k")
    with monkeypatch.context() as patched:
        if is_earlier:
            patched.setattr("siloquent.share.spec.encoding.name_value", lambda name: str(name or "NULL"))
        folder = clinic.share.save(made)
    told = dict.fromkeys(pq.read_table(folder / "numbers.parquet")["bin"].to_pylist())
    assert list(told) == (["NULL", "A", "'NULL'"] if is_earlier else ["'NULL'", "A", "''NULL''", "NULL"])
    verdict = clinic.verify(folder)
    assert verdict.ok, verdict.problems
    assert verdict.compared
