"""A run that is killed at any step goes on with the same numbers, pays once, and neighbours see the same steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from siloquent.api import Session
from siloquent.errors import BudgetExceeded, KeyReused, NotAllowed, RequestError
from siloquent.synth import Budget
from siloquent.synth.estimate.tree import TreeLearner
from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.measure.run import measure
from siloquent.synth.plan.tree import plan_tree
from siloquent.synth.release import load_model, save_release
from siloquent.synth.spec.measurements import decode_run_measurements
from unit.synth.people import opened, rows, spec

KEY = "run"


class Killed(Exception):
    """Stands for the end of the process between two steps."""


def spent(session: Session) -> int:
    return session.get_account("people").spent.amount


def killed_at(session: Session, step: int) -> None:
    def stop(done: int) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        session.synth.synthesize(spec(rows=50), key=KEY, progress=stop)


def steps_in(session: Session) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (Path(session.workspace.folder) / "runs").rglob("*.npz")}


def test_a_run_that_was_killed_at_every_step_goes_on_and_pays_once(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rows(200)) as session:
        total = plan_tree(spec(rows=50), session.schema("people")).steps
        kept: dict[str, bytes] = {}
        for step in range(1, total + 1):
            killed_at(session, step)
            now = steps_in(session)
            assert len(now) == step
            assert {name: now[name] for name in kept} == kept  # no step is drawn again
            kept = now
        paid = spent(session)
        made = session.synth.synthesize(spec(rows=50), key=KEY)
        assert spent(session) == paid
        journalled = [decode_run_measurements(kept[name]).steps for name in sorted(kept)]
        released = [step.counts.tolist() for step in made.measurements.steps]
        assert [one.counts.tolist() for step in journalled for one in step] == released
        assert steps_in(session) == {}
        again = session.synth.synthesize(spec(rows=50), key=KEY)
        assert again.rows.equals(made.rows)
        assert again.measurements.to_bytes() == made.measurements.to_bytes()
        assert spent(session) == paid


def test_a_release_is_what_the_ledger_keeps(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rows(300)) as session:
        made = session.synth.synthesize(spec(rows=60), key=KEY)
        folder = session.synth.save(made)
        verdict = session.verify(folder)
        assert verdict.ok, verdict.problems
        assert verdict.compared
        loaded = session.synth.load(folder)
        assert loaded.draw(40, seed=5).equals(made.model.draw(40, seed=5))
        assert loaded.sentence == made.guarantee.describe()
        (folder / "report.json").write_text("{}")
        assert not session.verify(folder).ok


def test_the_model_makes_rows_where_the_table_is_not_declared(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rows(300)) as session:
        made = session.synth.synthesize(spec(rows=60))
    folder = save_release(made, tmp_path / "elsewhere")
    assert load_model(folder).draw(30, where="ward = 'B'", seed=2).num_rows == 30


def test_the_key_belongs_to_one_request_and_limits_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rows(100)) as session:
        session.synth.synthesize(spec(rows=20), key=KEY)
        paid = spent(session)
        with pytest.raises(KeyReused):
            session.synth.synthesize(spec(rows=21), key=KEY)
        with pytest.raises(RequestError, match=r"more than the 0\.0001"):
            session.synth.synthesize(spec(rows=20), max_cost="0.0001")
        with pytest.raises(BudgetExceeded):
            session.synth.synthesize(spec(budget=Budget(rho="1000")))
        assert spent(session) == paid


def test_neighbours_see_the_same_steps_and_shapes(tmp_path: Path) -> None:
    """Which joints are chosen may differ, by a paid choice; how many steps there are and what they cost may not."""
    seen = []
    for number, table in enumerate((rows(0), rows(1), rows(500))):
        with opened(tmp_path / str(number), table) as session:
            made = session.synth.synthesize(spec(rows=10))
        seen.append([(s.kind, s.variance, s.number) for s in made.measurements.steps])
        assert made.rows.num_rows == 10
    assert seen[0] == seen[1] == seen[2]


def test_a_permit_for_nothing_opens_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "w", rows(50)) as session:
        schema = session.schema("people")
        chosen = plan_tree(spec(), schema)
        other = session.synth.synthesize(spec(rows=10), key=KEY)
        assert other.rows.num_rows == 10
        account = session.get_account("people").name
        permit = session.ledger.reserve(account, chosen.event, key="k", digest="d")
        measured = measure(chosen, session.table("people"), permit, TreeLearner(chosen), StepJournal())  # type: ignore[arg-type]
        session.ledger.settle(permit, permit.event, measured.to_bytes())  # type: ignore[arg-type]
        with pytest.raises(NotAllowed):
            measure(chosen, session.table("people"), permit, TreeLearner(chosen), StepJournal())  # type: ignore[arg-type]
    assert np.isfinite([float(step.variance) for step in measured.steps]).all()
