"""Results read as text and in notebooks, and become tables of other libraries without losing their intervals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.errors import MissingExtra
from siloquent.profile import ProfileSpec
from siloquent.readable import Readable
from siloquent.search import OfferSpec
from siloquent.share import ShareSpec
from siloquent.sketch import PStable, SketchSpec
from siloquent.synth import Budget, SynthSpec

TOML = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "<b>B</b>"], null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
]
[table]
name = "visits"
adjacency = "add-remove"
size_hint = 400
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "60"
delta = "1e-6"
"""
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 20"
SEVERAL = "SELECT ward, COUNT(*) AS n, AVG(age), MEDIAN(age) FROM visits GROUP BY ward ERROR 30, 9, 90"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("readable") / "w"
    sq.create_workspace(folder)
    with sq.open(folder) as opened:
        rows = pa.table({"ward": ["A", "<b>B</b>"] * 200, "age": list(range(100)) * 4})
        opened.add_frame(sq.read_schema(TOML), rows)
        yield opened


def shown(session: Session) -> dict[str, Readable]:
    return {
        "answer": session.ask(WARDS, key="wards"),
        "explanation": session.explain(WARDS + " REUSE NONE"),
        "schema": session.schema("visits"),
        "check": session.check("visits"),
        "budget": session.get_budget("visits"),
        "verdict": session.verify(session.save(session.ask(WARDS, key="wards"))),
        "profile": session.profile.local("visits"),
        "prepared": session.prepare(WARDS),
        "synth": session.synth.explain(SynthSpec(table="visits", budget=Budget(epsilon="9"))),
        "prepared synth": session.synth.prepare(SynthSpec(table="visits", budget=Budget(epsilon="9"))),
        "sketch": session.sketch.explain(SketchSpec("visits", ("age",), PStable(2, 0.2), Budget(epsilon="1"))),
        "share": session.share.explain(
            ShareSpec("visits", label="ward", features=("age",), budget=Budget(epsilon="1"))
        ),
        "offer": session.search.explain(OfferSpec("visits", features=("age",), budget=Budget(epsilon="1"))),
        "bounds": session.discover.explain("visits", "age", epsilon="1"),
        "session": session.profile.explain(ProfileSpec("visits", ("ward", "age"))),
    }


def test_every_result_is_text_at_a_prompt_and_escaped_in_a_notebook(session: Session) -> None:
    for name, value in shown(session).items():
        assert repr(value) == str(value), name
        html = value._repr_html_()
        assert "<b>" not in html, name
        assert "style=" not in html.replace('style="text-align:right"', "").partition("<svg")[0], name  # no colours
        assert len(str(value)) < 2_000, name


def test_numbers_come_with_what_they_mean(session: Session) -> None:
    said = {name: str(value) for name, value in shown(session).items()}
    assert "at least" in said["answer"]
    assert "so far amounts to" in said["answer"]
    for part in ("No value is more than 20 rows off", "Price: rho ", "epsilon", "left, and", "No data was read"):
        assert part in said["explanation"], part
    for part in ("% spent", "spent: rho", "left:  rho", "one release of epsilon", "for one row"):
        assert part in said["budget"], part
    for name in ("synth", "sketch", "share", "offer", "bounds"):
        assert said[name].startswith("Plan of a"), name
        assert "(epsilon " in said[name].splitlines()[-1], name
        assert said[name].endswith("No data was read and nothing was spent."), name
    assert said["prepared"].endswith("run()")
    assert said["check"].startswith("visits: as declared; 400 of 400 rows count")
    assert "for the owner only" in said["check"]
    assert "verified" in said["verdict"]


def test_the_status_of_a_budget_adds_up(session: Session) -> None:
    session.ask(WARDS, key="wards")
    status = session.get_budget("visits")
    assert status.spent + status.left == status.limit
    assert 0 < status.share_spent < 1
    assert session.get_remaining("visits").amount == status.left * 10**12


@pytest.mark.parametrize(
    ("question", "units"),
    [
        (WARDS, {"count": "rows", "low": "rows", "high": "rows"}),
        (
            SEVERAL,
            {
                **dict.fromkeys(("n", "n_low", "n_high"), "rows"),
                **dict.fromkeys(("avg_age", "avg_age_low", "avg_age_high"), "units of age"),
            },
        ),
    ],
)
def test_an_answer_becomes_a_frame_with_its_intervals_and_units(
    session: Session, question: str, units: dict[str, str]
) -> None:
    answer = session.ask(question, key=question[:40])
    frame = answer.to_pandas()
    assert list(frame.columns) == list(answer.columns)
    assert frame.itertuples(index=False, name=None).__next__() == answer.rows[0]
    assert frame.attrs["units"] == units
    assert frame.attrs["promise"] == answer.promise
    assert frame.attrs["guarantee"] == answer.guarantee.describe()
    assert answer.to_polars().rows() == [tuple(row) for row in answer.rows]
    table = answer.to_arrow()
    assert table.schema.metadata[b"promise"].decode() == answer.promise
    assert table.replace_schema_metadata(None).to_pylist() == answer.table.to_pylist()
    assert answer.table.schema.metadata is None  # what releases hold is as it was


def test_a_frame_of_an_answer_is_kept_as_parquet(session: Session, tmp_path: Path) -> None:
    import pandas as pd

    session.ask(WARDS, key="wards").to_pandas().to_parquet(tmp_path / "wards.parquet")
    assert pd.read_parquet(tmp_path / "wards.parquet").attrs["units"]["count"] == "rows"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_its_extra(
    session: Session, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    answer = session.ask(WARDS, key="wards")
    monkeypatch.setitem(sys.modules, library, None)
    convert: Any = getattr(answer, f"to_{library}")
    with pytest.raises(MissingExtra) as refused:
        convert()
    assert refused.value.fix == f"pip install 'siloquent[{library}]'"
