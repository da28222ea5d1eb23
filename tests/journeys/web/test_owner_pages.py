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
