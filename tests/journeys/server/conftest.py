"""One server for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from journeys.served import Served, clinic_workspace, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(clinic_workspace(tmp_path_factory.mktemp("served") / "clinic")) as running:
        yield running
