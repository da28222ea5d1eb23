"""A release is planned once, for its price and for its run; what was shown is what is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import siloquent as sq
from siloquent.cli.app import run
from siloquent.errors import KeyReused, RequestError, SchemaError
from siloquent.search import KeyOf, OfferSpec
from siloquent.search import plan as plan_offer
from siloquent.share import ShareSpec
from siloquent.share import plan as plan_share
from siloquent.sketch import Budget, PStable, SketchSpec
from siloquent.sketch import plan as plan_sketch
from siloquent.synth import SynthSpec
from siloquent.synth.plan.tree import plan_tree
from unit.counting import counting
from unit.sketch.tables import ROW, TOML, ZCDP, rows

PLANS: dict[str, Callable[..., Any]] = {
    "sketch": plan_sketch, "search": plan_offer, "share": plan_share, "synth": plan_tree,
}  # fmt: skip
COMMANDS = {
    "sketch": ("sketch", "build", "points", "--features", "x,y", "--rho", "1"),
    "search": ("search", "offer", "points", "--features", "x", "--by", "kind", "--rho", "1"),
    "share": ("share", "release", "points", "--label", "kind", "--features", "x", "--rho", "1"),
    "synth": ("synth", "run", "points", "--columns", "kind,wet", "--rho", "1", "--rows", "50", "--quality", "fast"),
}
SPECS: dict[str, Any] = {
    "sketch": SketchSpec("points", ("x", "y"), PStable(2, 1.0), Budget(rho="1")),
    "search": OfferSpec("points", features=("x",), keys=(KeyOf("kind"),), budget=Budget(rho="1")),
    "share": ShareSpec("points", label="kind", features=("x",), budget=Budget(rho="1")),
    "synth": SynthSpec("points", Budget(rho="1"), columns=("kind", "wet"), rows=50, quality="fast"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "w"
    sq.create_workspace(place)
    declared = TOML.format(budget=ZCDP, unit=ROW, adjacency="add-remove", size="size_hint = 2000", outside="drop")
    (place / "schemas" / "points.toml").write_text(declared.replace("[table]", '[table]\nsource = "parquet:p.parquet"'))
    pyarrow.parquet.write_table(rows(), place / "p.parquet")
    return place


@pytest.fixture
def session(folder: Path) -> Iterator[sq.Session]:
    with sq.open(folder) as opened:
        yield opened


def spent(session: sq.Session) -> int:
    return session.get_account("points").spent.amount


@pytest.mark.parametrize("task", PLANS)
def test_a_release_at_the_command_line_is_planned_once(folder: Path, task: str) -> None:
    with counting(plan=PLANS[task]) as calls:
        assert run(["--workspace", str(folder), *COMMANDS[task], "--yes", "--key", "k"]) == 0
    assert calls == {"plan": 1}


def test_a_search_on_the_platform_is_planned_once(folder: Path) -> None:
    at, paid = ("--workspace", str(folder), "search"), ("--rho", "1", "--yes")
    offered = ("offer", "points", "--features", "x", "--by", "kind", "--catalogue", "catalogue")
    assert run([*at, *offered, *paid]) == 0
    with counting(plan=plan_offer) as calls:
        assert run([*at, "find", "points", "--target", "y", "--by", "kind", *paid]) == 0
    assert calls == {"plan": 1}


@pytest.mark.parametrize("task", [pytest.param(one, marks=[pytest.mark.slow] * (one == "sketch")) for one in PLANS])
def test_what_was_planned_is_what_is_charged_and_the_key_gives_it_again(session: sq.Session, task: str) -> None:
    verbs = getattr(session, task)
    with counting(plan=PLANS[task]) as calls:
        prepared = verbs.prepare(SPECS[task], key="k")
        assert spent(session) == 0
        made = prepared.run()
    assert calls == {"plan": 1}
    paid = spent(session)
    assert paid == prepared.plan.price * 10**12
    again = verbs.prepare(SPECS[task], key="k").run(max_cost="0.001")  # a repeat costs nothing, whatever the limit
    folders = [verbs.save(one, session.workspace.folder / f"{i}") for i, one in enumerate((made, again))]
    assert len({(one / "manifest.json").read_text() for one in folders}) == 1
    assert spent(session) == paid
    with pytest.raises(RequestError, match=r"more than the 0\.5 that you allow"):
        verbs.prepare(SPECS[task], key="other").run(max_cost="0.5")
    assert spent(session) == paid


@pytest.mark.parametrize("task", PLANS)
def test_a_table_declared_anew_is_not_measured_under_the_old_plan(session: sq.Session, folder: Path, task: str) -> None:
    prepared = getattr(session, task).prepare(SPECS[task], key="k")
    file = folder / "schemas" / "points.toml"
    file.write_text(file.read_text().replace("size_hint = 2000", "size_hint = 2001"))
    with pytest.raises(SchemaError, match="has changed since this was planned") as refused:
        prepared.run()
    assert (refused.value.spent, spent(session)) == ("nothing", 0)


def test_a_key_of_another_synthesis_is_refused_before_its_price_is_shown(session: sq.Session) -> None:
    session.synth.synthesize(SPECS["synth"], key="k")
    with pytest.raises(KeyReused):
        session.synth.prepare(SynthSpec("points", Budget(rho="2"), columns=("kind", "wet"), quality="fast"), key="k")


def test_a_public_file_that_changes_before_the_run_is_not_used(session: sq.Session, folder: Path) -> None:
    file = folder / "schemas" / "points.toml"
    rule = "\n[[constraint]]\nkind = 'fd'\nlhs = ['item']\nrhs = 'kind'\n"
    file.write_text(file.read_text() + rule)
    reference = folder / "item_kind.csv"
    reference.write_text("item,kind\n" + "".join(f"{i},{'a' if i < 500 else 'b'}\n" for i in range(1_000)))
    spec = SynthSpec(
        "points",
        Budget(rho="1"),
        columns=("item", "kind"),
        rows=50,
        quality="fast",
        references={"item_kind": str(reference)},
    )
    prepared = session.synth.prepare(spec, key="k")
    reference.write_text(reference.read_text().replace("0,a", "0,b", 1))
    with pytest.raises(RequestError, match="has changed since") as refused:
        prepared.run()
    assert (refused.value.spent, spent(session)) == ("nothing", 0)
    assert len(session.synth.prepare(spec, key="k").run().rows) == 50
