"""What a steward and a federation's operator do in the pages: declare by form, see who spent, adopt, say yes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journeys.served import Served
from journeys.silos import Silo
from journeys.web.conftest import no_barriers

Visit = Callable[..., Any]
WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"


def uploaded(page: Any, file: Path, content: bytes) -> None:
    """Choose a file in the form and send it."""
    file.write_bytes(content)
    page.goto("/declare")
    page.get_by_label("A CSV or Parquet file").set_input_files(file)
    page.get_by_role("button", name="Upload").click()


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"PK\x03\x04zip", b"\x1f\x8b\x08gzip", b"PAR1 and no more"])
def test_a_file_that_is_no_table_is_refused_and_leaves_nothing(
    visit: Visit, served: Served, tmp_path: Path, content: bytes
) -> None:
    page = visit("owner", expects=(415, 422))
    uploaded(page, tmp_path / "x.bin", content)
    page.get_by_text("Fix").wait_for()
    assert not [one for one in (served.folder / "uploads").iterdir() if one.name.startswith(".")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wizard", "new", "upload", "file", "edit"])
def test_a_table_may_have_the_name_of_a_page(visit: Visit, served: Served, name: str) -> None:
    toml = (served.folder / "schemas" / "visits.toml").read_text().replace('name = "visits"', f'name = "{name}"')
    with served.client("owner") as client:
        assert client.put(f"/v1/tables/{name}", json={"toml": toml}).status_code == 200
    page = visit("owner")
    page.goto(f"/tables/{name}")
    page.get_by_role("heading", name=name).wait_for()
    (served.folder / "schemas" / f"{name}.toml").unlink()


def test_an_upload_by_another_origins_form_is_refused(visit: Visit, served: Served, tmp_path: Path) -> None:
    page = visit("owner", expects=(403,))
    page.goto("/declare")
    page.evaluate("document.querySelectorAll('input[name=csrf]').forEach((one) => { one.value = 'forged'; })")
    before = len(served.app.state.house.store.fetch_all("SELECT id FROM upload"))
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n")
    page.get_by_label("A CSV or Parquet file").set_input_files(tmp_path / "x.csv")
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("was not sent by this server's page").wait_for()
    assert len(served.app.state.house.store.fetch_all("SELECT id FROM upload")) == before


@pytest.mark.slow
def test_a_steward_sees_who_spent_what_and_who_was_refused(visit: Visit, served: Served) -> None:
    assert served.ask("bo", f"{WARDS} ERROR 140 REUSE NONE", "spent-by-bo").status_code == 200
    with served.client("ana") as client:
        assert client.get("/v1/tokens").status_code == 403
    page = visit("owner")
    page.goto("/budget")
    spending = page.get_by_role("region", name="Spending")
    assert spending.get_by_role("row").filter(has_text="bo").filter(has_text="explore").count() >= 1
    page.get_by_role("region", name="Refusals").get_by_text("not_allowed").first.wait_for()
    with no_barriers(page):
        pass
    analyst = visit("ana")
    analyst.goto("/budget")
    assert analyst.get_by_role("region", name="Spending").count() == 0


def test_what_was_asked_of_a_table_is_listed(visit: Visit, served: Served) -> None:
    served.ask("ana", f"{WARDS} ERROR 141", "listed-in-the-page")
    page = visit("ana")
    page.goto("/tables/visits")
    page.get_by_role("region", name="What was asked").get_by_text("ERROR 141").first.wait_for()


@pytest.mark.slow
def test_dependencies_are_drawn_listed_and_adopted_with_the_keyboard(visit: Visit, silo: Silo) -> None:
    from playwright.sync_api import expect

    page = visit("owner")
    page.goto("/dependencies")
    page.get_by_role("link", name=silo.report).click()
    assert page.locator("figure svg path[stroke-dasharray]").count() == 1
    page.get_by_text("within each silo, not over all rows").first.wait_for()
    page.get_by_text("its own votes").wait_for()
    with no_barriers(page):
        pass
    box = page.get_by_role("checkbox", name="age, ward determines note")
    box.focus()
    page.keyboard.press("Space")
    expect(box).to_be_checked()
    page.get_by_role("button", name="Adopt").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What always or mostly holds").wait_for()


@pytest.mark.slow
def test_an_operator_sees_certificate_roles_and_who_waits_and_says_yes(visit: Visit, silo: Silo) -> None:
    page = visit("owner", expects=(409,))
    page.goto("/sessions")
    page.get_by_text("days left").wait_for()
    page.get_by_role("cell", name="<b>River</b>").wait_for()
    page.get_by_role("link", name=silo.session[:12]).click()
    page.get_by_text("each role learns the dependencies").wait_for()
    page.get_by_role("status").get_by_text("The relay did not answer").wait_for()
    with no_barriers(page):
        pass
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("approved by its owner").wait_for()
    assert page.get_by_role("button", name="Approve").count() == 0


@pytest.mark.slow
def test_analysts_have_no_sessions_and_auditors_no_values_of_profiles(visit: Visit, silo: Silo) -> None:
    analyst, auditor = visit("ana", expects=(404,)), visit("auditor", expects=(404,))
    for page, path in ((analyst, "/sessions"), (analyst, "/declare"), (auditor, f"/dependencies/{silo.report}")):
        page.goto(path)
        page.get_by_role("heading", name="Not Found").wait_for()


@pytest.mark.slow
def test_the_catalogue_is_looked_through_and_a_request_becomes_a_job(visit: Visit, silo: Silo) -> None:
    page = visit("ana", expects=(422,))
    page.goto("/search")
    page.get_by_role("row").filter(has_text=silo.offer).get_by_text("cost").wait_for()
    page.get_by_label("Request (JSON)").fill('{"table": "visits", "target": "nothing", "scoring": "platform"}')
    page.locator("#max_cost").fill("1")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("Fix").wait_for(timeout=120_000)
    page.goto("/search")
    page.get_by_label("Request (JSON)").fill(
        '{"table": "visits", "target": "age", "features": ["cost"], "keys": ["ward"], "scoring": "platform", '
        '"budget": {"epsilon": "5"}}'
    )
    page.locator("#max_cost").fill("100")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("with what was chosen").wait_for(timeout=120_000)
    with no_barriers(page):
        pass
