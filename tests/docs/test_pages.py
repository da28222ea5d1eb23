"""Every page of the docs does what it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from forked import write_command
from scripts.doc_blocks import Page, PageFailure, blocks, first_missing, needs, unrun

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {page.relative_to(ROOT).as_posix(): page for page in FILES}
MAX_UNRUN = 12  # install commands and the like; a page that cannot be run teaches nothing


def parameters() -> list[object]:
    """One test a page that has blocks; pages that need a server carry its marker."""
    made = []
    for name, page in PAGES.items():
        text = page.read_text("utf-8")
        if list(blocks(text)):
            marks = [pytest.mark.postgres] if "postgres" in needs(text) else []
            made.append(pytest.param(name, marks=marks, id=name))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", parameters())
def test_the_page_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = PAGES[name].read_text("utf-8")
    programs = write_command(tmp_path / "programs" / "siloquent").parent
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": path}
    if "postgres" in needs(text):
        environment["CLINIC_DSN"] = request.getfixturevalue("postgres_dsn")
    folder = tmp_path / "page"
    folder.mkdir()
    Page(name, folder, environment).follow(text)


def test_few_blocks_are_left_out_and_each_says_why() -> None:
    left_out = [f"{name}:{block.line}" for name, page in PAGES.items() for block in unrun(page.read_text("utf-8"))]
    assert len(left_out) <= MAX_UNRUN, left_out


BAD = {
    "a failing assertion": "```python\nassert 1 == 2\n```",
    "a name from nowhere": "```python\nx = undefined_name\n```",
    "a wrong doctest": "```python\n>>> 1 + 1\n3\n```",
    "a command that fails": "```console\n$ ls nowhere\n```",
    "a command that should fail": "<!-- exit: 3 -->\n```console\n$ ls\n```",
    "a command that tests do not run": "```console\n$ make demo\n```",
    "output that is not printed": "```console\n$ python -c 'print(\"seven rows\")'\neight rows\n```",
    "a table that is not accepted": '```toml\nformat = 1\n[table]\nname = "visits"\n```',
    "a block left out without a reason": "<!-- no-run: -->\n```console\n$ make demo\n```",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_page_that_does_not_do_what_it_says_is_caught(text: str, tmp_path: Path) -> None:
    with pytest.raises(PageFailure, match=r"page\.md:"):
        Page("page.md", tmp_path, {}).follow(text)


def test_blocks_of_a_page_share_names_folder_and_files(tmp_path: Path) -> None:
    page = """
```text title="clinic/note.txt"
seven
```
```console
$ cd clinic
$ cat note.txt
seven
```
```python
from pathlib import Path
said = Path("note.txt").read_text().strip()
```
```python
>>> said
'seven'
```
"""
    Page("page.md", tmp_path, {}).follow(page)


def test_a_comment_counts_for_the_block_right_below_it() -> None:
    first, second = blocks("<!-- no-run: slow -->\n\n```sh\n$ make\n```\ntext\n```sh\n$ ls\n```")
    assert (first.notes, second.notes) == ({"no-run": "slow"}, {})


def test_numbers_and_rules_do_not_count_in_output() -> None:
    said = "┌──────┐\n│ A │ 4,120 │\n│ B │ 17 │\nleft 0.93 of 1"
    assert first_missing(["A  3,998", "...", "left 0.5 of 1"], said) == ""
    assert first_missing(["B  1", "A  2"], said) == "A  2"
