"""An analyst over HTTP: the price first, the answer once, the same bytes for nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import siloquent
from benchmarks.sameness.over_http import compare_over_http
from benchmarks.sameness.tables import SETTINGS, SOME_SETTINGS, Pair, pairs
from journeys.clinic import TOML, WARDS
from journeys.served import Served, clinic_workspace, serving


def spent(served: Served) -> dict[str, str]:
    with served.client("auditor") as client:
        accounts = client.get("/v1/accounts").json()["accounts"]
    return {one["name"]: one["spent"] for one in accounts if one["spent"] != "0"}


def test_the_price_is_said_before_and_costs_nothing(served: Served) -> None:
    before = spent(served)
    with served.client("ana") as client:
        plan = client.post("/v1/explanations", json={"sql": WARDS}).json()
    assert (plan["schema"], plan["data_touched"]) == ("siloquent/explanation/2", False)
    assert spent(served) == before


def test_an_answer_has_intervals_a_guarantee_and_a_receipt_and_is_verified(served: Served) -> None:
    answer = served.ask("ana", WARDS, "first").json()
    assert [row[0] for row in answer["rows"]] == ["A", "B", "=1+1", "icu"]
    assert all(low <= value <= high for _, value, low, high in answer["rows"])
    assert "so far amounts to" in answer["guarantee"]
    with served.client("auditor") as client:
        assert client.post(f"/v1/releases/{answer['id']}/verify").json()["ok"]


def test_an_answer_is_planned_by_a_planner_alone(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise AssertionError("the process that answers plans nothing")

    monkeypatch.setattr("siloquent.explore.charging.plan_query", refuse)
    assert served.ask("ana", WARDS, "planned once").status_code == 200


def test_the_same_key_and_body_give_the_same_bytes_for_nothing(served: Served) -> None:
    first = served.ask("ana", WARDS, "again")
    before = spent(served)
    second = served.ask("ana", WARDS, "again")
    assert second.content == first.content
    assert ("idempotency-replayed" in first.headers, second.headers["idempotency-replayed"]) == (False, "true")
    assert spent(served) == before


def test_a_key_of_one_request_answers_no_other_and_belongs_to_its_person(served: Served) -> None:
    served.ask("ana", WARDS, "mine")
    other = served.ask("ana", WARDS.replace("200", "300"), "mine")
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")
    assert served.ask("bo", WARDS.replace("200", "300"), "mine").status_code == 200


def test_twenty_at_once_under_one_key_are_charged_once_and_get_one_answer(served: Served) -> None:
    question = "SELECT ward, COUNT(*) FROM visits WHERE age > 50 GROUP BY ward ERROR 90 REUSE NONE"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: served.ask("ana", question, "at-once"), range(20)))
    assert {one.status_code for one in found} <= {200, 429}
    assert len({one.content for one in found if one.status_code == 200}) == 1
    with served.client("auditor") as client:
        entries = client.get("/v1/accounts/visits@1/ana/entries").json()["entries"]
    price = [one["body"]["cost"] for one in entries if one["kind"] == "reserve"]
    assert price.count(price[-1]) == 1


@pytest.mark.parametrize("key", ["", "x" * 65, "caf\xe9"])
def test_what_spends_needs_a_key(served: Served, key: str) -> None:
    before = spent(served)
    with served.client("ana") as client:
        headers = {"Idempotency-Key": key.encode("latin-1")} if key else {}
        refused = client.post("/v1/answers", json={"sql": WARDS}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "idempotency_key_missing")
    assert spent(served) == before


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELECT wrad, COUNT(*) FROM visits GROUP BY wrad ERROR 100", 404, "unknown_name"),
        ("SELEC 1", 400, "syntax"),
        ("SELECT COUNT(*) FROM elsewhere ERROR 100", 404, "unknown_name"),
        ("SELECT MIN(cost) FROM visits ERROR 1", 422, "request_invalid"),
    ],
)
def test_refusals_are_problem_documents_with_a_fix_and_cost_nothing(
    served: Served, sql: str, status: int, code: str
) -> None:
    before = spent(served)
    refused = served.ask("ana", sql, f"refused {status}")
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["code"], refused.json()["spent"]) == (status, code, "nothing")
    assert refused.json()["fix"]
    assert spent(served) == before


def test_a_price_above_the_limit_is_refused_unspent(served: Served) -> None:
    before = spent(served)
    refused = served.ask("ana", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 11", "dear", max_cost="0.000001")
    assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid")
    assert spent(served) == before


def test_a_budget_that_is_gone_says_what_was_asked_and_what_is_left(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "poor", toml=TOML)) as poor:
        refused = poor.ask("bo", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 60", "k")
        never = poor.ask("ana", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 0.001", "k")
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exceeded")
    assert "left" in refused.json()["detail"]
    assert (never.status_code, never.json()["code"]) == (422, "accuracy_unreachable")


@pytest.mark.slow
def test_neighbouring_tables_are_told_apart_by_no_status_header_or_text(tmp_path: Path) -> None:
    filed = [one for one in pairs(SOME_SETTINGS, each=1) if one.one.setting.in_a_file]
    found = compare_over_http(filed[:: len(filed) // 3][:3], tmp_path / "pairs")
    assert (found.pairs, found.differences) == (3, [])


@pytest.mark.slow
def test_that_comparison_would_show_another_price(tmp_path: Path) -> None:
    sides = {one.one.setting: one.one for one in pairs(SETTINGS[:12]) if one.one.setting.layout == "csv"}
    one, *_, other = sides.values()
    assert compare_over_http([Pair("two tables", one, other)], tmp_path / "pairs").differences


@pytest.mark.slow
def test_answers_of_small_counts_leave_at_whole_slots(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "slots"), slot_counts_ms=400) as slow:
        slow.ask("ana", WARDS, "warm")
        times = [slow.ask("ana", f"{WARDS} REUSE NONE", f"s{i}").elapsed.total_seconds() for i in range(4)]
    # Never before the slot's end; how much later it arrives is the machine's affair.
    assert min(times) >= 0.4


def test_a_source_that_fails_says_one_fixed_text_and_nothing_of_what_is_in_it(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "broken")
    next(folder.rglob("*.parquet")).write_bytes(b"PAR1 no parquet at all PAR1")
    with serving(folder) as broken:
        failed = broken.ask("ana", WARDS, "fails")
        assert spent(broken) == {}
    assert failed.status_code >= 400
    assert "no parquet at all" not in failed.text
    assert failed.headers["content-type"] == "application/problem+json"


def test_sql_as_it_is_typed_is_the_question_that_it_means(served: Served) -> None:
    plain = served.ask(
        "ana", "SELECT ward, COUNT(*) FROM visits WHERE age > 40 GROUP BY ward ERROR 190", "plain"
    ).json()
    before = spent(served)
    text = (
        "WITH old AS (SELECT ward AS w, age FROM visits v WHERE v.age > 40) "
        "SELECT w, COUNT(*) AS n, 2 * COUNT(*) AS twice "
        "FROM old GROUP BY w HAVING n > -9999 OR (twice < 0 AND n = 1) ORDER BY w DESC LIMIT 2 ERROR 190"
    )
    answer = served.ask("ana", text, "typed").json()
    assert answer["columns"][:2] == ["w", "n"]
    known = {row[0]: row[1] for row in plain["rows"]}
    wards = sorted(known, reverse=True)[:2]
    assert [(row[0], row[1], row[4]) for row in answer["rows"]] == [(w, known[w], 2 * known[w]) for w in wards]
    assert spent(served) == before
    refused = served.ask(
        "ana", "SELECT COUNT(*) FROM (SELECT ward, COUNT(*) FROM visits GROUP BY ward) ERROR 190", "no"
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid")
    assert spent(served) == before


def test_a_default_accuracy_of_the_connection_stands_in_and_costs_at_most_its_share(served: Served) -> None:
    text = "SELECT ward, COUNT(*) FROM visits GROUP BY ward REUSE NONE"
    defaults = {"error": "20 PERCENT", "max_share": "0.5"}
    with served.client("ana") as client:
        assert client.post("/v1/explanations", json={"sql": text}).json()["code"] == "syntax"
        plan = client.post("/v1/explanations", json={"sql": text, "defaults": defaults}).json()
    told = "accuracy by default: ERROR 20 PERCENT CONFIDENCE 0.95, for at most 50 % of what is left"
    assert any(note.startswith(told) for note in plan["notes"])
    answer = served.ask("ana", text, "default", defaults=defaults)
    assert any(note.startswith(told) for note in answer.json()["notes"])
    assert served.ask("ana", text, "default", defaults=defaults).content == answer.content
    assert served.ask("ana", text, "default", defaults={"error": "30 PERCENT"}).json()["code"] == "key_reused"
    before = spent(served)
    dear = served.ask("ana", text, "dear", defaults={"error": "0.01 PERCENT", "max_share": "0.00001"}).json()
    assert (dear["code"], "the most that a default may cost" in dear["detail"]) == ("request_invalid", True)
    assert spent(served) == before
    assert served.ask("ana", f"{text} {dear['fix'].removeprefix('ask with ')}", "dear").status_code == 200
    wrong = served.ask("ana", text, "wrong", defaults={"error": "2 ROWS"})
    assert (wrong.status_code, wrong.json()["spent"]) == (422, "nothing")


def test_a_session_at_a_server_sends_its_default(served: Served, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(served.texts["ana"])
    token.chmod(0o600)
    defaults = siloquent.AccuracyDefaults("20 PERCENT", max_share="1")
    with siloquent.connect(served.address, token_file=token, defaults=defaults) as session:
        told = "accuracy by default: ERROR 20 PERCENT"
        assert any(note.startswith(told) for note in session.ask("SELECT COUNT(*) FROM visits").notes)
        assert any(note.startswith(told) for note in session.explain(siloquent.count("visits")).notes)
