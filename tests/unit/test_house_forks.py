"""Commands that tests fork end, speak and are stopped as those that are started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forked import build_command, read_cpu_seconds, write_command

ANEW = [sys.executable, "-m", "siloquent"]


def run(words: list[str], folder: Path, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words", [["--version"], ["tables"], ["explain", "x"], ["init", "there"], ["nothing"]], ids=" ".join
)
def test_status_streams_folder_and_environment_are_those_of_a_command(words: list[str], tmp_path: Path) -> None:
    for name in ("anew", "forked"):
        (tmp_path / name).mkdir()
    anew = run([*ANEW, *words], tmp_path / "anew", COLUMNS="60", NO_COLOR="1")
    forked = run([*build_command(), *words], tmp_path / "forked", COLUMNS="60", NO_COLOR="1")
    assert forked == (anew[0], anew[1].replace("anew", "forked"), anew[2].replace("anew", "forked"))
    files = [sorted(file.name for file in (tmp_path / name).rglob("*")) for name in ("anew", "forked")]
    assert files[0] == files[1]


def test_it_reads_its_standard_input_and_counts_its_time(tmp_path: Path) -> None:
    before = read_cpu_seconds()
    done = subprocess.run(
        [*build_command(), "explain", "-"], cwd=tmp_path, input="SELECT", capture_output=True, text=True
    )
    assert (done.returncode, "siloquent.toml" in done.stderr) == (2, True)
    assert read_cpu_seconds() > before


def test_a_variable_that_an_interpreter_reads_as_it_starts_counts(tmp_path: Path) -> None:
    done = subprocess.run(
        [*build_command(), "tables"],
        cwd=tmp_path,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-16"},
    )
    assert "No siloquent.toml" in done.stderr.decode("utf-16")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number: signal.Signals, tmp_path: Path) -> None:
    command = write_command(tmp_path / "bin" / "siloquent")
    reads = subprocess.Popen([command, "explain", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with reads as waits:
        waits.send_signal(number)
        assert waits.stdout is not None
        assert waits.stdout.read() == b""  # it comes to an end only with the process that could write there
        assert waits.wait(20) == -number
