"""Processes that find prices: where none starts, the request is told so, and the next one starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from journeys.served import clinic_workspace
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused
from siloquent.server.planning import planners
from siloquent.server.planning.planners import Planners
from siloquent.server.planning.process import Order

ANALYST = Principal("t", "ana", "analyst", (), 0)
QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 300"


def test_a_process_that_did_not_start_takes_no_place_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Planners(clinic_workspace(tmp_path / "clinic"), count=1, seconds=60, max_bytes=2**32)

    def fails(_: Any) -> None:
        raise OSError("no more processes")

    async def ask() -> dict[str, Any]:
        return await made.price_question(ANALYST, QUESTION)

    try:
        with monkeypatch.context() as failing:
            failing.setattr(ForkServerProcess, "start", fails)
            for _ in range(2):
                with pytest.raises(Refused) as refused:
                    asyncio.run(ask())
                assert (refused.value.problem.http_status, refused.value.problem.code) == (503, "too_slow")
        assert asyncio.run(ask())["alpha"] == "300"
    finally:
        made.close()


def never_ready(*_: Any) -> None:
    """In place of a planner."""
    time.sleep(600)


def test_a_process_that_starts_too_slowly_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planners, "START_SECONDS", 0.1)
    monkeypatch.setattr(planners, "serve", never_ready)
    made = Planners(tmp_path, count=1, seconds=1, max_bytes=2**33)
    with pytest.raises(Refused) as refused:
        made._ask(Order(ANALYST, QUESTION))
    assert (refused.value.problem.http_status, refused.value.problem.code) == (503, "too_slow")
    made.close()


def test_a_plan_that_gets_no_processor_is_not_called_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does much else says nothing of a plan: the planner's process is stopped, as by a scheduler."""
    monkeypatch.setattr(planners, "MIN_WAIT_SECONDS", 0.5)
    made = Planners(clinic_workspace(tmp_path / "clinic"), count=1, seconds=0.05, max_bytes=2**32)
    try:
        (planner,) = made._idle
        planner.start(tmp_path / "clinic", 2**32)
        assert planner._process is not None
        assert planner._process.pid is not None
        os.kill(planner._process.pid, signal.SIGSTOP)
        with pytest.raises(Refused) as refused:
            made._ask(Order(ANALYST, QUESTION))
        assert (refused.value.problem.http_status, refused.value.problem.code) == (503, "too_slow")
    finally:
        made.close()
