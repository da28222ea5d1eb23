"""The templates of a warehouse as they are typed: the numbers of plain DuckDB over random tables, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import siloquent as sq
from benchmarks.suites.compare import find_fault
from benchmarks.suites.exact import Exact
from benchmarks.suites.questions import Question
from benchmarks.tpch.questions import Template, list_templates
from benchmarks.tpch.random_tables import SCALE, write_tables
from benchmarks.tpch.workspace import build_workspace, connect
from siloquent.errors import SiloquentError

ACCURACY = sq.AccuracyDefaults("0.1 PERCENT", confidence="0.999999", max_share="1")
REFUSED = {3, 10, 18}
"""They ask for rows of persons."""
LEFT = {2, 9, 11, 13, 15, 16, 17, 20, 22}
"""Questions that are not answered yet."""
SHARE = re.compile(r"\s+/ (SUM\()")
"""Between the sums of a share, which has no interval: the sums have."""
TEMPLATES = {one.number: one for one in list_templates()}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("warehouse")
    write_tables(made, seed=20)
    return made


@pytest.fixture(scope="module")
def plain(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(data) as engine:
        yield engine


@pytest.fixture
def session(data: Path, tmp_path: Path) -> Iterator[sq.Session]:
    folder = tmp_path / "w"
    build_workspace(folder, data, SCALE)
    with sq.open(folder, defaults=ACCURACY) as opened:
        yield opened


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=[f"q{number}" for number in TEMPLATES])
def test_a_template_has_the_numbers_of_duckdb(
    session: sq.Session, plain: duckdb.DuckDBPyConnection, template: Template
) -> None:
    if template.number in REFUSED | LEFT:
        with pytest.raises(SiloquentError) as refused:
            session.ask(template.text)
        assert refused.value.spent == "nothing"
        assert refused.value.fix
        return
    answer, asked = session.ask(template.text), SHARE.sub(r" AS part, \1", template.text)
    if asked != template.text:
        answer = session.ask(asked)
    fault = find_fault(answer, Exact(plain, Question("warehouse", asked, ("plain",))))
    assert not fault or fault.startswith("order: "), fault  # noise lets close groups change places
