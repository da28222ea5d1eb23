"""The Makefile's commands are those of the README, and name what is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_command_of_the_readme_is_a_target() -> None:
    named = set(re.findall(r"^\$ make ([a-z-]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"demo", "test", "test-all"} <= named <= targets
    assert "make --no-print-directory test-all " in (ROOT / ".ci/run").read_text("utf-8")


def test_the_quick_tests_are_there() -> None:
    words = ["make", "--dry-run", "--no-print-directory", "--assume-old=.venv/.dev", "test"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"tests/[\w./]+", said)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
