"""The architecture page names files that are there, and the floors that the contracts hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
LIBRARY = ROOT / "src/siloquent"


def missing(page: str) -> list[str]:
    """Paths of the page at which nothing is."""
    named = set(re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", page)) - {"src/siloquent/"}
    files = {path.relative_to(LIBRARY).as_posix() for path in LIBRARY.rglob("*.py")}
    return [
        one
        for one in sorted(named)
        if not (
            (ROOT / one if one.startswith(("tests/", "scripts/")) else LIBRARY / one).exists()
            or any(file == one or file.endswith(f"/{one}") for file in files)
        )
    ]


def test_every_path_is_there() -> None:
    assert missing(PAGE) == []
    assert missing("`explore/spec/gone.py` and `nowhere/`") == ["explore/spec/gone.py", "nowhere/"]


def test_the_floors_are_those_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    kept = [sorted(re.findall(r"[a-z]+", line)) for line in contract["layers"]]
    (block,) = re.findall(r"```text\n(cli .*?)```", PAGE, re.DOTALL)
    told = [sorted(re.findall(r"[a-z]+", line.partition("   ")[0])) for line in block.splitlines()]
    assert told == kept
