"""Import what ``siloquent`` imports, then fork a process for each command line that comes in at a socket.

It holds no rows and draws no numbers before it forks, and has no threads of its own; it ends with its standard input.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

LOADED = (
    "siloquent.api",
    "siloquent.cli.app",
    "siloquent.cli.explore.charts",
    "siloquent.cli.explore.output",
    "siloquent.data.engines.duckdb",
    "siloquent.data.sources.text.csv",
    "siloquent.data.sources.parquet",
    "siloquent.discover.task",
    "siloquent.explore.task",
    "siloquent.ledger.backends.sqlite",
    "siloquent.privacy.noise",
    "siloquent.schema.build",
    "opendp.prelude",
    "pydantic.type_adapter",
    "rich.table",
    "typer._adapters",
)
READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "OPENBLAS_", "OMP_", "NUMBA_", "MALLOC_")
"""The first letters of variables that count only as an interpreter starts."""


class _Parent:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: dict[int, socket.socket] = {}  # by the process id of each that runs
        self.waiting = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "socket"))
        self.listener.listen(64)
        self.wakes, self.woken = socket.socketpair()
        self.woken.setblocking(False)
        signal.set_wakeup_fd(self.woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for file in (self.listener, self.wakes, sys.stdin):
            self.waiting.register(file, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """Return the words of a command line in the process forked for it, and None in the parent at its end."""
        while True:
            for key, _ in self.waiting.select():
                if key.fileobj is sys.stdin:
                    for pid in self.commands:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if key.fileobj is self.wakes:
                    self.wakes.recv(4096)
                    self._reap()
                elif key.fileobj is self.listener:
                    words = self._fork(self.listener.accept()[0])
                    if words is not None:
                        return words
                else:
                    self._pass_on(key.fileobj)

    def _fork(self, connection: socket.socket) -> list[str] | None:
        size, streams, _, _ = socket.recv_fds(connection, 8, 3)
        left, parts = int.from_bytes(size, "big"), []
        while left and (part := connection.recv(left)):
            parts.append(part)
            left -= len(part)
        pid = os.fork()
        if pid:
            for stream in streams:
                os.close(stream)
            self.commands[pid] = connection
            self.waiting.register(connection, selectors.EVENT_READ)
            return None
        words, folder, environment = json.loads(b"".join(parts))
        self._become(streams, connection)
        os.chdir(folder)
        if _choose_read_at_start(environment) != _choose_read_at_start(os.environ):
            os.execve(sys.executable, [sys.executable, "-m", "siloquent", *words], environment)
        os.environ.clear()
        os.environ.update(environment)
        return words

    def _become(self, streams: list[int], connection: socket.socket) -> None:
        """Leave what is the parent's: its handlers, files and streams."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for file in (self.listener, self.wakes, self.woken, connection, *self.commands.values()):
            file.close()
        self.waiting.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for text in (sys.stdout, sys.stderr):
            text.reconfigure(line_buffering=text is sys.stderr or text.isatty())

    def _reap(self) -> None:
        while self.commands:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            (self.folder / "cpu").write_text(str(used.ru_utime + used.ru_stime))
            connection = self.commands.pop(pid)
            with suppress(OSError):
                connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))
            with suppress(KeyError):
                self.waiting.unregister(connection)
            connection.close()

    def _pass_on(self, connection: socket.socket) -> None:
        """Pass signals on to a command; kill it if the process that stands for it is gone."""
        pid = next((pid for pid, other in self.commands.items() if other is connection), None)
        if pid is None:
            return
        try:
            numbers = connection.recv(64) or bytes([signal.SIGKILL])
        except ConnectionError:
            numbers = bytes([signal.SIGKILL])
        if signal.SIGKILL in numbers:
            self.waiting.unregister(connection)
        for number in numbers:
            os.kill(pid, number)


def _choose_read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def main() -> None:
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    parent = _Parent(Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    words = parent.serve()
    if words is None:
        return
    sys.argv = ["siloquent", *words]
    try:
        runpy.run_module("siloquent", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _end(ended.code or 0)
        raise


def _end(status: int) -> NoReturn:
    """End as an interpreter does, but leave its modules as they are: to take them apart copies all their memory."""
    for text in (sys.stdout, sys.stderr):
        text.flush()
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()
    for text in (sys.stdout, sys.stderr):
        text.flush()
    os._exit(status)


main()
