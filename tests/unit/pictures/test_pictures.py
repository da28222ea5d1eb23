"""Pictures: golden texts, and what holds for every one of them."""

from __future__ import annotations

import ast
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.charts import Bars, Chart, Edge, Graph, HeatMap, Labels, Lines, Node, Series
from siloquent.charts.bars import draw_text_bar
from siloquent.charts.chart import clean_name, format_short
from siloquent.charts.svg import choose_heat_colour, choose_ticks
from siloquent.errors import RequestError
from unit.pictures.examples import EXAMPLES, GOLDEN

SVG = "{http://www.w3.org/2000/svg}"
WORDS = Labels("Title", "About.")
TERMINAL = {
    "bars": """
A        ██████████████████████████████████░┃░░ 4,123 (3,923 to 4,323)
B<b>   ░░┃░                                     -37 (-237 to 163)
ICU[2J   ██████░░┃░                             900 (700 to 1,100)
NULL                                            -
""",
    "pairs": """
A before ████████████████████████████████████████████┃               3
A after  █████████████████████████████┃                              2
B before ██████████████┃                                             1
B after  ██████████████████████████████████████████████████████████┃ 4
""",
    "lines": """
26 │                                                         ●●●●●●●●●
   │                                                         ░░░░░░░░░
   │
   │
   │
   │
   │
   │                         ●●●●●●●●●●●●●●●●
   │                         ░░░░░░░░░░░░░░░░
   │○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○○
   │░░░░░░░░░░░░░░░░░░░░░░░░░
 0 │●●●●●●●●●
    0                                                               40
● women  ○ men
across: age; up: rows
""",
    "heat": """
  old │▒▒▒▒▒▒██████      │
young │      ░░░░░░▒▒▒▒▒▒│
       A                C
       ░ 0 to █ 4
across: ward; up: age
""",
    "graph": """
ward ──▶ nurse  fd
nurse ─── day  0.5
day ─── ward  0.2
age
""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_is_drawn_as_its_golden_file(name: str) -> None:
    assert EXAMPLES[name].svg() == (GOLDEN / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_is_drawn_in_a_terminal_as_its_golden_text(name: str) -> None:
    assert EXAMPLES[name].lines(width=70) == TERMINAL[name].strip("\n").splitlines()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_says_what_it_shows_to_those_who_do_not_see_it(name: str) -> None:
    picture = EXAMPLES[name]
    root = ElementTree.fromstring(picture.svg())
    title, about = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert about is not None
    assert (title.text, about.text) == (picture.words.title, picture.words.about)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {about.get('id')}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_runs_nothing_and_loads_nothing(name: str) -> None:
    text = EXAMPLES[name].svg()
    links = re.findall(r"(?:href|src|url\()\s*[=(]?\s*\"?([^\")]*)", text)
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"<script|<style|style=|\son\w+=|@import|<foreignObject", text)


def test_two_pictures_share_no_id_so_that_both_live_in_one_page() -> None:
    ids = [re.findall(r' id="([^"]*)"', picture.svg()) for picture in EXAMPLES.values()]
    flat = [one for some in ids for one in some]
    assert len(flat) == len(set(flat))


def test_series_differ_in_more_than_their_colours() -> None:
    assert len(set(re.findall(r'<path d="([^"]*)" stroke="#ffffff"', EXAMPLES["pairs"].svg()))) == 1
    assert "stroke-dasharray" in EXAMPLES["lines"].svg()
    assert len({re.sub(r"[\d.,# -]+", "", shape)[:9] for shape in _shapes(EXAMPLES["graph"])}) >= 2


def _shapes(picture: Chart) -> list[str]:
    return re.findall(r"<(?:circle|polygon)[^>]*>", picture.svg())


def test_heat_grows_lighter_so_that_it_reads_without_colours() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    steps = [lightness(choose_heat_colour(part / 50)) for part in range(51)]
    assert steps == sorted(steps)
    assert steps[-1] - steps[0] > 150


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_plain_terminal_gets_ascii(name: str) -> None:
    assert all(line.isascii() for line in EXAMPLES[name].lines(width=60, ascii_only=True))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(len(line) for line in EXAMPLES[name].lines(width=width)) <= width


LABELS = st.lists(st.text(max_size=80), min_size=1, max_size=8)
NUMBERS = st.one_of(st.none(), st.floats(), st.floats(-1e6, 1e6))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), labels=LABELS, title=st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_whatever_stands_in_names_and_numbers_the_svg_is_well_formed(
    data: st.DataObject, labels: list[str], title: str
) -> None:
    values = data.draw(st.lists(NUMBERS, min_size=len(labels), max_size=len(labels)))
    words = Labels(title, title)
    series = Series(values, low=values, high=values, name=labels[0])
    pictures: list[Chart] = [
        Bars(words, labels, [series]),
        Lines(words, range(len(labels)), [series], labels),
        HeatMap(words, [values], across=labels),
        Graph(words, [Node(label) for label in labels], [Edge(0, len(labels) - 1, name=labels[-1])]),
    ]
    for picture in pictures:
        ElementTree.fromstring(picture.svg())
        assert all(line.isprintable() for line in picture.lines(width=60))


def test_an_uncertain_part_is_light_on_both_sides_of_nothing() -> None:
    assert draw_text_bar(4, 6, 8, span=(0, 10), width=10, ascii_only=True) == "####--|--"
    assert draw_text_bar(-4, -2, 0, span=(-4, 4), width=8, ascii_only=True) == "--|--"
    assert draw_text_bar(-6, -4, -2, span=(-8, 0), width=8, ascii_only=True) == "  --|--##"


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (1234567, "1,235,000"), (0.25, "0.25"), (2.5e-9, "2.5e-09"), (-3, "-3"), (1e20, "1e+20")],
)
def test_numbers_have_four_digits(value: float, words: str) -> None:
    assert format_short(value) == words


@given(low=st.floats(-1e9, 1e9), span=st.floats(1e-3, 1e9))
def test_ticks_are_round_and_within_the_axis(low: float, span: float) -> None:
    found = choose_ticks(low, low + span)
    slack = 1e-6 * span
    assert all(low - slack <= tick <= low + span + slack for tick in found)
    assert len(found) <= 7


def test_long_names_are_cut_and_terminals_obey_none_of_them() -> None:
    assert clean_name("a\x1b[2J\u202eb") == "a[2Jb"
    assert len(clean_name("x" * 500)) == 60


REFUSED = {
    "no words": lambda: Labels(" ", "About."),
    "one end of an interval": lambda: Series((1, 2), low=(0, 1)),
    "another length": lambda: Bars(WORDS, ("a", "b"), (Series((1,)),)),
    "nothing": lambda: Bars(WORDS, (), (Series(()),)),
    "too many values": lambda: Bars(WORDS, ["a"] * 20_001, (Series([1] * 20_001),)),
    "seven series": lambda: Bars(WORDS, ("a",), [Series((1,))] * 7),
    "seven lines": lambda: Lines(WORDS, (0, 1), [Series((1, 2))] * 7),
    "places out of order": lambda: Lines(WORDS, (0, 0), (Series((1, 2)),)),
    "labels too few": lambda: Lines(WORDS, (0, 1), (Series((1, 2)),), ("a",)),
    "no grid": lambda: HeatMap(WORDS, ((1, 2), (1,))),
    "an empty grid": lambda: HeatMap(WORDS, ()),
    "a large grid": lambda: HeatMap(WORDS, [[0.0] * 200] * 200),
    "labels that do not fit": lambda: HeatMap(WORDS, ((1, 2, 3, 4),), across=("a", "b", "c")),
    "an edge to nowhere": lambda: Graph(WORDS, (Node("a"),), (Edge(0, 1),)),
    "a heavy edge": lambda: Graph(WORDS, (Node("a"),), (Edge(0, 0, 2.0),)),
    "no nodes": lambda: Graph(WORDS, (), ()),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_drawn_is_refused(why: str) -> None:
    with pytest.raises(RequestError):
        REFUSED[why]()


def test_not_finite_numbers_are_empty_places() -> None:
    assert Series((math.nan, math.inf, 1)).values == (None, None, 1.0)


def test_pictures_need_nothing_but_the_language() -> None:
    sources = Path(sys.modules["siloquent.charts"].__file__ or "").parent.glob("*.py")
    imports = [node for path in sources for node in ast.walk(ast.parse(path.read_text()))]
    modules = {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names) | {"siloquent"}
