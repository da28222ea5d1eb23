"""Two runs of one request at once: both end with what the ledger keeps, and with nothing else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from unit.synth.people import opened, rows, spec


def test_a_run_that_comes_second_gives_the_release_of_the_first(tmp_path: Path) -> None:
    half, go, found = threading.Event(), threading.Event(), dict[str, Any]()

    with opened(tmp_path / "w", rows(500)) as session:
        asked = spec(rows=50, report="0")

        def wait(done: int) -> None:
            if done == 4:
                half.set()
                go.wait()

        def second() -> None:
            found["second"] = session.synth.synthesize(asked, key="k", progress=wait)

        thread = threading.Thread(target=second)
        thread.start()
        half.wait()
        first = session.synth.synthesize(asked, key="k")
        spent = session.get_account("people").spent
        go.set()
        thread.join()
        assert session.get_account("people").spent == spent
        assert found["second"].rows.equals(first.rows)
        assert found["second"].receipt == first.receipt
