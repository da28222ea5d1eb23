"""What people do in the pages, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from journeys.served import Served
from journeys.web.conftest import no_barriers

Visit = Callable[..., Any]
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"


def price(page: Any, sql: str, *, error: str = "200") -> None:
    """Fill the form and ask what it would cost."""
    page.get_by_label("Your question, in SQL").fill(sql)
    page.get_by_label("How exact: at most this many rows off").fill(error)
    page.get_by_role("button", name="Show the price").click()
    page.wait_for_load_state("load")


@pytest.mark.slow
def test_an_analyst_sees_the_price_then_the_answer_then_asks_again_for_nothing(visit: Visit) -> None:
    page = visit("ana")
    price(page, f"{WARDS} REUSE NONE")
    page.get_by_role("heading", name="Price").wait_for()
    with no_barriers(page):
        pass
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("heading", name="Answer").wait_for()
    assert page.locator("figure svg").count() == 1
    assert page.get_by_role("row").count() == 5
    first = page.locator("main table").inner_text()
    with no_barriers(page):
        pass
    page.get_by_role("button", name="Repeat at no cost").click()
    page.get_by_text("Free: this query was answered before.").wait_for()
    assert page.locator("main table").inner_text() == first


@pytest.mark.slow
def test_a_label_that_looks_like_markup_or_a_formula_is_shown_as_text(visit: Visit) -> None:
    page = visit("ana")
    price(page, WARDS)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("cell", name="=1+1").wait_for()


def test_a_question_that_cannot_be_answered_says_why_and_that_nothing_was_spent(visit: Visit) -> None:
    page = visit("ana", expects=(404,))
    price(page, "SELECT wrad, COUNT(*) FROM visits GROUP BY wrad")
    page.get_by_text("Did you mean 'ward'?").wait_for()
    page.get_by_text("Spent: nothing.").wait_for()
    with no_barriers(page):
        pass


def test_hostile_text_in_the_question_is_shown_as_text(visit: Visit) -> None:
    page = visit("ana", expects=(400, 404, 422))
    price(page, "SELECT '<img src=x onerror=document.title=1>' FROM visits")
    assert page.title() != "1"
    assert page.locator("main img").count() == 0


def test_the_slider_says_its_ends_and_moves_the_error(visit: Visit) -> None:
    page = visit("ana")
    page.get_by_label("How exact, from more exact to more private").fill("60")
    assert page.get_by_label("How exact: at most this many rows off").input_value() == "1000"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("ana", ["/", "/tables", "/tables/visits", "/budget", "/releases", "/jobs", "/help"]),
        ("ana", ["/search", "/dependencies", "/collections"]),
        ("owner", ["/tables", "/tables/visits", "/declare/file", "/tables/visits/edit", "/budget", "/ledger"]),
        ("owner", ["/releases", "/jobs", "/tokens", "/sessions", "/search", "/dependencies", "/declare"]),
        ("auditor", ["/tables", "/budget", "/ledger", "/releases", "/help", "/sessions"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_free_of_barriers(visit: Visit, name: str, paths: list[str], scheme: str) -> None:
    page = visit(name, color_scheme=scheme)
    for path in paths:
        page.goto(path)
        with no_barriers(page):
            assert page.locator("h1").count() == 1
            assert page.locator("main").count() == 1


@pytest.mark.slow
def test_the_login_page_is_free_of_barriers_and_a_wrong_token_says_so(visit: Visit) -> None:
    page = visit(None, expects=(403,))
    page.goto("/budget")
    page.wait_for_url("**/login")
    with no_barriers(page):
        page.get_by_label("Your token").fill("sq_00000000_nothing")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("is not valid").wait_for()


def test_a_login_link_opens_a_session_once(visit: Visit, served: Served) -> None:
    link = f"/login/{served.app.state.house.tokens.create_login_link(served.texts['ana'][3:11])}"
    page = visit(None, expects=(403,))
    page.goto(link)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Ask", exact=True).wait_for()
    other = visit(None, expects=(403,))
    other.goto(link)
    other.get_by_role("button", name="Log in").click()
    other.get_by_text("is not valid").wait_for()


def test_logging_out_ends_the_session(visit: Visit) -> None:
    page = visit("ana")
    page.get_by_role("button", name="Log out").click()
    page.goto("/")
    page.wait_for_url("**/login")


@pytest.mark.slow
def test_an_owner_makes_a_token_that_is_shown_once_and_revokes_it(visit: Visit, served: Served) -> None:
    page = visit("owner")
    page.goto("/tokens")
    page.get_by_label("Name").fill("dora")
    page.get_by_role("button", name="Make a token").click()
    text = page.locator("main code").first.inner_text()
    assert served.app.state.house.tokens.find_by_text(text) is not None
    page.goto("/tokens")
    assert text not in page.content()
    page.get_by_role("button", name=f"Revoke dora {text[3:11]}").click()
    assert served.app.state.house.tokens.find_by_text(text) is None


@pytest.mark.slow
def test_an_owner_checks_rows_and_edits_a_declaration_with_the_place_of_a_fault_named(
    visit: Visit, served: Served
) -> None:
    page = visit("owner", expects=(422,))
    page.goto("/tables/visits")
    page.get_by_role("button", name="Check the rows").click()
    page.get_by_text("3,000 rows").wait_for()
    page.get_by_role("link", name="Edit the declaration").click()
    box, before = page.get_by_label("Table file (TOML)"), (served.folder / "schemas" / "visits.toml").read_text()
    box.fill(before.replace('type = "integer"', 'type = "intger"'))
    page.get_by_role("button", name="Save").click()
    page.get_by_role("alert").wait_for()
    assert (served.folder / "schemas" / "visits.toml").read_text() == before
    with no_barriers(page):
        pass


@pytest.mark.slow
def test_an_auditor_verifies_the_chain_and_sees_no_value(visit: Visit) -> None:
    analyst = visit("ana")
    price(analyst, WARDS)
    analyst.get_by_role("button", name="Ask", exact=True).click()
    page = visit("auditor", expects=(404,))
    page.goto("/ledger")
    page.get_by_role("button", name="Verify the chain").click()
    page.get_by_text("entries verified; none was altered").wait_for()
    page.goto("/releases")
    page.locator("main table a").first.click()
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("This release is valid").wait_for()
    assert page.locator("main a[href*='/files/']").count() == 0
    page.goto("/jobs")
    page.get_by_role("heading", name="Not Found").wait_for()


@pytest.mark.slow
def test_an_owner_shares_a_release_and_another_analyst_sees_it(visit: Visit, served: Served) -> None:
    release = served.ask("ana", f"{WARDS} ERROR 123", "shared-in-a-page").json()["id"]
    owner, bo = visit("owner"), visit("bo", expects=(404,))
    bo.goto(f"/releases/{release}")
    bo.get_by_role("heading", name="Not Found").wait_for()
    owner.goto(f"/releases/{release}")
    owner.get_by_role("button", name="Share with the table's analysts").click()
    bo.goto(f"/releases/{release}")
    bo.get_by_role("heading", name=f"Release {release}").wait_for()


@pytest.mark.slow
def test_a_job_is_started_followed_and_ends_with_a_release(visit: Visit) -> None:
    page = visit("ana")
    page.goto("/jobs")
    page.get_by_label("Spec (JSON)").fill(
        '{"table": "visits", "features": ["age"], "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3}, '
        '"budget": {"epsilon": "1"}}'
    )
    page.get_by_role("button", name="Start").click()
    page.get_by_text("It made").wait_for(timeout=240_000)
    with no_barriers(page):
        pass


def test_everything_can_be_asked_without_a_mouse(visit: Visit) -> None:
    from playwright.sync_api import expect

    page = visit("ana")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.locator("#main:focus").wait_for()
    page.keyboard.press("Tab")
    page.locator("#sql:focus").wait_for()
    page.keyboard.type(WARDS)
    expect(page.locator("#sql:focus")).to_have_value(WARDS, timeout=60_000)
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "explain":
            break
    assert page.evaluate("document.activeElement.value") == "explain"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Price").or_(page.get_by_role("heading", name="This is free")).wait_for()
    page.locator("[data-focus]:focus").wait_for()


@pytest.mark.slow
def test_everything_can_be_asked_without_javascript(visit: Visit) -> None:
    page = visit("ana", java_script_enabled=False)
    price(page, f"{WARDS} ERROR 210")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("heading", name="Answer").wait_for()


def test_nothing_is_cut_off_on_a_narrow_screen(visit: Visit) -> None:
    page = visit("ana", viewport={"width": 320, "height": 640})
    price(page, f"{WARDS} ERROR 211")
    page.get_by_role("button", name="Ask", exact=True).click()
    for path in (None, "/tables/visits", "/budget", "/search", "/jobs", "/releases"):
        if path:
            page.goto(path)
        else:
            page.get_by_role("heading", name="Answer").wait_for()
        page.wait_for_load_state("load")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_form_of_another_origin_changes_nothing(visit: Visit, served: Served) -> None:
    page = visit("owner", expects=(403,))
    page.goto("/tokens")
    page.evaluate("document.querySelectorAll('input[name=csrf]').forEach((one) => { one.value = 'forged'; })")
    page.get_by_label("Name").fill("mallory")
    page.get_by_role("button", name="Make a token").click()
    page.get_by_text("was not sent by this server's page").wait_for()
    assert "mallory" not in {one["name"] for one in served.app.state.house.tokens.list()}
