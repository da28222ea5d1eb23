"""Sent reports are kept, by any number of programs at once and whenever one is killed: no user is drawn twice."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from siloquent.collect import Client, Device, FileMemory, UserMemory, lock_memories
from siloquent.collect.measure import memory as module
from unit.collect.shops import ORDERS, PROFILE, collection

MADE = collection(PROFILE, ORDERS)
USERS = 40

# One program: the reports of all users to one service, as `collect perturb` makes them. STOP is the call, counted over
# everything that touches the disk, before which it is killed.
PROGRAM = """
import json, os, signal, sys
from siloquent.collect import Client, Device, UserMemory, lock_memories
document, memory, service, out, stop = sys.argv[1:6]
left = int(stop)
def counted(real):
    def call(*given, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return call
if left:
    import fcntl
    for name in ("open", "fsync", "replace", "close"):
        setattr(os, name, counted(getattr(os, name)))
    fcntl.flock = counted(fcntl.flock)
    json.dump = counted(json.dump)
client = Client(json.load(open(document)))
with lock_memories(memory) as sent:
    devices = [Device(f"u{n}", bytes(32), UserMemory(sent, f"u{n}")) for n in range(40)]
    data = b"".join(client.report(service, [], one) for one in devices)
open(out, "wb").write(data)
"""


def start(folder: Path, service: str, out: str, stop: int = 0) -> subprocess.Popen[bytes]:
    """A program of its own that writes what it sends to ``out``."""
    words = [str(folder / "c.json"), str(folder / "sent.json"), service, str(folder / out), str(stop)]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *words], env=dict(os.environ))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.json").write_text(MADE.to_json())
    return tmp_path


@pytest.mark.slow
def test_programs_at_once_send_one_draw_of_each_user_and_service(folder: Path) -> None:
    services = ["profile", "orders"] * 3
    running = [start(folder, service, f"{at}.bin") for at, service in enumerate(services)]
    assert [one.wait(60) for one in running] == [0] * 6
    sent = [(folder / f"{at}.bin").read_bytes() for at in range(6)]
    assert len(set(sent[0::2])) == len(set(sent[1::2])) == 1
    kept = json.loads((folder / "sent.json").read_text())
    assert {user: len(own) for user, own in kept.items()} == {f"u{n}": 3 for n in range(USERS)}  # two and the design
    assert stat.S_IMODE((folder / "sent.json").stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_program_killed_before_any_step_has_sent_nothing_that_is_forgotten(folder: Path) -> None:
    left, stop, killed = b"", 0, 0
    while True:
        stop += 1
        out = folder / f"{stop}.bin"
        status = start(folder, "orders", out.name, stop).wait(60)
        if out.exists():
            left = left or out.read_bytes()
            assert out.read_bytes() == left  # whatever left is sent again as it was
        assert not left or json.loads((folder / "sent.json").read_text())
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 7  # lock, file, write, file on disk, renamed, folder on disk, ..
    assert left


def test_without_the_lock_two_draws_are_seen() -> None:
    """The planted fault: a memory that is read before another program has written."""
    client, first, second = Client(json.loads(MADE.to_json())), {}, {}  # type: ignore[var-annotated]
    sent = {client.report("orders", [], Device("u", bytes(32), UserMemory(own, "u"))) for own in (first, second)}
    assert len(sent) == 2


def test_a_report_is_on_the_disk_before_the_lock_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noting(name: str) -> None:
        real = getattr(os, name)
        monkeypatch.setattr(module.os, name, lambda *given, **named: (seen.append(name), real(*given, **named))[1])

    real_lock = module.fcntl.flock
    monkeypatch.setattr(module.fcntl, "flock", lambda *given: (seen.append("lock"), real_lock(*given))[1])
    for name in ("fsync", "replace", "close"):
        noting(name)
    FileMemory(tmp_path / "sent.json", "u").setdefault("a", b"1")
    assert seen == ["lock", "fsync", "replace", "fsync", "close", "close"]  # the lock is closed last


def test_a_memory_that_was_readable_by_others_is_not_after_the_next_report(tmp_path: Path) -> None:
    path = tmp_path / "sent.json"
    path.write_text('{"u": {"a": "01"}}')
    path.chmod(0o644)
    (tmp_path / ".sent.json.new").write_text("left by a program that was killed")
    memory = FileMemory(path, "u")
    assert (memory.get("a"), memory.setdefault("a", b"2"), memory.setdefault("b", b"3")) == (b"\1", b"\1", b"3")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_names_of_one_file_are_one_memory_and_what_one_file_has_the_other_gets(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "sent.json")
    FileMemory(tmp_path / "link.json", "u").setdefault("a", b"1")
    assert FileMemory(tmp_path / "sent.json", "u").get("a") == b"1"
    FileMemory(tmp_path / "other.json", "u").setdefault("a", b"2")
    with lock_memories(tmp_path / "sent.json", tmp_path / "other.json") as sent:
        assert UserMemory(sent, "u").setdefault("a", b"3") == b"1"  # the first file's
        UserMemory(sent, "v").setdefault("a", b"4")
    assert [FileMemory(tmp_path / name, "v").get("a") for name in ("sent.json", "other.json")] == [b"4", b"4"]


def test_nothing_is_kept_of_a_block_that_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with lock_memories(tmp_path / "sent.json") as sent:
            UserMemory(sent, "u").setdefault("a", b"1")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert FileMemory(tmp_path / "sent.json", "u").get("a") is None


@pytest.mark.parametrize("text", ["{", '{"u": 3}', '{"u": {"a": "zz"}}', '{"u": {"a": 3}}', "9" * 5_000, "[" * 9_999])
def test_a_file_that_is_not_a_memory_is_named_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sent.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"sent\.json is not a file of sent reports"):
        FileMemory(path, "u").setdefault("a", b"1")
    assert path.read_text() == text


def test_a_device_needs_a_memory() -> None:
    with pytest.raises(TypeError, match="memory"):
        Device("u", bytes(32))  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="pay twice"):
        Device("u", bytes(32), None)  # type: ignore[arg-type]


def test_threads_of_one_device_send_one_draw() -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier, get_ident

    together, client, drew = Barrier(2), Client(json.loads(MADE.to_json())), set[int]()

    def source(n: int) -> bytes:
        if get_ident() not in drew:
            drew.add(get_ident())
            together.wait(20)  # both have looked, and found nothing
        return os.urandom(n)

    device = Device("u", bytes(32), {}, source)
    with ThreadPoolExecutor(2) as threads:
        sent = {one.result() for one in [threads.submit(client.report, "profile", [], device) for _ in range(2)]}
    assert len(sent) == 1
