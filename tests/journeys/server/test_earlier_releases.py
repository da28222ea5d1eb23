"""A server verifies releases of an earlier version, and says the same by document, client and page."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from journeys.served import serving
from siloquent.remote import connect
from unit.releases.earlier import restore_workspace


@pytest.mark.slow
def test_a_release_of_an_earlier_version_is_neither_verified_nor_condemned(tmp_path: Path) -> None:
    with serving(restore_workspace(tmp_path / "stays")) as served:
        with served.client("auditor") as client:
            told = client.post("/v1/releases/r-000015/verify").json()
            assert client.get("/v1/releases/r-000015").json()["rules"] is None
        assert (told["ok"], told["outcome"], told["uncompared"]) == (True, "other_rules", ["model.npz"])
        (tmp_path / "token").write_text(served.texts["owner"])
        (tmp_path / "token").chmod(0o600)
        with connect(served.address, token_file=tmp_path / "token") as session:
            verdict = session.verify("r-000015")
            assert (verdict.outcome, verdict.package) == ("other_rules", "siloquent 0.1.0")
            assert verdict.checked == told["checked"]
            assert session.verify("r-000017").outcome == "verified"
        origin = {"Origin": served.address}
        with httpx.Client(base_url=served.address, headers=origin, follow_redirects=True) as pages:
            pages.post("/login", data={"token": served.texts["owner"]})
            page = pages.get("/releases/r-000015").text
            token = page.partition('name="csrf" value="')[2].partition('"')[0]
            shown = pages.post("/releases/r-000015/verify", data={"csrf": token}).text
        assert "This release is valid as far as it could be checked" in shown
        assert "Do not use" not in shown
