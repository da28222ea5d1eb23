"""A key keeps its charge through every change of the table file that leaves the request's meaning as it was."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import TOML
from property.test_declarations_change import clinic
from siloquent.api import Session
from siloquent.errors import KeyReused, SchemaError, UnknownName
from siloquent.ledger import declared
from siloquent.ledger.base_ledger import BaseLedger
from siloquent.privacy.budget import Budget
from siloquent.search import KeyOf, OfferSpec
from siloquent.share import ShareSpec
from siloquent.sketch import PStable, SketchSpec
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.synth import SynthSpec
from siloquent.synth.spec.measurements import decode_run_measurements

SMALL = Budget(epsilon="0.05", delta="1e-7")
KEY = "monday"
Request = Callable[[Session], object]
Edit = tuple[str, str]


def without_guarantee(release: object) -> str:
    """A release as text, but for its guarantee, which is told at the delta of today."""
    return re.sub(r"epsilon [\d.]+ at delta [\d.]+", "", str(release))


def asked(question: str) -> Request:
    return lambda session: session.ask(question, key=KEY).rows


def synthesized(session: Session) -> object:
    spec = SynthSpec("visits", SMALL, columns=("age", "ward"), quality="fast", seed=3, rows=50)
    return session.synth.synthesize(spec, key=KEY).rows.to_pydict()


def sketched(session: Session) -> object:
    spec = SketchSpec("visits", ("age", "cost"), PStable(2, 0.5), scale="range", rows=32, budget=SMALL)
    return session.sketch.build(spec, key=KEY).counters.tolist()


def fitted(session: Session) -> object:
    return without_guarantee(session.sketch.regress(MomentsSpec("visits", ("age",), "cost", SMALL), key=KEY))


def offered(session: Session) -> object:
    spec = OfferSpec("visits", ("cost",), (KeyOf("ward"),), budget=SMALL)
    return without_guarantee(session.search.offer(spec, key=KEY))


def shared(session: Session) -> object:
    spec = ShareSpec("visits", label="ward", features=("age",), budget=SMALL)
    return without_guarantee(session.share.release(spec, key=KEY))


REQUESTS: dict[str, Request] = {
    "count": asked("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300"),
    "sum": asked("SELECT SUM(age) FROM visits WHERE ward = 'A' ERROR 40000"),
    "average": asked("SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 30 FOR AT LEAST 500 ROWS"),
    "average in two steps": asked("SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 60"),
    "percent": asked("SELECT COUNT(*) FROM visits WHERE age > 40 ERROR 10 PERCENT"),
    "quantile": asked("SELECT QUANTILE(age, 0.5) FROM visits ERROR 300 ROWS"),
    "synth": synthesized,
    "sketch": sketched,
    "moments": fitted,
    "offer": offered,
    "share": shared,
}
EXPLORED = frozenset({"count", "sum", "average", "average in two steps", "percent", "quantile"})
AGE = '{ name = "age", type = "integer", lo = 0, hi = 120'
RULE = 'format = 1\nconstraint = [{ kind = "denial", not = "t1.age > t2.age and t1.cost < t2.cost", hard = false }]'
ALWAYS: dict[str, Edit] = {
    "epsilon": ('epsilon = "1"', 'epsilon = "2"'),
    "share": ('bo = "0.001"', 'bo = "0.5"'),
    "new share": ('ana = "1"', 'ana = "1", cy = "0.2"'),
    "reuse": ('delta = "1e-6"', 'delta = "1e-6"\nreuse = "any"'),
    "labels": ('"icu"], null', '"icu"], labels = { icu = "intensive care" }, null'),
    "comment": ("[table]", "# rows of one year\n[table]"),
    "defaults": ("[table]", '[defaults]\nerror = "2 PERCENT"\n\n[table]'),
    "delta": ('delta = "1e-6"', 'delta = "3e-8"'),
    "size_hint": ("size_hint = 3000", "size_hint = 4000"),
}
BY_REQUEST: dict[str, tuple[Edit, frozenset[str]]] = {
    "rule": (("format = 1", RULE), frozenset(REQUESTS) - {"synth"}),
    "another column's bounds": (("hi = 1000,", "hi = 2000,"), EXPLORED),
    "another column": (('  { name = "note", type = "text", max_bytes = 100 },\n', ""), EXPLORED),
}
CHANGED: dict[str, tuple[Edit, frozenset[str]]] = {
    "version": (('name = "visits"', 'name = "visits"\nversion = 2'), frozenset(REQUESTS)),
    "source": (("data/visits.parquet", "data/./visits.parquet"), frozenset(REQUESTS)),
}


def fits(change: str, request: str) -> bool:
    return change in ALWAYS or request in BY_REQUEST[change][1]


def edit(folder: Path, change: Edit) -> None:
    file = folder / "schemas" / "visits.toml"
    text = file.read_text()
    assert change[0] in text or change[1] in text or change[0].startswith("delta")
    file.write_text(text.replace(*change, 1))
    with siloquent.open(folder) as session:
        session.set_budget("visits")


def count_reservations(session: Session) -> int:
    return sum(one.kind == "reserve" for one in session.ledger.iter_entries())


class Stopped(Exception):
    """The process ends between its measurement and the ledger's entry."""


