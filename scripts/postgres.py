"""A throw-away PostgreSQL server: ``python scripts/postgres.py`` prints its address and runs until Ctrl-C.

Tests and benchmarks use it as a context manager, so that nobody has to set up a server and no test meets somebody's
tables. It listens on the loopback address alone, on a free port, and trusts whoever connects from there.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OLDEST = 15
START_SECONDS = 60
_LIBC, _PDEATHSIG = ctypes.CDLL(None), 1
USER = "siloquent"
NOT_FOUND = (
    f"No PostgreSQL >= {OLDEST} server programs (initdb, postgres) were found. "
    "Fix: apt-get install postgresql, or put the folder that holds initdb on PATH."
)


class PostgresUnavailable(RuntimeError):
    """The server programs are missing, too old, or do not start; the message says which."""


def programs() -> Path:
    """The folder of the newest server programs: the one on PATH, else Debian's, Red Hat's and Homebrew's places.

    Raises:
        PostgresUnavailable: There is none, or none is new enough.
    """
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    for pattern in ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin"):
        folders += sorted(Path("/").glob(pattern), reverse=True)
    for folder in folders:
        if (folder / "postgres").exists() and _major(folder / "postgres") >= OLDEST:
            return folder
    raise PostgresUnavailable(NOT_FOUND)


def _major(postgres: Path) -> int:
    """The major version in "postgres (PostgreSQL) 15.13 (Debian ...)"."""
    said = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split(")")[1].split()[0].split(".")[0].removesuffix("devel"))


@contextmanager
def throwaway_postgres(*, durable: bool = False) -> Iterator[str]:
    """Start a server in a temporary folder, yield its SQLAlchemy address, then stop it and delete the folder.

    Args:
        durable: Flush every commit to disk, as a real server does. Tests that do not pull the plug go faster without.
    Raises:
        PostgresUnavailable: No server programs, or the server does not come up.
    """
    folder = programs()
    # A socket's path may have about 100 characters only, so TMPDIR is not asked.
    home = Path(tempfile.mkdtemp(prefix="siloquent-pg-", dir="/tmp"))
    try:
        account = _unprivileged(home)
        _initialise(folder, home, account)
        port = _free_port()
        server = _start(folder, home, port, account, durable=durable)
        try:
            _wait(server, home, port)
            yield f"postgresql+psycopg://{USER}@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: there is nothing to save
            server.wait(timeout=START_SECONDS)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def fresh_database(server: str, *, template: str = "template1") -> str:
    """The address of a new database on the PostgreSQL server at ``server``, empty or a copy of ``template``."""
    import sqlalchemy as sa

    name = f"fresh_{secrets.token_hex(6)}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
    engine.dispose()
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


def _unprivileged(home: Path) -> pwd.struct_passwd | None:
    """Whom the server runs as, if not as us: PostgreSQL refuses root, so root lends it another account."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in known else "nobody"
    entry = pwd.getpwnam(name)
    os.chown(home, entry.pw_uid, entry.pw_gid)
    return entry


def _initialise(folder: Path, home: Path, account: pwd.struct_passwd | None) -> None:
    command: list[str | Path] = [
        folder / "initdb",
        "-D",
        home / "data",
        "-U",
        USER,
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    trust = ["--auth-local=trust", "--auth-host=trust"]
    user, group = (account.pw_uid, account.pw_gid) if account else (None, None)
    done = subprocess.run(
        [*command, *trust], capture_output=True, text=True, cwd=home, check=False, user=user, group=group
    )
    if done.returncode:
        raise PostgresUnavailable(f"initdb failed: {done.stderr.strip()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(
    folder: Path, home: Path, port: int, account: pwd.struct_passwd | None, *, durable: bool
) -> subprocess.Popen[bytes]:
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": home,
        "max_connections": 100,
        "fsync": "on" if durable else "off",
        "synchronous_commit": "on" if durable else "off",
        "timezone": "UTC",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (home / "log").open("wb") as log:
        command: list[str | Path] = [folder / "postgres", "-D", home / "data", *options]
        user, group = (account.pw_uid, account.pw_gid) if account else (None, None)
        # A session of its own: Ctrl-C in the terminal reaches us first, and we stop the server in order.
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=home,
            start_new_session=True,
            user=user,
            group=group,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )


def _end_with_parent() -> None:
    """Have the kernel stop the server when we die, in whatever way: who is killed stops nothing in order."""
    _LIBC.prctl(_PDEATHSIG, signal.SIGQUIT)


def _wait(server: subprocess.Popen[bytes], home: Path, port: int) -> None:
    """Return when the server takes connections (its pid file then says "ready")."""
    deadline = time.monotonic() + START_SECONDS
    pid_file = home / "data" / "postmaster.pid"
    while time.monotonic() < deadline and server.poll() is None:
        if pid_file.exists() and "ready" in pid_file.read_text("utf-8"):
            return
        time.sleep(0.05)
    said = (home / "log").read_text("utf-8", errors="replace").strip()
    raise PostgresUnavailable(f"PostgreSQL did not start on port {port}: {said[-2000:]}")


def main() -> int:
    """Print the address, then wait for Ctrl-C or SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        with throwaway_postgres(durable=True) as address:
            print(address, flush=True)
            stop.wait()
    except PostgresUnavailable as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
