"""Problems of declarations as a token for some tables is told them: without the tables by which its own are linked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from siloquent.documents.problems import Problem
from siloquent.fixes import build_fix, let_owner_run
from siloquent.server.access.tokens import Principal

INVALID = "The declaration or the source of this table, or of one that it needs, is invalid."
_DECLARATIONS = ("schema_invalid", "link_invalid", "unknown_name")
_FILE = re.compile(r"(schemas|units|public)/")


def hide_other_tables(problem: Problem, person: Principal, folder: Path) -> Problem:
    """Return ``problem`` without what it says of the tables by which the person's own are linked to their unit.

    Invalid files of the workspace in ``folder`` are named to who may ask about every table.
    """
    if person.sees_all or problem.code not in _DECLARATIONS:
        return problem
    if not _FILE.match(problem.detail) and not _names_other_table(problem, person, folder):
        return problem
    fix = build_fix(let_owner_run("check"))
    code, title = "schema_invalid", "Invalid declaration"
    return replace(problem, code=code, title=title, detail=INVALID, remedy=fix, http_status=422, about={}, notes=())


def _names_other_table(problem: Problem, person: Principal, folder: Path) -> bool:
    """Return whether a declaration's problem names another table; refusals that repeat a question have other codes."""
    if problem.code == "unknown_name":
        return False
    words = set(re.findall(r"\w+", f"{problem.detail} {problem.fix}"))
    return any(file.stem in words and not person.may_see(file.stem) for file in (folder / "schemas").glob("*.toml"))
