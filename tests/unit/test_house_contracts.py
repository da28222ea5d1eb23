"""The import contracts hold, and a wall that is broken in a copy is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BREACHES = {
    "a floor imports upwards": {"schema/planted.py": "import siloquent.ledger", "ledger/__init__.py": ""},
    "neighbours meet on floor one": {"maths/planted.py": "from siloquent.privacy import events"},
    "a task imports another": {"explore/planted.py": "import siloquent.synth", "synth/__init__.py": ""},
    "a planner draws noise": {
        "explore/plan.py": "from siloquent.privacy import noise",
        "privacy/noise/__init__.py": "",
    },
    "a planner reaches noise through a friend": {
        "explore/plan.py": "from siloquent.explore import friend",
        "explore/friend.py": "from siloquent.explore import measure",
        "explore/measure.py": "from siloquent.privacy import noise",
        "privacy/noise/__init__.py": "",
    },
    "a planner asks a measure room": {
        "synth/plan.py": "from siloquent.synth import measure",
        "synth/measure.py": "from siloquent.privacy import noise",
        "privacy/noise/__init__.py": "",
    },
    "a planner asks a measure room inside a function": {
        "share/plan.py": "def price():\n    from siloquent.share import measure",
        "share/measure.py": "from siloquent.privacy import noise",
        "privacy/noise/__init__.py": "",
    },
    "an estimate reads rows": {
        "explore/estimate.py": "from siloquent.data import table",
        "data/table.py": "",
    },
    "a door reads rows": {"cli/planted.py": "from siloquent.data import open_table"},
    "the demo reads rows": {"demo/planted.py": "import siloquent.data"},
    "a door draws noise": {"cli/planted.py": "from siloquent.privacy import noise", "privacy/noise/__init__.py": ""},
}
KEPT = {
    "a measure room draws the noise of a plan's mechanism": {
        "synth/plan.py": "",
        "synth/measure.py": "from siloquent.synth import plan\nfrom siloquent.privacy import noise",
        "privacy/noise/__init__.py": "",
    },
}


def broken_contracts(tmp_path: Path, planted: dict[str, str]) -> str:
    """What lint-imports says about a copy of the library in which ``planted`` files were written; empty if all hold."""
    shutil.copytree(ROOT / "src" / "siloquent", tmp_path / "siloquent", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, text in planted.items():
        file = tmp_path / "siloquent" / name
        room = file.with_suffix("")  # a room that became a folder: plant the file inside it
        if room.is_dir():
            file = room / "planted.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (file.parent, *file.parent.parents):
            if folder == tmp_path:
                break
            (folder / "__init__.py").touch()
        with file.open("a", encoding="utf-8") as out:
            out.write(f"\n{text}\n")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert "Contracts: " in done.stdout, done.stdout + done.stderr
    return done.stdout if done.returncode else ""


def test_the_library_keeps_its_contracts(tmp_path: Path) -> None:
    assert broken_contracts(tmp_path, {}) == ""


@pytest.mark.parametrize("planted", BREACHES.values(), ids=BREACHES)
def test_a_broken_wall_is_seen(tmp_path: Path, planted: dict[str, str]) -> None:
    assert "BROKEN" in broken_contracts(tmp_path, planted)


@pytest.mark.parametrize("planted", KEPT.values(), ids=KEPT)
def test_what_the_house_allows_stays_allowed(tmp_path: Path, planted: dict[str, str]) -> None:
    assert broken_contracts(tmp_path, planted) == ""
