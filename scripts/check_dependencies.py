"""Bounds, pins and licences of what we depend on: ``python scripts/check_dependencies.py``.

A dependency without an upper bound breaks users on somebody else's release day, one without a lower bound installs what
was never tested, and a copyleft licence in the core would reach into the work of whoever builds on it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
COPYLEFT = re.compile(r"\bA?GPL|affero|general public licen[sc]e", re.IGNORECASE)
LESSER = re.compile(r"\bLGPL|lesser general public|library general public", re.IGNORECASE)
# The Lesser licence lets anyone link: accepted in an extra that a person chooses, never in the core.
LESSER_IN_EXTRAS = {"psycopg", "psycopg-binary"}


def project() -> dict[str, object]:
    """The table ``[project]`` of pyproject.toml."""
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def declared(table: dict[str, object]) -> list[Requirement]:
    """Core and extras, without the extras that point back at the project."""
    extras: dict[str, list[str]] = table.get("optional-dependencies", {})  # type: ignore[assignment]
    core: list[str] = table["dependencies"]  # type: ignore[assignment]
    found = [Requirement(line) for lines in (core, *extras.values()) for line in lines]
    return [requirement for requirement in found if requirement.name != table["name"]]


def loose_bounds(requirements: list[Requirement]) -> Iterator[str]:
    """A sentence for each requirement without a lower and an upper bound."""
    for requirement in requirements:
        signs = {part.operator for part in requirement.specifier}
        if not signs & {">=", ">", "==", "~="}:
            yield f"pyproject.toml: {requirement} has no lower bound"
        if not signs & {"<", "<=", "==", "~="}:
            yield f"pyproject.toml: {requirement} has no upper bound"


def bad_pins(name: str, text: str, requirements: list[Requirement]) -> Iterator[str]:
    """A sentence for each line that is no plain pin, each requirement without a pin, and each pin out of bounds."""
    pins: dict[str, str] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            if not PIN.fullmatch(line):
                yield f"{name}: {line!r} is not of the form name==version"
                continue
            package, version = line.split("==")
            pins[canonicalize_name(package)] = version
    for requirement in requirements:
        pinned = pins.get(canonicalize_name(requirement.name))
        if pinned is None:
            yield f"{name}: {requirement.name} is not pinned"
        elif not requirement.specifier.contains(pinned, prereleases=True):
            yield f"{name}: {requirement.name}=={pinned} is outside {requirement.specifier}"


def bad_locks(name: str, text: str, pins: str) -> Iterator[str]:
    """A sentence for each locked package without a hash, or of another version than its pin."""
    pinned = {canonicalize_name(line.split("==")[0]): line for line in pins.splitlines() if PIN.fullmatch(line)}
    for entry in text.replace("\\\n", " ").splitlines():
        if not entry.strip() or entry.startswith("#"):
            continue
        package, *hashes = entry.split()
        if not hashes or not all(HASH.fullmatch(one) for one in hashes):
            yield f"{name}: {package} has no hash, or one that is no SHA-256"
        own = pinned.get(canonicalize_name(package.split("==")[0]))
        if own is None or own.split("==")[1] != package.split("==")[1]:
            yield f"{name}: {package} is pinned as {own}; run scripts/make_constraints.py --locked"


def closure(requirements: list[Requirement]) -> dict[str, metadata.Distribution]:
    """Installed distributions that ``requirements`` bring in, by canonical name; absent ones are left out."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            distribution = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            continue
        new = name not in found
        found[name] = distribution
        if new or requirement.extras:
            waiting += _needs(distribution, requirement.extras)
    return found


def _needs(distribution: metadata.Distribution, extras: set[str]) -> Iterator[Requirement]:
    for line in distribution.requires or []:
        needed = Requirement(line)
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield Requirement(str(needed).split(";")[0])


def licence(distribution: metadata.Distribution) -> str:
    """What the distribution says of its licence: an SPDX expression, else classifiers and the first line of text."""
    said = distribution.metadata
    if expression := said.get_all("License-Expression"):
        return str(expression[0])
    classes = [line.split(" :: ")[-1] for line in said.get_all("Classifier") or [] if line.startswith("License ::")]
    first = (said.get_all("License") or [""])[0].strip().splitlines()[:1]
    return "; ".join([*classes, *first]) or "not stated"


def unwelcome(name: str, said: str, *, in_core: bool) -> str:
    """Why this licence cannot come along; empty if it can."""
    if LESSER.search(said):
        accepted = not in_core and name in LESSER_IN_EXTRAS
        return "" if accepted else f"{name}: {said!r} is not accepted here"
    return f"{name}: {said!r} would bind whoever builds on siloquent" if COPYLEFT.search(said) else ""


def bad_licences(table: dict[str, object]) -> Iterator[str]:
    """A sentence for each distribution of the core or of an extra for users whose licence cannot come along."""
    core = closure([Requirement(line) for line in table["dependencies"]])  # type: ignore[attr-defined]
    extras: dict[str, list[str]] = table.get("optional-dependencies", {})  # type: ignore[assignment]
    chosen = closure([Requirement(line) for extra, lines in extras.items() if extra != "dev" for line in lines])
    for name, distribution in sorted({**chosen, **core}.items()):
        if reason := unwelcome(name, licence(distribution), in_core=name in core):
            yield reason


def main() -> int:
    """Print every fault; 1 if there is one."""
    table = project()
    requirements = declared(table)
    faults = [*loose_bounds(requirements), *bad_licences(table)]
    for file in sorted((ROOT / "constraints").glob("py*.txt")):
        pins = file.read_text("utf-8")
        faults += bad_pins(file.name, pins, requirements)
        locked = file.parent / "locked" / file.name
        faults += bad_locks(f"locked/{file.name}", locked.read_text("utf-8"), pins)
    for fault in faults:
        print(fault)
    print(f"dependencies: {len(requirements)} declared, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
