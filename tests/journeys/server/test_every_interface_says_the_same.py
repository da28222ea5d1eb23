"""An answer says the same in every interface: the same lines, the same cells, no digits beyond the noise."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

import siloquent as sq
from journeys.served import Served
from siloquent.cli.app import run
from siloquent.explore import Answer
from siloquent.explore.spec import parse, render
from siloquent.explore.spec.answers import text as answer_text
from siloquent.remote.answers import parse_answer
from siloquent.server.repeats import build_ledger_key
from siloquent.server.web import question_pages

AGGREGATES = ("COUNT(*)", "SUM(cost)", "AVG(cost)", "COUNT(*), AVG(age)", "STDDEV(cost)", "MEDIAN(age), SUM(cost)")
GROUPS = ("", "ward", "age", "ward, age")
REUSES = ("", " REUSE ANY", " REUSE ANY", " REUSE NONE", " REUSE SIMULTANEOUS")
OTHERS = (
    "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 2 ERROR 100",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 500 ERROR 90.5",
    "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 7) ERROR 37.25",
)
Typed = Callable[..., tuple[int, str, str]]


def question(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return chance.choice(OTHERS)
    aggregates, group = chance.choice(AGGREGATES), chance.choice(GROUPS)
    errors = ", ".join(chance.choice(("80", "250.5", "1234")) for _ in range(aggregates.count("(")))
    grouped = f" GROUP BY {group}" if group else ""
    least = " FOR AT LEAST 200 ROWS" if "STDDEV" in aggregates or chance.random() < 0.3 else ""
    least = least if "AVG" in aggregates or "STDDEV" in aggregates else ""
    comma = f"{group}, " if group else ""
    return f"SELECT {comma}{aggregates} FROM visits{grouped} ERROR {errors}{least}{chance.choice(REUSES)}"


class Cells(HTMLParser):
    """The headings and rows of the tables of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False
        self.feed(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


class Words(HTMLParser):
    """The text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data


def bare(text: str) -> str:
    """Without white space: terminals fold lines."""
    return "".join(text.split())


@dataclass
class Told:
    """What one answer said in every interface: its texts, and its cells where an interface has a table to read."""

    answer: Answer
    document: dict[str, Any]
    texts: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)


def faults(told: Told) -> Iterator[str]:
    """Lines that an interface leaves out, tables that differ, digits beyond the noise."""
    document = told.document
    lines = list(_lines(document))
    right = [document["shown"]["columns"], *document["shown"]["rows"]]
    for name, text in told.texts.items():
        yield from (f"{name} leaves out {line!r}" for line in lines if bare(line) not in bare(text))
        cells = {cell for row in right[1:] for cell in row}
        yield from (f"{name} does not show {cell!r}" for cell in cells if bare(cell) not in bare(text))
    for name, rows in told.tables.items():
        if rows != right:
            yield f"{name} has other cells: {rows[:3]} for {right[:3]}"
    yield from _digits(document)


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield from (document["promise"], document["guarantee"], *document["notes"])
    accuracy = document["accuracy"]
    if accuracy["label"] != "fresh":
        assert accuracy["sources"]
        how = "the answer of entry" if accuracy["label"] == "repeated" else "draws from entries"
        yield f"{accuracy['label']}: {how} {', '.join(map(str, accuracy['sources'][:10]))}"


def _digits(document: dict[str, Any]) -> Iterator[str]:
    names, rows = document["columns"], document["rows"]
    for place, name in enumerate(names):
        if names[place + 1 : place + 3] not in (["low", "high"], [f"{name}_low", f"{name}_high"]):
            continue
        for exact, text in zip(rows, document["shown"]["rows"], strict=False):
            value, low, high = exact[place : place + 3]
            if value is None:
                continue
            half = (Fraction(high) - Fraction(low)) / 2
            seen = [Fraction(cell.replace(",", "")) for cell in text[place : place + 3]]
            step = Fraction(10) ** (math.floor(math.log10(half)) - 1) if half > 0 else Fraction(0)
            if step and any(one % step for one in seen):
                yield f"{text} shows more than {float(step)} of {exact}"
            if not (seen[1] <= Fraction(low) and Fraction(high) <= seen[2]):
                yield f"{text} cuts {exact}"
            if step and abs(seen[0] - Fraction(value)) > step / 2:
                yield f"{text} is not {value}"


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    monkeypatch.setenv("COLUMNS", "100000")  # wide tables are cut to the terminal otherwise

    def typed(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(words)
        said = capsys.readouterr()
        return status, said.out, said.err

    return typed


@pytest.fixture
def ask(served: Served, typed: Typed, tmp_path: Path) -> Iterator[Callable[[str, str], Told]]:
    """Ask once, and look at the answer in every interface."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(served.texts["ana"])
    with httpx.Client(base_url=served.address, timeout=60, follow_redirects=True) as pages:
        pages.post("/login", data={"token": served.texts["ana"]}, headers={"Origin": served.address})
        csrf = re.search(r'name="csrf" value="([^"]+)"', pages.get("/").text)
        assert csrf

        def asked(sql: str, key: str) -> Told:
            sql = render(parse(sql))  # a client sends it so, and a key is bound to the text
            response = served.ask("ana", sql, key)
            assert response.status_code == 200, response.text
            document = response.json()
            with sq.open(served.folder, analyst="ana") as session:
                answer = session.ask(sql, key=build_ledger_key("ana", key))
                release = session.save(answer)
            told = Told(answer, document)
            fields = {"csrf": csrf[1], "sql": sql, "key": key, "act": "ask", "error": "", "confidence": ""}
            page = pages.post("/ask", data=fields, headers={"Origin": served.address}).text
            remote = parse_answer(document, replayed=True)
            own = ("--workspace", str(served.folder), "--analyst", "ana")
            words = ("ask", sql, "--yes", "--all")
            at = typed(*own, *words, "--key", build_ledger_key("ana", key))
            far = typed("--server", served.address, "--token-file", str(token), *words, "--key", key)
            assert (at[0], far[0]) == (0, 0), (at, far)
            html, section = answer._repr_html_(), page[page.index('id="answer-title"') :].split("</section>")[0]
            told.texts = {
                "str": str(answer),
                "str at a server": str(remote),
                "notebook": Words(html).text,
                "notebook at a server": Words(remote._repr_html_()).text,
                "page": Words(section).text,
                "terminal": at[1],
                "terminal at a server": far[1],
                "document": " ".join([*(one["text"] for one in document["shown"]["lines"]), str(document["shown"])]),
            }
            told.tables = {"notebook": Cells(html).rows, "page": Cells(section).rows}
            stored = typed(*own, "release", "show", str(release))[1]
            assert all(bare(cell) in bare(stored) for row in document["shown"]["rows"] for cell in row), stored
            if document["accuracy"]["label"] != "fresh":
                shown_page = pages.get(f"/releases/{answer.id}").text
                for one in (stored, Words(shown_page).text):
                    how = "an earlier answer" if document["accuracy"]["label"] == "repeated" else "draws from earlier"
                    assert bare(f"{document['accuracy']['label']}: {how}") in bare(one)
            return told

        yield asked


@pytest.mark.slow
def test_every_interface_has_the_same_lines_and_digits(ask: Callable[[str, str], Told]) -> None:
    chance, labels = random.Random(4), set()
    asked = [question(chance) for _ in range(8)]
    for number, sql in enumerate([*asked, *chance.sample(asked, 4)]):
        told = ask(sql, f"same-{number}")
        assert not list(faults(told)), sql
        labels.add(told.document["accuracy"]["label"])
    assert {"fresh", "independent"} <= labels


@contextmanager
def without_holds(place: Any) -> Iterator[None]:
    """An interface that leaves the line out which says when the promise holds."""

    def fewer(document: dict[str, Any]) -> list[answer_text.AnswerLine]:
        return [line for line in lines(document) if line.name != "holds"]

    lines = answer_text.build_document_lines
    with patch.object(place, "build_document_lines", fewer):
        yield


@pytest.mark.slow
def test_an_interface_that_leaves_a_line_out_is_seen(ask: Callable[[str, str], Told]) -> None:
    sql = "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR {} REUSE ANY"
    ask(sql.format(20_000), "first")
    sql = sql.format(19_000)
    assert not list(faults(ask(sql, "second")))
    with without_holds(question_pages):
        assert [one for one in faults(ask(sql, "third")) if "page leaves out" in one]
    with patch.object(Answer, "_repr_html_", lambda answer: answer.promise):
        assert any("notebook" in one for one in faults(ask(sql, "fourth")))


def test_digits_beyond_the_noise_are_seen(ask: Callable[[str, str], Told]) -> None:
    with patch.object(answer_text, "compute_step", lambda alpha: Fraction(1, 1_000)):
        told = ask("SELECT ward, AVG(cost) FROM visits GROUP BY ward ERROR 70 FOR AT LEAST 200 ROWS", "fine")
        assert any("shows more than" in one for one in faults(told))
