"""No modules of the library import one another in a circle, and rooms of a task import one another one way."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.import_circles import find_circles, find_two_way_rooms, read_imports

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def library() -> dict[str, set[str]]:
    return read_imports(ROOT / "src" / "siloquent")


def test_the_library_has_no_circle_of_imports(library: dict[str, set[str]]) -> None:
    assert len(library) > 500
    assert find_circles(library) == []


def test_rooms_import_one_another_one_way(library: dict[str, set[str]]) -> None:
    assert find_two_way_rooms(library) == []


@pytest.mark.parametrize(
    ("module", "imported", "rooms"),
    [
        ("explore.plan.planner", "explore.measure.run", ("explore.measure", "explore.plan")),
        ("share.spec.requests", "share.plan", ("share.plan", "share.spec")),
        ("synth.plan.tree", "synth.estimate.enforce.trial", ("synth.estimate", "synth.plan")),
    ],
)
def test_a_planted_way_back_between_rooms_is_found(
    library: dict[str, set[str]], module: str, imported: str, rooms: tuple[str, str]
) -> None:
    module, imported = f"siloquent.{module}", f"siloquent.{imported}"
    assert imported in library
    planted = {**library, module: {*library[module], imported}}
    assert find_two_way_rooms(planted) == [tuple(f"siloquent.{room}" for room in rooms)]


def written(tmp_path: Path, **sources: str) -> dict[str, set[str]]:
    """The imports of a small library; ``a__b`` is the file ``a/b.py``."""
    for name, text in {"__init__": "", **sources}.items():
        file = tmp_path / "siloquent" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / "__init__.py").touch()
        file.write_text(text, encoding="utf-8")
    return read_imports(tmp_path / "siloquent")


@pytest.mark.parametrize(
    "back",
    [
        "from siloquent.low import Value",
        "import siloquent.low",
        "from siloquent import low",
        "if TYPE_CHECKING:\n    from siloquent.low import Value",
        "def build():\n    from siloquent.low import Value",
        "class Value:\n    def build(self):\n        import siloquent.low",
    ],
)
def test_each_kind_of_import_closes_a_circle(tmp_path: Path, back: str) -> None:
    found = written(tmp_path, low="from siloquent.middle import x", middle="from siloquent.high import y", high=back)
    assert find_circles(found) == [("siloquent.high", "siloquent.low", "siloquent.middle")]


def test_two_circles_are_two(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        a="import siloquent.b",
        b="import siloquent.a\nimport siloquent.c",
        c="from siloquent.d import x",
        d="from siloquent.c import y",
    )
    assert find_circles(found) == [("siloquent.a", "siloquent.b"), ("siloquent.c", "siloquent.d")]


def test_what_imports_one_way_is_no_circle(tmp_path: Path) -> None:
    high = "from siloquent import low, middle"
    found = written(tmp_path, low="import json", middle="import siloquent.low", high=high)
    assert find_circles(found) == []
    assert found["siloquent.high"] == {"siloquent.low", "siloquent.middle"}


def test_rooms_that_meet_in_different_modules_are_found_without_a_circle(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        task__plan__prices="from siloquent.task.measure.base import Outcome",
        task__measure__run="from siloquent.task.plan.workload import Matrix",
        task__measure__base="",
        task__plan__workload="",
        other__plan="import siloquent.task.measure",
    )
    assert find_circles(found) == []
    assert find_two_way_rooms(found) == [("siloquent.task.measure", "siloquent.task.plan")]
