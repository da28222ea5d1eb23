"""The declaration in the browser: the questions of the command line, by keyboard, to be continued on either side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journeys.clinic import Person
from journeys.served import Served
from journeys.web.conftest import no_barriers
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring.answers import read_kept

Visit = Callable[..., Any]
STAYS = "patient_id,age,wing,remark,charge\n" + "p1,40,A,well,12.50\np2,50,B,ill,3.00\n" * 400


def start(page: Any, file: Path, content: bytes, name: str, **settings: str) -> None:
    """Upload a file, name the table, and say how the file is read."""
    file.write_bytes(content)
    page.goto("/declare")
    page.get_by_label("A CSV or Parquet file").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("The table's name").fill(name)
    if settings:
        page.locator("details").evaluate("(one) => { one.open = true; }")
    for label, said in settings.items():
        page.locator(f"#{label}").fill(said)
    page.get_by_role("button", name="Read the columns' names").click()


def describe(page: Any, column: str, kind: str, **said: str) -> None:
    """Fill in the fields of one column."""
    box = page.get_by_role("group", name=column, exact=False)
    box.get_by_label("It holds").select_option(kind)
    labels = {"lo": "Lowest", "hi": "Highest", "step": "Step", "by": "Groups", "values": "Values of a list"}
    for key, text in said.items():
        box.get_by_label(labels[key], exact=False).fill(text)


def describe_all(page: Any, **columns: tuple[str, dict[str, str]]) -> None:
    """Fill in and keep page after page of columns, those that are not named as they are proposed."""
    while page.locator("select[name^=kind-]").count():
        for name, (kind, said) in columns.items():
            if page.get_by_role("group", name=name).count():
                describe(page, name, kind, **said)
        keep(page)


def keep(page: Any, answer: str | None = None) -> None:
    if answer is not None:
        page.locator("#answer").fill(answer)
    page.get_by_role("button", name="Keep").click()


def choose_by_arrow(page: Any, value: str) -> None:
    """Press the arrow until ``value`` is chosen: letters would begin another word if the machine is slow."""
    field = page.locator("select:focus")
    for _ in range(field.locator("option").count()):
        if field.input_value() == value:
            return
        page.keyboard.press("ArrowDown")
    raise AssertionError(f"{value} is not offered")


def schema_of(served: Served, name: str) -> Any:
    return parse_schema((served.folder / "schemas" / f"{name}.toml").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_a_table_is_declared_column_by_column_and_ends_with_a_price(
    visit: Visit, served: Served, tmp_path: Path, scripts: bool
) -> None:
    name = f"web_{scripts}".lower()
    page = visit("owner", expects=(422,), java_script_enabled=scripts)
    start(page, tmp_path / "stays.csv", STAYS.encode(), name)
    assert not [value for value in ("well", "12.50", "p1") if value in page.content()], "no row is read"
    page.get_by_role("heading", name="Are the proposals for").wait_for()
    assert page.get_by_role("group", name="age").get_by_label("Highest").input_value() == "120"
    whole = {"age": ("integer", {"lo": "18", "hi": "99", "by": "10"}), "remark": ("text", {"hi": "50"})}
    wrong = {"charge": ("integer", {"lo": "", "hi": ""}), "wing": ("category", {"values": "A\nB"})}
    for name_, (kind, said) in {**whole, **wrong}.items():
        if page.get_by_role("group", name=name_).count():
            describe(page, name_, kind, **said)
    keep(page)
    while not page.get_by_role("group", name="charge").count() or not page.get_by_role("alert").count():
        for name_, (kind, said) in {**whole, **wrong}.items():
            if page.get_by_role("group", name=name_).count():
                describe(page, name_, kind, **said)
        keep(page)
    page.get_by_role("alert").get_by_text("a number needs its smallest and largest possible value").wait_for()
    describe_all(page, **whole, wing=wrong["wing"], charge=("real", {"lo": "0.00", "hi": "99.99"}))
    page.get_by_role("heading", name="What does an empty cell mean?").wait_for()
    page.get_by_label("wing").fill("drop")
    keep(page)
    if not page.get_by_label("which column says whose row it is").count():  # how decimals are written
        keep(page)
    assert page.get_by_label("which column says whose row it is").input_value() == "column patient_id"
    keep(page)
    keep(page, "many")
    page.get_by_role("alert").get_by_text("a whole number from 1").wait_for()
    keep(page, "3")
    keep(page, "")
    keep(page, "20")
    page.get_by_label("discovered later").select_option("yes")
    keep(page)
    page.get_by_role("heading", name="This will be declared").wait_for()
    page.wait_for_load_state("load")
    if scripts:
        with no_barriers(page):
            pass
    page.get_by_role("link", name="Change age").click()
    describe(page, "age", "integer", lo="0", hi="120", by="20")
    keep(page)
    page.get_by_role("link", name="Change max rows").click()
    assert page.locator("#answer").input_value() == "3"
    keep(page, "2")
    assert not (served.folder / "schemas" / f"{name}.toml").exists()
    page.get_by_role("button", name="Declare", exact=True).click()
    page.get_by_role("heading", name=f"{name} is declared").wait_for()
    page.get_by_text("A first query costs").wait_for()
    found = schema_of(served, name)
    assert (found.unit.column, found.unit.max_rows) == ("patient_id", 2)
    assert [one.name for one in found.domain] == ["patient_id", "age", "wing", "remark", "charge"]
    assert (found.domain["age"].lo, found.domain["age"].hi, len(found.domain["age"].edges)) == (0, 120, 8)
    assert (found.domain["wing"].null, found.domain["wing"].values) == ("drop", ("A", "B"))
    assert str(found.domain["charge"].grid) == "0.01"
    assert found.budget.delta_events > 0
    assert not (served.folder / "schemas" / f"{name}.answers").exists()
    sql = page.locator("pre").inner_text()
    assert served.ask("bo", sql, f"first {name}").status_code == 200
    page.get_by_role("button", name="Check the rows").click()
    page.get_by_text("800 rows").wait_for()


@pytest.mark.slow
def test_by_keyboard_alone_and_continued_at_the_command_line(visit: Visit, served: Served, tmp_path: Path) -> None:
    page = visit("owner")  # no other table has these columns, so nothing is proposed
    start(page, tmp_path / "s.csv", b"customer_id,region\np1,A\n", "keys")
    page.wait_for_load_state("load")
    described = 0
    while page.locator("select[name^=kind-]").count():  # scripts put the focus on the form: its first field is next
        named = page.get_by_role("group").first.inner_text()
        page.wait_for_function("document.activeElement.matches('form[data-focus]')")
        page.keyboard.press("Tab")
        choose_by_arrow(page, "id" if "customer_id" in named else "category")
        for _ in range(5):
            page.keyboard.press("Tab")
        page.keyboard.type("" if "customer_id" in named else "A\nB\nicu")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        described += 1
        page.get_by_role("status").get_by_text(f"{described} of 2 columns").wait_for()
        page.wait_for_load_state("load")
    assert described == 2
    page.get_by_role("heading", name="What does an empty cell mean?").wait_for()
    kept = read_kept((served.folder / "schemas" / "keys.answers").read_text())
    assert kept.source.startswith("csv:uploads/u-")
    done = Person(served.folder).types(
        *("declare", kept.source, "--name", "keys", "--answers", "schemas/keys.answers", "--header"),
        *("--empty", "drop", "--person", "customer_id", "--max-rows", "5", "--epsilon", "2"),
    )
    assert done.status == 0, done.err
    assert schema_of(served, "keys").domain["region"].values == ("A", "B", "icu")


@pytest.mark.slow
def test_a_declaration_begun_at_the_command_line_goes_on_in_the_browser(
    visit: Visit, served: Served, tmp_path: Path
) -> None:
    (served.folder / "data" / "begun.csv").write_text("patient,ward\np1,A\n")
    kept = 'source = "csv:data/begun.csv"\ncolumns = ["patient = id", "ward = A, B", "gone = 0..9"]\nempty = "drop"\n'
    (served.folder / "schemas" / "begun.answers").write_text(kept)
    page = visit("owner")
    page.goto("/declare")
    page.get_by_role("link", name="begun", exact=True).click()
    page.get_by_text("Left out: No column named 'gone'").wait_for()
    page.get_by_label("which column says whose row it is").select_option("column patient")
    keep(page)
    page.goto("/declare")
    page.get_by_role("link", name="begun", exact=True).click()
    keep(page, "2")
    keep(page, "1000")
    keep(page, "")
    page.get_by_role("button", name="Declare", exact=True).click()
    page.get_by_role("heading", name="begun is declared").wait_for()
    assert (schema_of(served, "begun").size_hint, schema_of(served, "begun").unit.max_rows) == (1_000, 2)


@pytest.mark.slow
def test_a_file_is_read_as_its_owner_says(visit: Visit, served: Served, tmp_path: Path) -> None:
    text = "exported on Monday\nGröße;betrag\n1,5;n/a\n".encode("cp1252")
    page = visit("owner", expects=(422,))
    start(page, tmp_path / "x.csv", text, "messy", encoding="klingon")
    page.get_by_role("alert").get_by_text("is not an encoding that can be read").wait_for()
    page.locator("#encoding").fill("cp1252")
    page.locator("#skip").fill("1")
    page.locator("#decimal").fill(",")
    page.locator("#missing").fill("n/a\n-")
    page.get_by_role("button", name="Read the columns' names").click()
    page.get_by_role("alert").get_by_text("Without a header line, that line is somebody's row").wait_for()
    page.get_by_label("The first line names the columns").check()
    page.get_by_role("button", name="Read the columns' names").click()
    page.get_by_role("group", name="Größe").first.wait_for()
    page.get_by_role("link", name="How the rows are read").click()
    assert page.locator("#missing").input_value() == "n/a\n-"
    page.go_back()
    describe_all(page, Größe=("real", {"lo": "0.0", "hi": "9.9"}), betrag=("real", {"lo": "0.0", "hi": "9.9"}))
    for answer in (None, None, "", "1"):
        keep(page, answer)
    page.get_by_role("button", name="Declare", exact=True).click()
    page.get_by_role("heading", name="messy is declared").wait_for()
    found = schema_of(served, "messy").reading
    assert (found.encoding, found.skip, found.values.decimal, found.values.missing) == ("cp1252", 1, ",", ("n/a", "-"))


@pytest.mark.slow
def test_many_columns_come_in_pages_and_hostile_names_are_text(visit: Visit, served: Served, tmp_path: Path) -> None:
    page = visit("owner", viewport={"width": 320, "height": 640})
    names = ["<img src=x onerror=document.title=1>", "none", "rest", *(f"c{number}" for number in range(60))]
    start(page, tmp_path / "x.csv", (",".join(names) + "\n" + ",".join("1" for _ in names) + "\n").encode(), "wide")
    page.wait_for_load_state("load")
    assert page.title() != "1"
    assert page.locator("main img").count() == 0
    with no_barriers(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    pages = 0
    while (boxes := page.locator("select[name^=kind-]")).count():
        assert boxes.count() <= 20
        page.evaluate(
            "for (const [i, one] of document.querySelectorAll('select[name^=kind-]').entries()) {"
            "  one.value = 'integer'; document.getElementById(`lo-${i}`).value = '0';"
            "  document.getElementById(`hi-${i}`).value = '9'; }"
        )
        keep(page)
        pages += 1
    assert pages >= 4
    keep(page)  # what empty cells mean
    page.get_by_label("which column says whose row it is").select_option("column none")
    keep(page)
    keep(page, "3")
    keep(page, "")
    keep(page, "1")
    page.get_by_role("button", name="Declare", exact=True).click()
    page.get_by_role("heading", name="wide is declared").wait_for()
    found = schema_of(served, "wide")
    assert (len(found.domain.names), found.unit.column) == (len(names), "none")


@pytest.mark.parametrize(
    ("source", "name", "told"),
    [
        ("csv:/etc/passwd", "t1", "must be in one of these places"),
        ("csv:data/../siloquent.toml", "t1", "must be in one of these places"),
        ("csv:uploads/none.csv", "t1", "does not exist"),
        ("csv:data/visits.parquet", "visits", "is already declared"),
        ("csv:data/visits.parquet", "../x", "letters, digits and '_'"),
    ],
)
def test_other_files_names_and_tables_are_refused_in_words(
    visit: Visit, served: Served, source: str, name: str, told: str
) -> None:
    before = sorted(one.name for one in (served.folder / "schemas").iterdir())
    page = visit("owner", expects=(422,))
    page.goto("/declare")
    page.get_by_label("Or rows that are there already").fill(source)
    page.get_by_role("button", name="Describe it").click()
    page.get_by_label("The table's name").fill(name)
    page.get_by_role("button", name="Read the columns' names").click()
    page.get_by_role("alert").get_by_text(told).wait_for()
    assert sorted(one.name for one in (served.folder / "schemas").iterdir()) == before


def test_answers_are_discarded_and_nobody_else_sees_them(visit: Visit, served: Served, tmp_path: Path) -> None:
    page = visit("owner")
    start(page, tmp_path / "x.csv", b"patient,ward\np,A\n", "dropped")
    assert (served.folder / "schemas" / "dropped.answers").is_file()
    other = visit("ana", expects=(404,))
    other.goto("/declare/table/dropped")
    other.get_by_role("heading", name="Not Found").wait_for()
    page.get_by_role("button", name="Discard these answers").click()
    page.get_by_role("heading", name="Begin").wait_for()
    assert not (served.folder / "schemas" / "dropped.answers").exists()
