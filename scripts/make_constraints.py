"""Pin what pip resolves today for this interpreter: ``python3.12 scripts/make_constraints.py``.

Writes ``constraints/py312.txt``: the core, every extra and the tools, so that one file serves users, tests and docs.
Run it once with each Python that we support, then run the tests: the pins are what continuous integration installs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
# Tested versions for Python {major}.{minor}: core, extras and tools. Made by scripts/make_constraints.py.
# Use: pip install -c constraints/py{major}{minor}.txt .
"""


def requirements() -> list[str]:
    """Every requirement of ``pyproject.toml``, without the extras that point back at siloquent itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return sorted({line for lines in lists for line in lines if not line.startswith(project["name"])})


def resolve(lines: list[str]) -> dict[str, str]:
    """Name to version as pip chooses them for this interpreter; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *lines], check=True)
        installed = json.loads(report.read_text("utf-8"))["install"]
    # A local label such as "+cpu" names a build of one machine: another index need not have it.
    return {item["metadata"]["name"].lower(): item["metadata"]["version"].split("+")[0] for item in installed}


def main() -> None:
    """Resolve and write the file for the running interpreter."""
    major, minor = sys.version_info[:2]
    pins = resolve(requirements())
    text = HEAD.format(major=major, minor=minor) + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    (ROOT / "constraints" / f"py{major}{minor}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
