"""A session at a server ranks the offers of its catalogue, as one on the folder does, and pays once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.doors.jobs import SPECS, job_workspace, publish_offer
from journeys.faces import FACES, session_of
from journeys.served import serving
from siloquent.api import open_session
from siloquent.errors import UnknownName
from siloquent.search import parse_request
from siloquent.server.repeats import build_ledger_key


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_offers_are_found_at_a_server_as_on_its_folder(tmp_path: Path, face: str) -> None:
    folder = job_workspace(tmp_path / "w")
    publish_offer(folder)
    with serving(folder) as served, session_of(face, served.address, served.texts["ana"]) as ana:
        asked = parse_request(SPECS["find"])
        found = ana.search.find(asked, key="found")
        assert (found.table, found.scoring, found.candidates) == ("visits", "platform", 1)
        spent = ana.get_account("visits").spent
        assert spent.amount > 0
        assert ana.search.find(asked, key="found").to_json() == found.to_json()
        with open_session(folder, analyst="ana") as here:
            local = here.search.find(asked, folder / "catalogue", key=build_ledger_key("ana", "found"))
            assert [one["gain"] for one in found.ranked] == [one.gain for one in local.ranked]
        assert ana.get_account("visits").spent == spent
        with pytest.raises(UnknownName):
            ana.search.find({**SPECS["find"], "target": "nothing"})
