"""What an owner does with a declared table in the pages: new rows, with the keyboard and without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from journeys.served import Served
from journeys.silos import Silo
from journeys.web.conftest import no_barriers

Visit = Callable[..., Any]
STAYS = """\
format = 1
attribute = [{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }]
[table]
name = "NAME"
source = "SOURCE"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "100"
delta = "1e-6"
"""


def csv(count: int) -> bytes:
    return ("ward\n" + "A\nB\n" * (count // 2)).encode()


@pytest.fixture
def stays(served: Served, request: pytest.FixtureRequest) -> Iterator[str]:
    """A declared table of 1,000 stays whose rows were uploaded, with a name of its own."""
    name = f"stays_{abs(hash(request.node.name)) % 10**8}"
    with served.client("owner") as owner:
        source = owner.post("/v1/uploads", content=csv(1_000)).json()["source"]
        toml = STAYS.replace("NAME", name).replace("SOURCE", source)
        assert owner.put(f"/v1/tables/{name}", json={"toml": toml}).status_code == 200
    yield name
    (served.folder / "schemas" / f"{name}.toml").unlink()


def choose(page: Any, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    page.get_by_label("A file with the new rows").set_input_files(file)


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_new_rows_are_taken_and_the_analyst_is_told_what_earlier_answers_are_about(
    visit: Visit, served: Served, tmp_path: Path, stays: str, scripts: bool
) -> None:
    ask = f"SELECT COUNT(*) FROM {stays} ERROR 20 CONFIDENCE 0.999999"
    assert served.ask("ana", ask, f"first {stays}").status_code == 200
    owner = visit("owner", java_script_enabled=scripts)
    owner.goto(f"/tables/{stays}")
    assert owner.get_by_text("Rows that count").count() == 0
    choose(owner, tmp_path / "new.csv", csv(2_000))
    owner.get_by_role("button", name="Replace the rows").focus()
    owner.keyboard.press("Enter")
    owner.get_by_role("heading", name="The rows were replaced").wait_for()
    owner.get_by_text("2,000 rows, of which 2,000 count. They are version 2, since 20").wait_for()
    owner.get_by_text("Rows that count").wait_for()
    analyst = visit("ana", java_script_enabled=scripts)
    analyst.goto(f"/tables/{stays}")
    asked = analyst.get_by_role("region", name="What was asked")
    asked.get_by_role("row").filter(has_text="earlier rows").wait_for()
    analyst.goto("/")
    analyst.get_by_label("Your question, in SQL").fill(ask)
    analyst.get_by_role("button", name="Show the price").click()
    analyst.get_by_role("button", name="Ask", exact=True).click()
    analyst.get_by_text("Rows: version 2, since").wait_for()
    analyst.get_by_text("earlier answers are about earlier rows").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("act", ["Discard the file", "Take these rows despite the findings"])
def test_rows_that_do_not_fit_replace_nothing_until_the_owner_says_so(
    visit: Visit, served: Served, tmp_path: Path, stays: str, act: str
) -> None:
    page = visit("owner", expects=(422,))
    page.goto(f"/tables/{stays}")
    before = len(served.app.state.house.store.fetch_all("SELECT id FROM upload"))
    choose(page, tmp_path / "new.csv", csv(600) + b"A,B,C\n")
    page.get_by_role("button", name="Replace the rows").click()
    page.get_by_role("heading", name="The rows stay as they were").wait_for()
    page.wait_for_load_state("load")
    with no_barriers(page):
        pass
    page.get_by_role("button", name=act).click()
    if act.startswith("Take"):
        page.get_by_role("heading", name="The rows were replaced").wait_for()
    else:
        page.get_by_role("heading", name=stays).wait_for()
    assert len(served.app.state.house.store.fetch_all("SELECT id FROM upload")) == before, "no copy is left"
    page.get_by_role("button", name="Check the rows").click()
    page.get_by_text("600 rows" if act.startswith("Take") else "1,000 rows").first.wait_for()


@pytest.mark.slow
def test_rows_that_the_source_holds_already_are_recorded(visit: Visit, served: Served, stays: str) -> None:
    served.ask("ana", f"SELECT COUNT(*) FROM {stays} ERROR 20", f"first {stays}")
    with served.client("owner") as client:
        source = client.get(f"/v1/tables/{stays}").json()["source"]
    (served.folder / source.partition(":")[2]).write_bytes(csv(800))
    page = visit("owner", expects=(422,))
    page.goto(f"/tables/{stays}")
    page.get_by_role("button", name="Replace the rows").click()
    page.get_by_text("No file was selected").wait_for()
    page.go_back()
    page.get_by_role("button", name="The source holds new rows already").click()
    page.get_by_text("800 rows, of which 800 count. They are version 2").wait_for()


@pytest.mark.slow
def test_a_form_of_another_origin_replaces_nothing_and_analysts_have_none(
    visit: Visit, served: Served, tmp_path: Path, stays: str, silo: Silo
) -> None:
    page = visit("owner", expects=(403,))
    page.goto(f"/tables/{stays}")
    page.evaluate("document.querySelectorAll('input[name=csrf]').forEach((one) => { one.value = 'forged'; })")
    choose(page, tmp_path / "new.csv", csv(2_000))
    page.get_by_role("button", name="Replace the rows").click()
    page.get_by_text("was not sent by this server's page").wait_for()
    analyst = visit("ana", expects=(404,))
    analyst.goto(f"/tables/{stays}")
    assert analyst.get_by_role("button", name="Replace the rows").count() == 0
    sent = analyst.evaluate(
        "async (path) => (await fetch(path, {method: 'POST', body: new FormData()})).status", f"/tables/{stays}/refresh"
    )
    assert sent == 404


def edit(page: Any, before: str, after: str) -> None:
    """Change the text in the form and save it."""
    text = page.get_by_label("Table file (TOML)").input_value()
    assert before in text
    page.get_by_label("Table file (TOML)").fill(text.replace(before, after))
    page.get_by_role("button", name="Save").click()


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_another_unit_opens_a_new_epoch_after_the_owner_has_read_what_that_means(
    visit: Visit, served: Served, stays: str, scripts: bool
) -> None:
    ask = f"SELECT COUNT(*) FROM {stays} ERROR 20"
    assert served.ask("ana", ask, f"first {stays}").status_code == 200
    page = visit("owner", expects=(409,), java_script_enabled=scripts)
    page.goto(f"/tables/{stays}/edit")
    edit(page, 'adjacency = "add-remove"', 'adjacency = "replace-one"')
    page.get_by_role("alert").get_by_text("adjacency was add-remove and is replace-one (new epoch)").wait_for()
    page.get_by_text("closes the account for good").wait_for()
    page.wait_for_load_state("load")
    if scripts:
        with no_barriers(page):
            pass
    page.get_by_role("button", name="Save").click()  # without a statement
    page.get_by_text("closes the account for good").wait_for()
    page.get_by_role("radio", name="the budgets add up").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Save").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Declared anew").wait_for()
    page.get_by_text("Adjacency was add-remove and is replace-one").wait_for()
    assert "epoch = 2" in (served.folder / "schemas" / f"{stays}.toml").read_text()
    again = served.ask("ana", ask, f"second {stays}")
    assert (again.status_code, again.json()["cost"]["account"]) == (200, f"{stays}@2")


@pytest.mark.slow
def test_a_budget_and_new_rows_declared_in_the_form_are_classed(visit: Visit, served: Served, stays: str) -> None:
    assert served.ask("ana", f"SELECT COUNT(*) FROM {stays} ERROR 20", f"first {stays}").status_code == 200
    page = visit("owner")
    page.goto(f"/tables/{stays}/edit")
    edit(page, 'epsilon = "100"', 'epsilon = "90"')
    page.get_by_text("Epsilon was 100 and is 90. This is another limit").wait_for()
    page.goto(f"/tables/{stays}/edit")
    edit(page, "adjacency", "version = 2\nadjacency")
    page.get_by_text("Version was 1 and is 2").wait_for()
    assert served.ask("ana", f"SELECT COUNT(*) FROM {stays} ERROR 19", f"next {stays}").status_code == 200


DIAGNOSES = """\
format = 1
attribute = [
  { name = "code", type = "text", max_bytes = 20 },
  { name = "days", type = "integer", lo = 0, hi = 1000, outside = "clamp", null = "drop" },
]
[table]
name = "diagnoses"
source = "csv:data/diagnoses.csv"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "zcdp"
epsilon = "10"
delta = "1e-6"
delta_events = "5e-7"
"""


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_values_and_bounds_are_discovered_after_the_price_and_the_job_tells_its_steps(
    visit: Visit, served: Served, scripts: bool
) -> None:
    (served.folder / "data" / "diagnoses.csv").write_text("code,days\n" + "J45,3\nE11,9\nI10,30\n" * 500 + "rare,1\n")
    name = f"diagnoses_{scripts}".lower()
    with served.client("owner") as client:
        made = client.put(f"/v1/tables/{name}", json={"toml": DIAGNOSES.replace('"diagnoses"', f'"{name}"')})
        assert made.status_code == 200, made.text
    page = visit("owner", expects=(422,), java_script_enabled=scripts)
    page.goto(f"/tables/{name}")
    page.get_by_role("link", name="Discover values or bounds").click()
    page.get_by_label("Epsilon to spend").fill("lots")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_role("alert").wait_for()
    for column, heading, told in (("code", "3 values of code", "J45"), ("days", "Bounds of days", "lo = ")):
        page.goto(f"/tables/{name}/discover?column={column}")
        page.get_by_label("Epsilon to spend").fill("2")
        assert page.get_by_role("button", name="Discover", exact=True).count() == 0, "the price comes first"
        page.get_by_role("button", name="Show the price").click()
        page.get_by_role("heading", name="Price").wait_for()
        page.wait_for_load_state("load")
        if scripts:
            with no_barriers(page):
                pass
        assert float(served_account(served, name)["spent"]) == 0 or column == "days"
        page.get_by_role("button", name="Discover", exact=True).click()
        page.get_by_role("heading", name="Job j-").wait_for()
        for _ in range(120):
            if page.get_by_role("heading", name=heading).count():
                break
            page.wait_for_timeout(500)
            if not scripts:
                page.get_by_role("link", name="Look again").click()
        page.get_by_role("heading", name=heading).wait_for()
        page.get_by_text(told).first.wait_for()
        assert page.get_by_text("rare").count() == 0
        page.get_by_text(f"Charged to {name}@1").wait_for()
        page.get_by_role("link", name="write into the declaration").click()
        page.get_by_label("Table file (TOML)").wait_for()
    (served.folder / "schemas" / f"{name}.toml").unlink()


def served_account(served: Served, table: str) -> Any:
    with served.client("owner") as client:
        return client.get(f"/v1/tables/{table}").json()["account"]


@pytest.mark.slow
def test_the_report_is_read_in_the_browser_and_downloaded_as_one_page(
    visit: Visit, served: Served, tmp_path: Path, stays: str
) -> None:
    page = visit("owner", accept_downloads=True)
    page.goto("/tables")
    page.get_by_role("link", name="Report for a data protection officer").click()
    page.get_by_role("heading", name=stays).wait_for()
    page.wait_for_load_state("load")
    with no_barriers(page):
        pass
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download it as a page to print").click()
    file = tmp_path / "report.html"
    waiting.value.save_as(file)
    assert stays in file.read_text()
    printed = page.context.new_page()
    printed.set_content(file.read_text())
    printed.get_by_role("heading", name=stays).wait_for()
    printed.pdf(path=tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    analyst = visit("ana", expects=(404,))
    analyst.goto("/report")
    analyst.get_by_role("heading", name="Not Found").wait_for()
