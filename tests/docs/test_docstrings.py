"""Examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    for file in sorted(SOURCE.rglob("*.py"))
    if ">>> " in file.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert outcome.failed == 0
    assert outcome.attempted > 0
