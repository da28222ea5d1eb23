"""Refusals on record: failed logins with their address, counted, and nobody drives another's record out."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from journeys.served import Served, clinic_workspace, serving
from siloquent.server.access import denials
from siloquent.server.access.denials import Denials
from siloquent.server.store import Store


def recorded(served: Served) -> list[dict[str, Any]]:
    with served.client("auditor") as auditor:
        found: list[dict[str, Any]] = auditor.get("/v1/denials").json()["denials"]
    return found


def test_failed_logins_and_wrong_tokens_are_on_record_with_their_address(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served:
        wrong = f"sq_{served.texts['ana'][3:11]}_{'x' * 43}"
        with served.client("nobody") as stranger:
            for _ in range(7):
                assert stranger.post("/login", data={"token": wrong}).status_code == 403
            assert stranger.get("/v1/me").status_code == 401
            assert stranger.get("/metrics").status_code == 401
            assert stranger.get("/budget").status_code == 401, "a page that asks to log in is no attack"
            assert stranger.get("/v1/tables", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401
        served.app.state.house.tokens.revoke(served.texts["bo"][3:11])
        with served.client("bo") as revoked:
            assert revoked.get("/v1/tables").status_code == 401
        found = recorded(served)
        lines = [(one["route"], one["code"], one["token"], one["times"]) for one in found]
        assert sorted(lines) == sorted([
            ("list_tables", "unauthorised", served.texts["bo"][3:11], 1),
            ("list_tables", "unauthorised", served.texts["ana"][3:11], 1),
            ("metrics", "unauthorised", "", 1),
            ("me", "unauthorised", "", 1),
            ("log_in", "not_allowed", "", 7),
        ])  # fmt: skip
        assert {one["address"] for one in found} == {"127.0.0.1"}
        assert not [text for text in (wrong, *served.texts.values()) if text in str(found)], "no secret is kept"
        with served.client("watcher") as watcher:
            assert "siloquent_denials 5" in watcher.get("/metrics").text.splitlines()


def test_whatever_one_sends_drives_no_others_record_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MAX_OF_A_KIND", 20)
    monkeypatch.setattr(denials, "SAME_SECONDS", -1)  # each flush is a row of its own
    with serving(clinic_workspace(tmp_path / "w")) as served:
        with served.client("bo") as bo:
            assert bo.get("/v1/denials").status_code == 403
        first = recorded(served)
        kept = served.app.state.house.watch.denials
        with served.client("ana") as ana, served.client("nobody") as stranger:
            for _ in range(60):
                assert ana.get("/v1/denials").status_code == 403
                assert stranger.get("/v1/me").status_code == 401
                kept.flush()
        found = recorded(served)
        assert first[0] in found
        counts = {name: sum(one["name"] == name for one in found) for name in ("ana", "bo", "")}
        assert counts == {"ana": 20, "bo": 1, "": 20}


def test_addresses_without_number_take_no_room_and_are_counted(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    kept = Denials(store)
    for number in range(5 * denials.MAX_PENDING):
        kept.add("", "nobody", "me", "unauthorised", address=f"10.0.{number // 256}.{number % 256}")
    kept.flush()
    assert kept.count() <= denials.MAX_OF_A_KIND
    newest = kept.newest(10_000)
    assert max(one["times"] for one in newest) == 4 * denials.MAX_PENDING
    store.close()


def test_made_up_tokens_of_one_stranger_are_one_line(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("nobody") as stranger:
        for number in range(40):
            told = {"Authorization": f"Bearer sq_{number:08x}_{'x' * 43}"}
            assert stranger.get("/v1/me", headers=told).status_code == 401
        found = [(one["token"], one["times"]) for one in recorded(served) if one["route"] == "me"]
        assert (sum(times for _, times in found), {token for token, _ in found}, len(found)) == (40, {""}, 1)


def test_a_flood_of_strangers_hides_no_person(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s.sqlite")) as store:
        kept = Denials(store)
        for number in range(denials.MAX_PENDING):
            kept.add("", "nobody", "me", "unauthorised", address=f"10.0.{number // 256}.{number % 256}")
        kept.add("bo", "analyst", "list_denials", "not_allowed", address="10.9.9.9", token="0000000b")
        kept.flush()
        (found,) = [one for one in kept.newest(10_000) if one["code"] == "not_allowed"]
        assert (found["name"], found["address"], found["token"]) == ("bo", "10.9.9.9", "0000000b")


def test_a_refusal_waits_for_no_disk_and_is_written_when_the_store_is_free(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served:
        other = Store(served.folder / "server.sqlite")
        with other.open_transaction(), httpx.Client(base_url=served.address, timeout=5) as stranger:
            for _ in range(20):
                assert stranger.get("/v1/me").status_code == 401
        other.close()
        for _ in range(600):
            if [one["times"] for one in recorded(served) if one["route"] == "me"] == [20]:
                break
            time.sleep(0.05)
        else:
            raise AssertionError(recorded(served))
