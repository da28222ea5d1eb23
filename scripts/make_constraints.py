"""Pin what pip resolves today for this interpreter: ``python3.12 scripts/make_constraints.py``.

Writes ``constraints/py312.txt``: the core, every extra and the tools, so that one file serves users, tests and docs.
Run it once with each Python that we support, then run the tests: the pins are what continuous integration installs.
Then ``python scripts/make_constraints.py --locked`` writes ``constraints/locked``: what a server needs, at these
versions and with the hashes of all their files, and what builds our wheel. It needs uv.
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
LOCKED_HEAD = """\
# Made by scripts/make_constraints.py --locked.
# Use: pip install --require-hashes --only-binary :all: -r constraints/locked/{name}
"""
EXTRAS = ("server", "postgres", "federation")


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


def lock() -> None:
    """Write the versions and hashes of a server's installation, for each Python with pins, and of our build."""
    folder = ROOT / "constraints" / "locked"
    folder.mkdir(exist_ok=True)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    _compile(["-", "--universal"], folder / "build.txt", given="\n".join(build))
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    for pins in sorted((ROOT / "constraints").glob("py*.txt")):
        python = f"{pins.stem[2]}.{pins.stem[3:]}"
        _compile(["pyproject.toml", "--python-version", python, "-c", str(pins), *extras], folder / pins.name)


def _compile(words: list[str], target: Path, *, given: str = "") -> None:
    command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-annotate", "--no-header", *words]
    made = subprocess.run(command, check=True, cwd=ROOT, input=given, capture_output=True, text=True).stdout
    target.write_text(LOCKED_HEAD.format(name=target.name) + made, encoding="utf-8")


def main() -> None:
    """Resolve and write the file for the running interpreter."""
    if sys.argv[1:] == ["--locked"]:
        lock()
        return
    major, minor = sys.version_info[:2]
    pins = resolve(requirements())
    text = HEAD.format(major=major, minor=minor) + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    (ROOT / "constraints" / f"py{major}{minor}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
