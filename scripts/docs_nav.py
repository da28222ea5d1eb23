"""The site's navigation: sections in a fixed order, pages in the order of their names, index pages first.

A hook of mkdocs, so that a new page shows up without anyone editing a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Learn, do, look up, understand: the order in which a newcomer needs them.
SECTIONS = {
    "Tutorials": "tutorials",
    "How-to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Decisions": "decisions",
}


def pages(docs: Path, folder: str) -> list[str]:
    """The pages of one section, index first; paths relative to ``docs``."""
    found = sorted((docs / folder).rglob("*.md"), key=lambda page: (page.name != "index.md", page.as_posix()))
    return [page.relative_to(docs).as_posix() for page in found]


def navigation(docs: Path) -> Iterator[str | dict[str, list[str]]]:
    """The home page, the sections that have pages, then the pages on top."""
    yield "index.md"
    for title, folder in SECTIONS.items():
        if found := pages(docs, folder):
            yield {title: found}
    yield from sorted(page.name for page in docs.glob("*.md") if page.name != "index.md")


def on_config(config: Any) -> Any:
    """Called by mkdocs before it collects files."""
    config["nav"] = list(navigation(Path(config["docs_dir"])))
    return config
