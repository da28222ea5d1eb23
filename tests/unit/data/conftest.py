"""What the owner's log receives, for tests that look at it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from siloquent.data.engines.base import OWNER_LOG


@pytest.fixture
def owner_log() -> Iterator[list[logging.LogRecord]]:
    """The records that an owner's handler gets while the test runs."""
    records: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keeper()
    OWNER_LOG.addHandler(handler)
    yield records
    OWNER_LOG.removeHandler(handler)
