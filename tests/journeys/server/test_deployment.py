"""The files of deploy/: units that systemd takes, an image, a server that says why it does not start."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from journeys.served import clinic_workspace
from siloquent.cli.app import app
from siloquent.errors import SchemaError
from siloquent.server.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
SILOQUENT = Path(sys.executable).with_name("siloquent")


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_a_server_whose_port_is_taken_says_so_and_does_not_start(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "clinic")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run("--workspace", str(folder), "serve", "--port", str(port))
    assert (code, f"cannot listen on 127.0.0.1, port {port}" in said, "--port" in said) == (2, True, True), said
    code, said = run("--workspace", str(folder), "serve", "--host", "::1", "--port", str(port), "--show")
    assert code == 0, said


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", sorted(one.name for one in DEPLOY.glob("siloquent*.*")))
def test_systemd_takes_each_unit(tmp_path: Path, unit: str) -> None:
    for one in DEPLOY.glob("siloquent*.*"):  # a timer is checked with what it starts
        (tmp_path / one.name).write_text(one.read_text().replace("/opt/siloquent/bin/siloquent", str(SILOQUENT)))
    said = subprocess.run(["systemd-analyze", "verify", str(tmp_path / unit)], capture_output=True, text=True)
    assert (said.returncode, unit in said.stderr) == (0, False), said.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", ["siloquent.service", "siloquent-backup.service"])
def test_units_are_confined(unit: str) -> None:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", str(DEPLOY / unit)]
    said = subprocess.run(words, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-300:] + said.stderr[-300:]


def test_an_image_is_built_of_the_package_alone_and_says_how_it_is() -> None:
    container = (DEPLOY / "Containerfile").read_text()
    assert "HEALTHCHECK" in container
    ignored = (DEPLOY.parent / ".containerignore").read_text().splitlines()
    assert ignored[1] == "*"
    networks = container.partition("SILOQUENT_TRUSTED_PROXY=")[2].split()[0]
    inside = Settings(host="0.0.0.0", trusted_proxy=networks)
    assert all(inside.hears(one) for one in ("10.88.0.1", "172.17.0.1", "127.0.0.1", "::ffff:10.1.2.3"))
    assert not any(inside.hears(one) for one in ("203.0.113.9", "::ffff:203.0.113.9", "2001:db8::1", "no address"))
    for wrong in ("10.0.0.0/33", "proxy.example.org", "10.0.0.1/8"):
        with pytest.raises(SchemaError, match="trusted_proxy"):
            Settings(host="0.0.0.0", trusted_proxy=wrong)


@pytest.mark.slow
def test_behind_a_proxy_plain_http_is_taken_from_it_and_this_machine_alone(tmp_path: Path) -> None:
    """Another machine's connection is closed before a byte is read: 127.0.0.2 stands for the proxy and for others."""
    folder = clinic_workspace(tmp_path / "w")
    for proxy, heard in (("127.0.0.2", True), ("127.0.0.3,10.0.0.0/8", False)):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["--workspace", str(folder), "serve", "--host", "0.0.0.0", "--port", str(port)]
        environment = {**os.environ, "SILOQUENT_TRUSTED_PROXY": proxy}
        with subprocess.Popen(
            [sys.executable, "-m", "siloquent", *words], env=environment, stderr=subprocess.DEVNULL
        ) as server:
            try:
                while answers(port, "127.0.0.1") is None:
                    time.sleep(0.05)
                assert (answers(port, "127.0.0.2") == 200) is heard
            finally:
                server.terminate()


def answers(port: int, source: str) -> int | None:
    """The status of /healthz for a client at ``source``; None if it is not heard."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