def stop_at_settling(folder: Path, request: Request) -> list[bytes]:
    """Run ``request`` until it wants to settle; return what it had measured."""
    measured: list[bytes] = []

    def settle(_: object, permit: object, event: object, payload: bytes, **more: Any) -> None:
        measured.append(payload)
        raise Stopped

    with patch.object(BaseLedger, "settle", settle), siloquent.open(folder) as session, pytest.raises(Stopped):
        request(session)
    return measured


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    name=st.sampled_from(list(REQUESTS)),
    wanted=st.lists(st.sampled_from([*ALWAYS, *BY_REQUEST]), min_size=1, max_size=3, unique=True),
    is_settled=st.booleans(),
)
def test_a_charge_is_found_again_after_changes_that_leave_its_meaning(
    name: str, wanted: list[str], is_settled: bool
) -> None:
    request = REQUESTS[name]
    made = [ALWAYS[one] if one in ALWAYS else BY_REQUEST[one][0] for one in wanted if fits(one, name)]
    with TemporaryDirectory() as place:
        folder = clinic(place)
        before: object = None
        if is_settled:
            with siloquent.open(folder) as session:
                before = request(session)
        else:
            measured = stop_at_settling(folder, request)
        with siloquent.open(folder) as session:
            spent, reserved = session.ledger.get_account("visits@1").spent, count_reservations(session)
        for change in made:
            edit(folder, change)
        with siloquent.open(folder) as session:
            after = request(session)
            again = request(session)
            if is_settled:
                assert after == before
            assert after == again
            if name != "average in two steps" or is_settled:  # its second step is charged when the first is settled
                assert session.ledger.get_account("visits@1").spent.amount <= spent.amount
                assert count_reservations(session) == reserved
            if name == "synth" and not is_settled:
                (kept,) = session.ledger.iter_answers("visits@1")
                first, second = (decode_run_measurements(one).steps for one in (measured[0], kept.payload))
                assert [one.counts.tolist() for one in first] == [one.counts.tolist() for one in second], (
                    "finished steps are used, not drawn again"
                )
            assert session.ledger.verify().ok


@pytest.mark.parametrize(("name", "change"), [(n, c) for c in CHANGED for n in REQUESTS if n in CHANGED[c][1]])
def test_a_key_does_not_fit_where_the_meaning_has_changed(name: str, change: str, tmp_path: Path) -> None:
    folder, request = clinic(str(tmp_path)), REQUESTS[name]
    with siloquent.open(folder) as session:
        request(session)
        spent = session.ledger.get_account("visits@1").spent
    edit(folder, CHANGED[change][0])
    with siloquent.open(folder) as session:
        with pytest.raises(KeyReused, match="declared otherwise"):
            request(session)
        assert session.ledger.get_account("visits@1").spent == spent


