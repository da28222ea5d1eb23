"""The quality report's page: whole, self-contained, and safe to open whatever columns are called."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

from siloquent.synth.estimate.report.html import render_page
from siloquent.synth.spec.report import ColumnReport, ConstraintReport, PaidFigure, PairReport, QualityReport

HOSTILE = "<script>alert('x')</script>"
REPORT = QualityReport(
    table="people",
    rows=100,
    total=98,
    guarantee="Differential privacy for one row.",
    receipt=("ledger", 7, "ab" * 32),
    prices=(("single columns", 0.2), ("counts of 3 joints", 0.8)),
    constraints=(
        ConstraintReport(1, HOSTILE, True, "dependency", "by construction", 0, 0, 4_950),
        ConstraintReport(2, "soft", False, "general", "its rate follows", 12, 7, 4_950, 0.002),
        ConstraintReport(3, "foreign", False, "foreign", "not kept yet"),
    ),
    columns=(
        ColumnReport(HOSTILE, ("a", "b"), (0.4, 0.6), (0.3, 0.5), (0.5, 0.7), (0.41, 0.59)),
        ColumnReport("age", ("0 .. 9", "10 .. 19"), (-0.01, 1.01), (-0.1, 0.9), (0.1, 1.1), (0.0, 1.0)),
    ),
    pairs=(PairReport(HOSTILE, "age", True, 0.03),),
    cliques=((HOSTILE, "age"),),
    paid=(PaidFigure("mean distance of single columns", 0.01, 0.0, 0.02),),
    known=("the guarantee hides one unit",),
)


class Tags(HTMLParser):
    """What a browser would meet."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]


def tags(report: QualityReport) -> Tags:
    parser = Tags()
    parser.feed(render_page(report))
    return parser


def test_the_page_runs_nothing_and_loads_nothing() -> None:
    found = tags(REPORT)
    assert "script" not in found.tags
    assert found.addresses == []


def test_every_part_has_a_picture_and_a_table_beside_it() -> None:
    found = tags(REPORT)
    assert found.tags.count("svg") == 1 + len(REPORT.columns) + 2  # prices, columns, pairs, the model's graph
    assert found.tags.count("table") >= 6
    assert "No hard constraint is broken." in render_page(REPORT)


def test_a_report_without_rules_pairs_or_bought_numbers_is_a_page_too() -> None:
    bare = replace(REPORT, constraints=(), pairs=(), paid=(), cliques=())
    assert "declares none" in render_page(bare)
    assert "Nothing was bought" in render_page(bare)


def test_the_numbers_are_one_document() -> None:
    plain = json.loads(REPORT.to_json())
    assert plain["constraints"][1]["pairs"] == 12
    assert plain["format"] == 1
    assert REPORT.broken == 0
