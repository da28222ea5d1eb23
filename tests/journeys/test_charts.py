"""Pictures of answers, on the terminal and in files."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from journeys.clinic import WARDS, Person, Types


def test_an_answer_is_drawn_on_the_terminal_and_in_a_file(owner: Person, types: Types) -> None:
    asked = types("ask", WARDS, "--yes", "--chart", "--chart-file", "wards.svg")
    assert asked.status == 0, asked
    assert "count by ward" in asked.out
    assert "██" in asked.out
    assert "Wrote the picture to wards.svg." in asked.err
    text = (owner.folder / "wards.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}desc") is not None
    assert "icu" in text


def test_several_aggregates_are_several_files(owner: Person, types: Types) -> None:
    both = "SELECT ward, COUNT(*), SUM(cost) FROM visits GROUP BY ward ERROR 200, 90000"
    assert types("ask", both, "--yes", "--json", "--chart-file", "both.svg").document["kind"] == "composite"
    assert "count by ward" in (owner.folder / "both.svg").read_text()
    assert "sum_cost by ward" in (owner.folder / "both-2.svg").read_text()


def test_what_cannot_be_drawn_is_refused_before_anything_is_spent(owner: Person, types: Types) -> None:
    (owner.folder / "old.svg").write_text("")
    assert types("explain", WARDS).status == 0  # opens the account
    unseen = "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 200"
    for words, why in [
        ((unseen, "--chart"), "nothing to draw"),
        ((WARDS, "--chart", "--json"), "one document"),
        ((WARDS, "--chart-file", "old.svg"), "already exists"),
    ]:
        refused = types("ask", *words, "--yes")
        assert refused.status == 2
        assert why in refused.err + refused.out
    assert owner.spent() == 0
