"""Who spent what: releases name the task of this ledger's charges, and of no other's."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from siloquent.server.spending import Spending
from siloquent.server.store import Store
from unit.sketch.tables import session, spec


@pytest.mark.parametrize(
    "changed", [{"ledger": "f" * 32}, {"seq": "many"}, {"ledger": "f" * 32, "seq": 0}], ids=["ledger", "text", "none"]
)
def test_a_release_of_another_ledger_names_no_charge_of_this_one(tmp_path: Path, changed: dict[str, object]) -> None:
    opened = session(tmp_path)
    saved = opened.sketch.save(opened.sketch.build(spec(rows=64), key="k"))
    foreign = saved.parent / "z-foreign"
    shutil.copytree(saved, foreign)
    manifest = json.loads((foreign / "manifest.json").read_text())
    manifest["receipt"] |= changed
    (foreign / "manifest.json").write_text(json.dumps({**manifest, "id": "z-foreign", "task": "share"}))
    with closing(Store(tmp_path / "server.sqlite")) as store:
        lines = Spending(tmp_path / "place", store).list_lines(opened)
    assert [(one["task"], one["charges"]) for one in lines] == [("sketch", 1)]
