"""Frames that do not fit are refused when they are handed over, not when somebody asks."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from journeys.test_python_door import declared, frame, opened
from siloquent.errors import RequestError, SchemaError, SiloquentError


@pytest.mark.parametrize("wrong", [[1, 2], "visits.csv", Path("visits.csv"), frame(3).select(["age", "ward"])])
def test_a_frame_that_does_not_fit_is_refused_at_once(tmp_path: Path, wrong: object) -> None:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        with pytest.raises(SiloquentError) as refused:
            session.add_frame(sq.read_schema(declared()), wrong)
        assert refused.value.code in ("schema_invalid", "unknown_name")
        assert session.list_tables() == []


def test_a_text_in_the_place_of_a_declaration_is_refused(tmp_path: Path) -> None:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session, pytest.raises(SchemaError, match="declaration first"):
        session.add_frame(declared(), frame(3))  # type: ignore[arg-type]


def test_a_key_that_is_no_text_is_refused_for_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "w", declared()) as session:
        with pytest.raises(RequestError, match="printable characters"):
            session.ask("SELECT COUNT(*) FROM visits ERROR 50", key=5)  # type: ignore[arg-type]
        assert not [entry for entry in session.ledger.iter_entries() if entry.kind == "reserve"]
