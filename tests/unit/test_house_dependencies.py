"""Dependencies are bounded, pinned and free to use; a planted fault of each kind is found."""

from __future__ import annotations

from importlib import metadata

import pytest
from packaging.requirements import Requirement

from scripts import check_dependencies as check

NUMPY = [Requirement("numpy>=2,<3")]


def test_every_declared_dependency_has_two_bounds() -> None:
    assert list(check.loose_bounds(check.declared(check.project()))) == []


@pytest.mark.parametrize("line", ["numpy", "numpy>=2", "numpy<3"])
def test_a_missing_bound_is_found(line: str) -> None:
    assert list(check.loose_bounds([Requirement(line)]))


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_every_supported_python_has_pins_within_the_bounds(minor: int) -> None:
    file = check.ROOT / "constraints" / f"py3{minor}.txt"
    assert list(check.bad_pins(file.name, file.read_text("utf-8"), check.declared(check.project()))) == []


@pytest.mark.parametrize(
    "text",
    ["numpy==1.26.4\n", "numpy>=2\n", "numpy @ file:///tmp/numpy.whl\n", "numpy==2.4.0+cpu\n", "scipy==1.17.1\n"],
)
def test_a_pin_that_is_loose_missing_local_or_out_of_bounds_is_found(text: str) -> None:
    assert list(check.bad_pins("py311.txt", text, NUMPY))


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_what_a_server_installs_has_the_hashes_and_versions_that_were_tested(minor: int) -> None:
    pins, locked = (check.ROOT / "constraints" / folder / f"py3{minor}.txt" for folder in ("", "locked"))
    assert list(check.bad_locks(locked.name, locked.read_text("utf-8"), pins.read_text("utf-8"))) == []
    wanted = {"duckdb", "fastapi", "numpy", "opendp", "psycopg", "uvicorn"}
    assert wanted <= {line.split("==")[0] for line in locked.read_text("utf-8").splitlines()}


@pytest.mark.parametrize(
    "text",
    [
        "numpy==2.4.0\n",
        f"numpy==2.4.1 \\\n    --hash=sha256:{'0' * 64}\n",
        "numpy==2.4.0 \\\n    --hash=md5:0123\n",
        f"scipy==1.17.1 \\\n    --hash=sha256:{'0' * 64}\n",
    ],
)
def test_a_lock_without_hashes_or_of_another_version_is_found(text: str) -> None:
    assert list(check.bad_locks("py311.txt", text, "numpy==2.4.0\n"))
    assert not list(check.bad_locks("py311.txt", f"numpy==2.4.0 --hash=sha256:{'0' * 64}\n", "numpy==2.4.0\n"))


def test_no_licence_binds_whoever_builds_on_us() -> None:
    assert list(check.bad_licences(check.project())) == []


def test_the_closure_follows_what_the_core_needs() -> None:
    names = set(check.closure(check.declared(check.project())))
    assert {"numpy", "numba", "llvmlite", "pydantic-core", "typing-extensions"} <= names


@pytest.mark.parametrize(
    ("said", "in_core", "accepted"),
    [
        ("GPL-3.0-or-later", False, False),
        ("AGPL-3.0-only", False, False),
        ("GNU Affero General Public License v3", False, False),
        ("GNU Lesser General Public License v3 (LGPLv3)", True, False),
        ("LGPL-3.0-only", False, True),
        ("Apache-2.0", True, True),
        ("MIT OR BSD-3-Clause", True, True),
    ],
)
def test_copyleft_is_refused_and_the_lesser_licence_stays_in_its_extra(
    said: str, in_core: bool, accepted: bool
) -> None:
    assert (check.unwelcome("psycopg", said, in_core=in_core) == "") is accepted


def test_the_licence_of_an_installed_package_is_read() -> None:
    assert "LGPL" in check.licence(metadata.distribution("psycopg")).upper().replace("LESSER GENERAL PUBLIC", "LGPL")
