"""At a terminal: one question before anything is spent, bars beside the numbers, a Control-C that says what it cost."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from journeys.clinic import WARDS, Person, Types

PATIENCE = 120.0
"""Seconds for a command at a terminal, however busy the machine is: most take one."""


def at_terminal(folder: Path, *words: str, answer: str = "", columns: int = 100) -> tuple[int, str]:
    """Run a command with a terminal on all three streams, and type ``answer``. Exit status, and all that it showed.

    A command that still waits for an answer after ``PATIENCE`` is ended, and the test fails with what it showed.
    """
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(COLUMNS=str(columns), TERM="xterm", PYTHONIOENCODING="utf-8")
        os.execv(sys.executable, [sys.executable, "-m", "siloquent", *words])
    shown = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(screen, 4096)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            shown.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    os.write(screen, answer.encode())
    deadline = time.monotonic() + PATIENCE
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail(f"The command still waits for an answer. It showed:\n{shown.decode('utf-8', 'replace')}")
        time.sleep(0.05)
    reader.join(timeout=30)
    os.close(screen)
    return os.waitstatus_to_exitcode(ended[1]), shown.decode("utf-8", "replace")


def test_the_price_is_shown_and_a_yes_pays_it(owner: Person) -> None:
    status, shown = at_terminal(owner.folder, "--analyst", "ana", "ask", WARDS, answer="y\n")
    assert status == 0
    assert shown.index("No value is more than 200 rows off") < shown.index("It costs ") < shown.index("Ask? [y/N]")
    assert shown.index("Ask? [y/N]") < shown.index("icu")
    assert owner.spent() > 0


@pytest.mark.parametrize("answer", ["n\n", "\n"], ids=["no", "only return"])
def test_anything_but_a_yes_spends_nothing(owner: Person, answer: str) -> None:
    status, shown = at_terminal(owner.folder, "ask", WARDS, answer=answer)
    assert status == 2
    assert "nothing was spent" in shown
    assert "icu" not in shown
    assert owner.spent() == 0


def test_bars_with_their_uncertain_part_stand_beside_the_numbers(owner: Person) -> None:
    status, shown = at_terminal(owner.folder, "ask", WARDS, "--yes")
    assert status == 0
    assert "█" in shown
    assert "░" in shown
    assert "┃" in shown


def test_a_narrow_terminal_gets_no_bars(owner: Person) -> None:
    status, shown = at_terminal(owner.folder, "ask", WARDS, "--yes", columns=60)
    assert status == 0
    assert "┃" not in shown


@pytest.mark.parametrize("words", [("show", "visits"), ("ledger", "show"), ("ask", WARDS, "--yes")], ids=" ".join)
def test_a_terminal_that_knows_no_pictures_gets_plain_letters(owner: Person, words: tuple[str, ...]) -> None:
    done = owner.types(*words, environment={"PYTHONIOENCODING": "ascii"})
    assert done.status == 0
    assert done.out.isascii()
    assert "?" not in done.out


def test_no_colour_means_none(owner: Person) -> None:
    _, coloured = at_terminal(owner.folder, "show", "vists")
    _, plain = at_terminal(owner.folder, "show", "vists", "--no-color")
    assert "\x1b[1;31m" in coloured
    assert "\x1b[1;31m" not in plain
    assert "\x1b[31m" not in plain


def test_draft_asks_whether_the_rows_are_public(owner: Person) -> None:
    status, shown = at_terminal(owner.folder, "draft", "data/visits.parquet", answer="n\n")
    assert status == 8
    assert "that is a leak" in shown
    assert "lo = " not in shown
    status, shown = at_terminal(owner.folder, "draft", "data/visits.parquet", answer="y\n")
    assert status == 0
    assert "lo = " in shown


@pytest.mark.slow
def test_a_new_epoch_asks_for_the_sentence(owner: Person) -> None:
    owner.types("ask", WARDS, "--yes")
    status, shown = at_terminal(owner.folder, "epoch", "open", "visits", answer="yes\n")
    assert status == 2
    assert "these are new people" in shown
    status, shown = at_terminal(owner.folder, "epoch", "open", "visits", answer="These are new people.\n")
    assert status == 0
    assert "visits@2 is open" in shown


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_control_c_after_the_charge_says_so_and_how_to_go_on(
    owner: Person, types: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("siloquent.explore.task.measure_all", interrupted)
        stopped = types("ask", WARDS, "--key", "k", "--yes")
        said = types("ask", WARDS, "--key", "other", "--yes", "--json").document
    assert stopped.status == 130
    assert "the cost is charged" in stopped.err
    assert "--key k --yes" in stopped.err
    assert (said["code"], said["exit"]) == ("interrupted", 130)
    charged = owner.spent()
    assert types("ask", WARDS, "--key", "k", "--yes").status == 0
    assert owner.spent() == charged


def test_control_c_before_the_charge_says_that_nothing_was_spent(
    owner: Person, types: Types, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("siloquent.explore.charging.plan_query", interrupted)
        stopped = types("ask", WARDS, "--yes")
    assert stopped.status == 130
    assert "Spent: nothing." in stopped.err
    assert owner.spent() == 0
    assert types("ask", WARDS, "--yes").status == 0


def test_a_reader_who_is_gone_is_no_error_of_ours(owner: Person) -> None:
    import subprocess

    words = f"set -o pipefail; {sys.executable} -m siloquent show visits --quiet | true"
    done = subprocess.run(["bash", "-c", words], cwd=owner.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 141
    assert done.stderr == ""
