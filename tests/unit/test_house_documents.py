"""Each JSON document is built in one place, under the id of a published schema."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from siloquent.documents.kinds import json_schema, kinds

SOURCE = Path(__file__).resolve().parents[2] / "src" / "siloquent"
ID = re.compile(r"siloquent/[a-z-]+/[0-9]+")
OWN = {
    "siloquent/answer/1": "explore/spec/answers/answer.py",
    "siloquent/explanation/2": "explore/plan/explain.py",
    "siloquent/composite-explanation/2": "explore/plan/explain.py",
}
"""Values of a task that users turn into documents themselves, with ``to_json``: a task cannot import ``documents``."""


def built(text: str) -> Iterator[str]:
    """The ids in a module: whole texts, or f-strings that leave a kind open; docstrings only mention them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
            yield node.value
        if isinstance(node, ast.JoinedStr) and re.search(r"siloquent/.*/[0-9]+['\"]$", ast.unparse(node)):
            yield ast.unparse(node)


def places() -> dict[str, list[str]]:
    """The modules that build each document."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in built(path.read_text("utf-8")):
            found[name].append(path.relative_to(SOURCE).as_posix())
    return found


def test_each_document_is_built_in_one_place() -> None:
    found = places()
    assert {name: at for name, at in found.items() if len(at) > 1 or not ID.fullmatch(name)} == {}
    elsewhere = {name: at for name, (at,) in found.items() if not at.startswith("documents/")}
    assert elsewhere == OWN


def test_each_document_has_a_schema_and_each_schema_a_document() -> None:
    assert sorted(places()) == sorted(json_schema(kind)["properties"]["schema"]["const"] for kind in kinds())


def test_a_document_built_by_hand_would_be_seen() -> None:
    for text in (
        'x = {"schema": "siloquent/job-list/1", "jobs": []}',
        'x["schema"] = "siloquent/job-list/1"',
        'x = dict(y, schema="siloquent/job-list/1")',
    ):
        assert list(built(text)) == ["siloquent/job-list/1"]
    assert list(built("x = {'schema': f'siloquent/{kind}/1'}")) == ["f'siloquent/{kind}/1'"]
    assert list(built("x = f'siloquent/chain/1|{session}'")) == []  # a label below a hash
