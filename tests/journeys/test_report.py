"""The report for a data protection officer: everything that is declared and spent, on paper, and no row is read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import siloquent
from journeys.clinic import TOML, Person, write_source
from journeys.documents import misfits
from journeys.served import Served, serving
from siloquent.documents.reports.html import render_report_page
from siloquent.documents.reports.protection import build_report_document, list_sections
from siloquent.session import create_workspace

HOSTILE = "<script>alert(1)</script>"
READING = '\n[reading]\nencoding = "cp1252"\ndecimal = ","\nmissing = ["NA", "-"]\n'
TEXT = 'delta_events = "5e-7"\n'


def clinic(folder: Path) -> Path:
    workspace = create_workspace(folder)
    source = write_source(folder, "csv")
    toml = (
        TOML.replace("SOURCE", source)
        .replace('epsilon = "1"', 'epsilon = "50"')
        .replace("[budget]", "[budget]\n" + TEXT)
    )
    toml = toml.replace(
        '{ name = "note", type = "text", max_bytes = 100 }', '{ name = "note", type = "text", max_bytes = 9 }'
    )
    (workspace.schemas / "visits.toml").write_text(toml)
    odd = (
        toml.replace('name = "visits"', 'name = "odd"')
        .replace("analysts = { ana", "# analysts = { ana")
        .replace('A"', f'{HOSTILE}"', 1)
    )
    (workspace.schemas / "odd.toml").write_text(odd + READING)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables; of one, notes were discovered and used, questions asked, one of them too dear, and rows refreshed."""
    folder = clinic(tmp_path_factory.mktemp("report") / "clinic")
    with siloquent.open(folder) as session:
        found = session.discover.save(session.discover("visits", "note", epsilon=5))  # type: ignore[arg-type]
        file = folder / "schemas" / "visits.toml"
        old = '{ name = "note", type = "text", max_bytes = 9 }'
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, found.declaration))
        session.refresh("visits")
    with siloquent.open(folder, analyst="ana") as ana:
        ana.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 100")
    with siloquent.open(folder, analyst="bo") as bo, pytest.raises(siloquent.errors.BudgetExceeded):
        bo.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 5")
    return folder


def test_a_report_says_what_is_declared_spent_and_by_whom(place: Path) -> None:
    done = Person(place).types("--json", "report")
    assert done.status == 0, done.err
    document = done.document
    visits = next(one for one in document["tables"] if one["table"] == "visits")
    odd = next(one for one in document["tables"] if one["table"] == "odd")
    assert visits["problem"] == odd["problem"] == ""
    columns = {one["name"]: one for one in visits["columns"]}
    assert list(columns) == ["patient", "age", "ward", "cost", "note"]
    assert columns["ward"]["origin"]["kind"] == "declared"
    note = columns["note"]["origin"]
    assert (note["kind"], note["domain"], note["problem"]) == ("released", "visits-note", "")
    with siloquent.open(place) as session:
        entry = next(iter(session.ledger.iter_entries(after=note["entry"] - 1)))
        assert (entry.kind, entry.hash) == ("settle", note["hash"])
        accounts = {one["account"]: one for one in visits["accounts"]}
        for account in session.ledger.list_accounts():
            if account.name.startswith("visits@"):
                told = accounts[account.name]
                assert float(told["spent"]) == pytest.approx(account.spent.amount / 10**9, rel=1e-6) or told["spent"]
        assert session.ledger.read_head().seq == document["ledger"]["entries"], "a report writes nothing"
    assert (accounts["visits@1"]["charges"], accounts["visits@1/ana"]["charges"]) == (1, 1)
    assert accounts["visits@1/bo"]["refused"] == 1
    assert visits["rows"]["version"] == 2
    assert [(one["name"], one["share"]) for one in visits["who"]] == [
        ("ana", "1 of the budget"),
        ("bo", "0.001 of the budget"),
    ]
    assert {(one["setting"], one["value"]) for one in odd["reading"]} == {
        ("encoding", "cp1252"),
        ("decimal", ","),
        ("missing", "NA, -"),
    }
    assert odd["who"][0]["name"] == "every analyst who has access"