def test_a_discovery_s_key_belongs_to_its_source(tmp_path: Path) -> None:
    folder = clinic(str(tmp_path), TOML.replace('delta = "1e-6"', 'delta = "1e-6"\ndelta_events = "5e-7"'))
    with siloquent.open(folder) as session:
        first = session.discover("visits", "note", epsilon="0.3", key=KEY)
    edit(folder, ALWAYS["epsilon"])
    with siloquent.open(folder) as session:
        assert session.discover("visits", "note", epsilon="0.3", key=KEY) == first
    edit(folder, CHANGED["source"][0])
    with siloquent.open(folder) as session, pytest.raises(KeyReused):
        session.discover("visits", "note", epsilon="0.3", key=KEY)


def test_a_file_that_was_never_recorded_is_told_apart(tmp_path: Path) -> None:
    """Keys of earlier revisions, whose ledgers record no file, fit the file that they were charged under alone."""
    folder, request = clinic(str(tmp_path)), REQUESTS["count"]
    describe = declared.means_the_same
    with patch("siloquent.session.accounts.describe_declaration", lambda schema: {"unit": schema.unit.code}):
        with siloquent.open(folder) as session:
            answer = request(session)
        with siloquent.open(folder) as session:
            assert request(session) == answer
    assert describe({"unit": "row"}, {"unit": "row"}) is False, "what is not recorded is not known to be the same"
    with siloquent.open(folder) as session:
        assert request(session) == answer
    file = folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace(*ALWAYS["reuse"]))
    with siloquent.open(folder) as session, pytest.raises(KeyReused):
        request(session)


def save_sketch(session: Session) -> Path:
    spec = SketchSpec("visits", ("age", "cost"), PStable(2, 0.5), scale="range", rows=32, budget=SMALL)
    return session.sketch.save(session.sketch.build(spec, key=KEY))


def save_synthesis(session: Session) -> Path:
    spec = SynthSpec("visits", SMALL, columns=("age", "ward"), quality="fast", seed=3, rows=50)
    return session.synth.save(session.synth.synthesize(spec, key=KEY))


def save_offer(session: Session) -> Path:
    spec = OfferSpec("visits", ("cost",), (KeyOf("ward"),), budget=SMALL)
    return session.search.save(session.search.offer(spec, key=KEY))


def save_share(session: Session) -> Path:
    spec = ShareSpec("visits", label="ward", features=("age",), budget=SMALL)
    return session.share.save(session.share.release(spec, key=KEY))


