"""Compiled samplers start wherever the package lies: beside its source, or on a read-only image without a home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import siloquent

DRAW = (
    "import numpy as np, siloquent; from fractions import Fraction;"
    "from siloquent.privacy.noise import add_laplace;"
    "from siloquent.privacy.noise import kernels;"
    "drawn = add_laplace(np.zeros(20_000, dtype=np.int64), scale=Fraction(7, 3));"
    "print(siloquent.__file__, type(kernels.add._cache).__name__, int(abs(drawn).max() > 3))"
)


def copy_of_the_package(folder: Path) -> Path:
    """The package's sources in ``folder/site``, without any compiled file."""
    source = Path(siloquent.__file__).parent
    site = folder / "site"
    shutil.copytree(source, site / "siloquent", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def draw(site: Path, **environment: str) -> str:
    said = subprocess.run(
        [sys.executable, "-c", DRAW],
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.startswith(str(site))
    return said


@pytest.mark.slow
def test_a_writable_place_keeps_the_compiled_samplers(tmp_path: Path) -> None:
    site = copy_of_the_package(tmp_path)
    assert draw(site).endswith("FunctionCache 1\n")
    assert list((site / "siloquent/privacy/noise/__pycache__").glob("kernels.add-*.nbc"))


@pytest.mark.slow
def test_a_named_cache_folder_is_used(tmp_path: Path) -> None:
    site = copy_of_the_package(tmp_path)
    assert draw(site, NUMBA_CACHE_DIR=str(tmp_path / "cache")).endswith("FunctionCache 1\n")
    assert list((tmp_path / "cache").rglob("kernels.add-*.nbc"))


@pytest.mark.slow
def test_a_read_only_image_without_a_home_compiles_and_keeps_nothing(tmp_path: Path) -> None:
    site = copy_of_the_package(tmp_path)
    # A file where a folder is wanted stops even the superuser, whom permissions do not.
    (site / "siloquent/privacy/noise/__pycache__").write_text("")
    (tmp_path / "no-home").write_text("")
    home = str(tmp_path / "no-home")
    said = draw(site, HOME=home, XDG_CACHE_HOME=home, NUMBA_CACHE_DIR="")
    assert said.endswith("NullCache 1\n")