def test_the_page_holds_every_text_of_the_document_and_loads_and_runs_nothing(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = Person(place).types("report", "--html", "-o", str(file))
    assert done.status == 0, done.err
    page = file.read_text()
    reader = _Reader()
    reader.feed(page)
    assert reader.loads == []
    assert HOSTILE not in page
    assert html.escape(HOSTILE) in page
    with siloquent.open(place) as session:
        document = build_report_document(session, session.list_tables())
    assert misfits(document) == []
    text = html.unescape(re.sub("<[^>]*>", "\n", page.replace(html.escape(HOSTILE), "HOSTILE")))
    for section in list_sections(document):
        for _, said in section.facts[1:]:
            assert said.replace(HOSTILE, "HOSTILE") in text
        for caption, headings, rows in section.tables:
            assert caption in text
            assert [one for row in rows for one in row if one.replace(HOSTILE, "HOSTILE") not in text] == []
            assert [one for one in headings if one not in text] == []


class _Reader(HTMLParser):
    """Notes whatever a browser would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "link", "iframe", "object", "form"):
            self.loads.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]


def test_an_edited_domain_and_a_broken_table_are_told_and_hide_no_other(place: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "clinic"
    shutil.copytree(place, folder)
    domain = folder / "domains" / "visits-note.toml"
    domain.write_text(domain.read_text().replace("seen", "SEEN"))
    (folder / "schemas" / "odd.toml").write_text("format = 1\nnonsense\n")
    document = Person(folder).types("--json", "report").document
    tables = {one["table"]: one for one in document["tables"]}
    assert "nonsense" not in str(tables["visits"])
    assert "columns" not in tables["odd"]
    assert tables["odd"]["problem"]
    note = next(one for one in tables["visits"]["columns"] if one["name"] == "note")
    assert "was edited" in note["origin"]["problem"]
    (folder / "domains" / "visits-note.toml").unlink()
    tables = {one["table"]: one for one in Person(folder).types("--json", "report").document["tables"]}
    assert tables["visits"]["problem"] or "visits-note" in str(tables["visits"]["columns"])


def test_the_text_shows_the_same_and_only_the_owner_has_it(place: Path) -> None:
    done = Person(place).types("report", "visits", environment={"COLUMNS": "200"})
    assert done.status == 0, done.err
    for told in ("a discovery: visits-note", "declared by the owner", "version 2, since", "Who may ask", "visits@1/bo"):
        assert told in done.out
    assert Person(place).types("--analyst", "ana", "report").status != 0
    unknown = Person(place).types("report", "vists")
    assert unknown.status != 0
    assert "visits" in unknown.err


@pytest.fixture(scope="module")
def served(place: Path) -> Iterator[Served]:
    with serving(place) as running:
        yield running


def test_the_owner_has_it_over_http_with_those_who_have_accounts(served: Served) -> None:
    with served.client("owner") as owner:
        document = owner.get("/v1/report").json()
        assert misfits(document) == []
        who: dict[str, Any] = {
            one["table"]: {(two["name"], two["role"]) for two in one["who"]} for one in document["tables"]
        }
        assert who["visits"] >= {("ana", "analyst"), ("bo", "analyst"), ("owner", "owner"), ("auditor", "auditor")}
        assert ("watcher", "operator") not in who["visits"]
        assert [one["table"] for one in owner.get("/v1/report?table=odd").json()["tables"]] == ["odd"]
        assert owner.get("/v1/report?table=none").status_code == 404
    for name in ("ana", "auditor"):
        with served.client(name) as client:
            assert client.get("/v1/report").status_code == 403


def test_no_row_is_read_for_a_report(place: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "clinic"
    shutil.copytree(place, folder)
    with siloquent.open(folder) as session:
        whole = build_report_document(session, session.list_tables())
    (folder / "data" / "visits.csv").unlink()
    with siloquent.open(folder) as session:
        again = build_report_document(session, session.list_tables())
    assert {**again, "at": ""} == {**whole, "at": ""}
    assert render_report_page(again).replace(again["at"][:16], "") == render_report_page(whole).replace(
        whole["at"][:16], ""
    )
