"""The site builds without a warning and asks nothing of other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=\"?(?:https?:)?//|<link[^>]+stylesheet[^>]+href=\"?(?:https?:)?//"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_built_and_found_from_the_menu(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")
    names = [page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [name for name in names if not (site / name).is_file()] == []
    assert [name for name in names if f'href="{name}"' not in home and name != "index.html"] == []


def test_no_page_fetches_from_another_host(site: Path) -> None:
    pages = {page.relative_to(site).as_posix(): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert len(pages) > 5
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []


@pytest.mark.parametrize(
    "text",
    ['<script src="https://cdn.example/x.js">', '<link rel="stylesheet" href="//fonts.example/a.css">'],
)
def test_a_fetch_from_another_host_would_be_seen(text: str) -> None:
    assert FETCHED.search(text)
