"""What a question looks at of earlier answers: as much after many as after few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.explore.plan.reuse import earlier_answers, evidence, evidence_selection, refinement, simultaneous
from siloquent.explore.plan.reuse.evidence_selection import select_most_telling
from siloquent.privacy import Event
from unit.explore.plan.pasts import drawn, kept
from unit.explore.plan.tables import planned

TABLE = """
format = 1
attribute = [{ name = "age", type = "integer", lo = 0, hi = 29, outside = "clamp", null = "drop" }]
[table]
name = "people"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
rho = "1000"
delta = "1e-6"
"""
MOST = 8


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often earlier answers were read, folded and refined; at most 8 are looked at."""
    seen: Counter[str] = Counter()

    def counting(module: object, name: str) -> None:
        real = getattr(module, name)

        def wrapped(*given: object, **named: object) -> object:
            seen[name] += 1
            found = real(*given, **named)
            if name == "refine":
                seen["pieces"] += len(found.pieces)
            return found

        monkeypatch.setattr(module, name, wrapped)

    monkeypatch.setattr(evidence_selection, "MAX_TELLING", MOST)
    for module, name in ((earlier_answers, "decode_measurements"), (simultaneous, "_fold"), (evidence, "refine")):
        counting(module, name)
    assert refinement.select_most_telling is select_most_telling
    return seen


def asked(session: Session, number: int, clause: str) -> Iterator[str]:
    """Measures ``number`` ranges of ages, and asks for another one after each."""
    for place in range(number):
        low = place % 15
        session.ask(f"SELECT COUNT(*) FROM people WHERE age >= {low} AND age < {low + 9} ERROR 300 REUSE NONE")
        yield f"SELECT COUNT(*) FROM people WHERE age >= {low} AND age < {low + 7} ERROR {700 + place}{clause}"


@pytest.mark.parametrize("clause", ["", " REUSE ANY"])
def test_a_question_reads_what_is_new_and_looks_at_a_bounded_part_of_the_rest(
    tmp_path: Path, counted: Counter[str], clause: str
) -> None:
    sq.create_workspace(tmp_path / "w")
    session = sq.open(tmp_path / "w")
    session.add_frame(sq.read_schema(TABLE), pa.table({"age": np.arange(6_000) % 30}))
    for place, question in enumerate(asked(session, 24, clause)):
        counted.clear()
        session.ask(question)
        assert counted["decode_measurements"] <= 2, "answers that were read before are read again"
        assert counted["_fold"] <= MOST
        assert counted["pieces"] <= MOST * counted["refine"]
        assert counted["refine"] <= 1
        if place > 2 * MOST:
            assert counted["_fold"] + counted["pieces"] > 0


def test_what_another_process_wrote_is_read_once(tmp_path: Path, counted: Counter[str]) -> None:
    sq.create_workspace(tmp_path / "w")

    one, other = sq.open(tmp_path / "w"), sq.open(tmp_path / "w")
    for session in (one, other):
        session.add_frame(sq.read_schema(TABLE), pa.table({"age": np.arange(6_000) % 30}))
    question = "SELECT COUNT(*) FROM people WHERE age < 9 ERROR {} REUSE ANY"
    one.ask(question.format(300))
    earlier_answers._memories._values.clear()  # as in a process that has seen nothing yet
    earlier_answers._memories._total = 0
    counted.clear()
    found = other.ask(question.format(320))
    assert (found.cost.amount, found.accuracy.label, counted["decode_measurements"]) == (0, "independent", 1)


def test_those_that_tell_most_are_looked_at_in_their_order() -> None:
    pieces = [
        piece
        for seq, error in enumerate((300, 50, 200, 60, 100), start=1)
        for piece in kept(planned(f"SELECT COUNT(*) FROM visits WHERE age < 50 ERROR {error}", "zcdp"), seq).pieces
    ]
    area = pieces[0].area
    assert select_most_telling(area, pieces) == pieces
    assert [piece.source for piece in select_most_telling(area, pieces, noises=3)] == [2, 4, 5]
    assert [piece.source for piece in select_most_telling(area, pieces, noises=0)] == [2]


@pytest.mark.parametrize("simultaneous_only", [False, True])
def test_many_rough_answers_do_not_hide_a_good_one(simultaneous_only: bool) -> None:
    ask = "SELECT COUNT(*) FROM visits WHERE age < {} ERROR {}"
    good = kept(planned(ask.format(50, 30), "zcdp"), 1)
    rough = [kept(planned(ask.format(50, 400), "zcdp"), seq) for seq in range(2, 200)]
    found = drawn(planned(ask.format(50, 90), "zcdp"), [good, *rough], simultaneous=simultaneous_only)
    assert found is not None
    assert found.is_free
    assert 1 in found.sources


def test_free_answers_do_not_push_out_what_they_draw_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier_answers, "MAX_PAST", 10)
    sq.create_workspace(tmp_path / "w")
    session = sq.open(tmp_path / "w")
    session.add_frame(sq.read_schema(TABLE), pa.table({"age": np.arange(6_000) % 30}))
    first = session.ask("SELECT COUNT(*) FROM people WHERE age < 9 ERROR 100")
    for error in range(400, 420):
        answer = session.ask(f"SELECT COUNT(*) FROM people WHERE age < 9 ERROR {error}")
        assert (answer.cost.amount, answer.accuracy.sources) == (0, (first.receipt.seq,))


def test_what_is_kept_of_earlier_answers_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    past = kept(planned("SELECT COUNT(*) FROM visits WHERE age < 50 ERROR 30", "zcdp"), 1)
    one = earlier_answers.EarlierAnswer(
        1, "visits@1", earlier_answers.StoredMeasurement("m", "answers", past_event(), (1,), "30"), past
    )
    memory = earlier_answers._Memory()
    monkeypatch.setattr(earlier_answers, "MAX_BYTES", 5 * one.size)
    for _ in range(20):
        memory._keep(one)
    assert len(memory.linear) == 5
    assert memory.bytes == 5 * one.size


def past_event() -> Event:
    return planned("SELECT COUNT(*) FROM visits WHERE age < 50 ERROR 30", "zcdp").event


@pytest.mark.parametrize("marked", ["", "1:a:b"])
def test_what_is_recalled_stands_in_the_order_of_the_ledger(marked: str) -> None:
    measured = earlier_answers.StoredMeasurement("m", "answers", past_event(), (1,), "30", version=1)
    past = kept(planned("SELECT COUNT(*) FROM visits WHERE age < 50 ERROR 30", "zcdp"), 1)
    memory = earlier_answers._Memory()
    for seq in range(1, 40):
        memory._keep(earlier_answers.EarlierAnswer(seq, "visits@1", measured, past if seq % 3 else None, marked))
    found = memory.merged()
    assert [one.source for one in found.known] == list(range(1, 40))
    assert found.select_matching(lambda mark: True, 1) is found
    rest = found.select_matching(lambda mark: False, 1)
    assert (rest.known, rest.changed) == ((), 39)
