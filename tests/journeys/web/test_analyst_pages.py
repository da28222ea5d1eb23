"""What goes wrong for an analyst in the pages, and what a device team sees: a clear page, nothing spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journeys.clinic import TOML
from journeys.served import Served, clinic_workspace, serving
from journeys.server.test_collections_over_http import collecting
from journeys.web.conftest import no_barriers
from journeys.web.test_pages import price

Visit = Callable[..., Any]
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"


def reserves(served: Served) -> int:
    """How often ana was charged."""
    with served.client("auditor") as client:
        found = client.get("/v1/accounts/visits@1/ana/entries").json().get("entries", [])
    return sum(one["kind"] == "reserve" for one in found)


@pytest.mark.slow
def test_a_form_that_is_sent_twice_is_charged_once(visit: Visit, served: Served) -> None:
    page = visit("ana")
    price(page, f"{WARDS} REUSE NONE", error="177")
    before = reserves(served)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("heading", name="Answer").wait_for()
    first = page.locator("main table").inner_text()
    page.reload()  # which sends the form once more
    page.get_by_text("Free: this query was answered before.").wait_for()
    assert page.locator("main table").inner_text() == first
    assert reserves(served) == before + 1


@pytest.mark.slow
def test_what_is_computed_from_earlier_answers_says_that_it_costs_nothing(visit: Visit) -> None:
    page = visit("ana")
    for error, paid in (("176", "Paid"), ("900", "Free: computed from earlier answers.")):
        price(page, "SELECT age, COUNT(*) FROM visits GROUP BY age", error=error)
        free = page.get_by_role("heading", name="This is free").count() == 1
        assert (free, page.get_by_text("Ask, and it is charged.").count()) == (error == "900", int(error == "176"))
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("heading", name="Answer").wait_for()
        page.get_by_text(paid).first.wait_for()


@pytest.mark.slow
def test_a_budget_that_is_too_small_says_what_would_fit(browser: Any, tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "poor", toml=TOML)) as poor:
        context = browser.new_context(base_url=poor.address)
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Your token").fill(poor.texts["bo"])
        page.get_by_role("button", name="Log in").click()
        price(page, WARDS, error="60")
        page.get_by_text("exceeds the remaining budget; use a larger error").wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_text("Spent: nothing.").wait_for()
        page.get_by_text("ask with ERROR").wait_for()
        with no_barriers(page):
            pass
        context.close()


def test_a_session_that_has_expired_leads_to_the_door_and_spends_nothing(visit: Visit, served: Served) -> None:
    page = visit("ana")
    price(page, f"{WARDS} REUSE NONE", error="178")
    before = reserves(served)
    served.app.state.house.store.write("UPDATE browser SET expires = 1")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_label("Your token").wait_for()
    assert reserves(served) == before


def test_a_token_that_is_revoked_ends_its_pages(visit: Visit, served: Served) -> None:
    tokens = served.app.state.house.tokens
    text = tokens.create("hal", "analyst")
    page = visit(None)
    page.goto("/login")
    page.get_by_label("Your token").fill(text)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()
    tokens.revoke(text[3:11])
    page.goto("/budget")
    page.wait_for_url("**/login")


@pytest.mark.slow
def test_a_job_that_cannot_be_done_says_why_and_how_to_mend_it(visit: Visit) -> None:
    page = visit("ana")
    page.goto("/jobs")
    page.get_by_label("Spec (JSON)").fill(
        '{"table": "visits", "features": ["<script>"], "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3}, '
        '"budget": {"epsilon": "1"}}'
    )
    page.get_by_role("button", name="Start").click()
    page.get_by_role("alert").wait_for(timeout=240_000)
    page.get_by_role("alert").get_by_text("<script>").first.wait_for()
    with no_barriers(page):
        pass


@pytest.mark.slow
def test_a_job_shows_its_steps_while_it_runs(visit: Visit, served: Served) -> None:
    store = served.app.state.house.store
    store.write(
        "INSERT INTO job (id, name, token, task, spec, key, state, done, steps, created, changed, held_until) "
        "VALUES ('j-steps', 'ana', ?, 'synth', '{}', 'steps', 'running', 2, 7, 1, 1, 99999999999)",
        served.texts["ana"][3:11],
    )
    page = visit("ana")
    page.goto("/jobs/j-steps")
    with no_barriers(page):
        page.get_by_text("2 of 7 steps done").wait_for()
    store.write("UPDATE job SET done = 5 WHERE id = 'j-steps'")
    page.get_by_text("5 of 7 steps done").wait_for()
    assert page.locator("progress").evaluate("one => one.value / one.max") == 5 / 7
    store.write("UPDATE job SET state = 'cancelled' WHERE id = 'j-steps'")
    page.get_by_text("synth is cancelled").wait_for()
    assert page.locator("progress").count() == 0


@pytest.mark.parametrize(
    "spec", ["no JSON", "[]", '{"table": "elsewhere-"}', '{"table": "visits", "plan_file": "/etc/x"}']
)
def test_a_spec_that_is_none_starts_nothing_or_fails_in_words(visit: Visit, served: Served, spec: str) -> None:
    page = visit("ana", expects=(422,))
    page.goto("/jobs")
    page.get_by_label("Spec (JSON)").fill(spec)
    page.get_by_role("button", name="Start").click()
    page.get_by_text("Fix").wait_for(timeout=240_000)


@pytest.mark.slow
def test_a_release_is_downloaded_as_it_was_written(visit: Visit, served: Served) -> None:
    release = served.ask("ana", f"{WARDS} ERROR 179", "downloaded").json()["id"]
    page = visit("ana")
    page.goto(f"/releases/{release}")
    with page.expect_download() as waited:
        page.get_by_role("link", name="answer.parquet").click()
    assert Path(waited.value.path()).read_bytes().startswith(b"PAR1")


@pytest.mark.slow
def test_a_collection_shows_what_became_of_reports_and_estimates_with_errors(browser: Any, tmp_path: Path) -> None:
    with collecting(tmp_path / "w", devices=200) as (served, data):
        with served.client("devices") as sender:
            assert sender.post("/v1/collections/walks-1/reports", content=data).status_code == 200
        context = browser.new_context(base_url=served.address)
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Your token").fill(served.texts["ana"])
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("button", name="Log out").wait_for()
        page.goto("/collections")
        page.locator("main li a").first.click()
        page.get_by_role("row").filter(has_text="accepted").filter(has_text="200").wait_for()
        with no_barriers(page):
            pass
        context.close()