def save_answer(session: Session) -> Path:
    return session.save(session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300", key=KEY))


@pytest.mark.parametrize("save", [save_answer, save_synthesis, save_sketch, save_offer, save_share])
@pytest.mark.parametrize("is_settled", [True, False])
def test_a_release_found_again_can_be_verified_then_and_after_the_next_change(
    save: Callable[[Session], Path], is_settled: bool, tmp_path: Path
) -> None:
    folder = clinic(str(tmp_path))
    if is_settled:
        with siloquent.open(folder) as session:
            shutil.rmtree(save(session))
    else:
        stop_at_settling(folder, save)
    edit(folder, ALWAYS["epsilon"])
    with siloquent.open(folder) as session:
        saved = save(session)
        verdict = session.verify(saved)
        assert verdict.ok, verdict.problems
    edit(folder, ALWAYS["reuse"])
    with siloquent.open(folder) as session:
        verdict = session.verify(saved)
        assert verdict.ok, verdict.problems


@pytest.mark.parametrize(
    ("before", "after"), [("any", "none"), ("fresh-or-simultaneous", "none"), ("fresh-or-simultaneous", "any")]
)
def test_a_permit_planned_with_earlier_answers_is_finished_with_them(before: str, after: str, tmp_path: Path) -> None:
    folder = clinic(str(tmp_path), TOML.replace('delta = "1e-6"', f'delta = "1e-6"\nreuse = "{before}"'))
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR {}"
    with siloquent.open(folder) as session:
        session.ask(question.format(300))
    stop_at_settling(folder, asked(question.format(200)))
    file = folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace(f'reuse = "{before}"', f'reuse = "{after}"'))
    with siloquent.open(folder) as session:
        spent = session.ledger.get_account("visits@1").spent
        assert session.ask(question.format(200), key=KEY).rows
        assert session.ledger.get_account("visits@1").spent.amount <= spent.amount


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("step", [1, 2])
def test_a_table_file_that_becomes_invalid_after_the_charge_costs_no_answer(
    name: str, step: int, tmp_path: Path
) -> None:
    """Without a key nobody could ask for it again."""
    folder, reserve = clinic(str(tmp_path)), BaseLedger.reserve
    file, made = folder / "schemas" / "visits.toml", 0

    def reserve_and_spoil(*given: Any, **more: Any) -> object:
        nonlocal made
        permit, made = reserve(*given, **more), made + 1
        if made == step:
            file.write_text("no TOML [")
        return permit

    with siloquent.open(folder) as session:
        with patch.object(BaseLedger, "reserve", reserve_and_spoil):
            answer = REQUESTS[name](session)
        assert made == step or step == 2
        assert answer
        assert len(list(session.ledger.iter_answers("visits@1"))) == made


def test_an_answer_by_earlier_columns_says_so_and_nothing_new_is_charged_by_them(tmp_path: Path) -> None:
    folder, question = clinic(str(tmp_path)), "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300"
    stop_at_settling(folder, asked(question))
    edit(folder, ('"A", "B", "=1+1", "icu"', '"A", "icu", "C"'))
    with siloquent.open(folder) as session:
        prepared = session.prepare(question, key=KEY)
        spent = session.ledger.get_account("visits@1").spent
        with pytest.raises(SchemaError, match="has changed since"):
            prepared.run(key="another")
        assert session.ledger.get_account("visits@1").spent == spent
        answer = prepared.run()
        assert [row[0] for row in answer.rows] == ["A", "B", "=1+1", "icu"]
        assert any("values of column 'ward' was A, B, =1+1, icu and is A, icu, C" in note for note in answer.notes)
        assert session.ledger.get_account("visits@1").spent.amount <= spent.amount
        fresh = session.ask(question, key="another")
        assert [row[0] for row in fresh.rows] == ["A", "icu", "C"]
        assert not any("declared" in note for note in fresh.notes)
        assert session.list_changes("visits") == ()
        saved = session.save(answer)
    with siloquent.open(folder) as session:
        assert session.ask(question, key=KEY).rows == answer.rows
        verdict = session.verify(saved)
        assert verdict.ok, verdict.problems
        assert session.list_changes("visits") == ()


def test_a_file_that_no_longer_offers_a_column_is_obeyed(tmp_path: Path) -> None:
    """Its owner took the column back: what was charged is not read any more until it is declared again."""
    folder, question = clinic(str(tmp_path)), "SELECT SUM(age) FROM visits ERROR 40000"
    stop_at_settling(folder, asked(question))
    file = folder / "schemas" / "visits.toml"
    text = file.read_text()
    file.write_text(re.sub(r'(?m)^  \{ name = "age".*\n', "", text))
    with siloquent.open(folder) as session:
        with pytest.raises(UnknownName):
            session.ask(question, key=KEY)
        assert not list(session.ledger.iter_answers("visits@1"))
    file.write_text(text)
    with siloquent.open(folder) as session:
        assert session.ask(question, key=KEY).rows
