"""``siloquent serve`` as a process of its own, behind nginx or Caddy with the configuration that we deliver."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from forked import build_command
from siloquent.server.access.tokens import Tokens
from siloquent.server.store import Store

DEPLOY = Path(__file__).parents[2] / "deploy"
NGINX = """
user root;
worker_rlimit_nofile {files};
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    set_real_ip_from 127.0.0.0/8;
    real_ip_header X-Made-Up-Address;
    include {folder}/site.conf;
}}
"""
CADDY = "{\n\tadmin off\n\tauto_https disable_redirects\n"


def program(proxy: str) -> str | None:
    """Where a proxy's program is; Debian keeps nginx off the path of those who are not root."""
    return shutil.which(proxy, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass(frozen=True)
class Proxied:
    """A proxy that runs, and the server behind it."""

    proxy: str
    workspace: Path
    port: int
    behind: int
    certificate: Path
    texts: dict[str, str]
    server: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """The proxy's address."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def trust(self) -> ssl.SSLContext:
        """What a client trusts."""
        return ssl.create_default_context(cafile=self.certificate)

    def client(self, name: str = "", *, address: str = "127.0.0.1", **headers: str) -> httpx.Client:
        """A client that speaks for ``name``, or for nobody, through the proxy."""
        token = {"Authorization": f"Bearer {self.texts[name]}"} if name else {}
        transport = httpx.HTTPTransport(verify=self.trust, local_address=address)
        return httpx.Client(base_url=self.address, headers={**token, **headers}, timeout=60, transport=transport)

    def say(self, sent: bytes, *, seconds: float = 5, address: str = "127.0.0.1") -> bytes:
        """What one TLS connection from ``address`` answers to these bytes, until it closes or falls silent."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=seconds, source_address=(address, 0)) as plain,
            self.trust.wrap_socket(plain, server_hostname="127.0.0.1") as channel,
        ):
            heard = b""
            with suppress(OSError):
                channel.sendall(sent)
                while block := channel.recv(65_536):
                    heard += block
            return heard


@contextmanager
def behind(proxy: str, workspace: Path, folder: Path) -> Iterator[Proxied]:
    """Run a server of ``workspace`` and ``proxy`` in front of it; tokens for an owner, two analysts and an operator."""
    folder.mkdir()
    with closing(Store(workspace / "server.sqlite")) as store:
        tokens = Tokens(store)
        roles = {"owner": "owner", "ana": "analyst", "bo": "analyst", "watcher": "operator"}
        texts = {name: tokens.create(name, role) for name, role in roles.items()}
    port, inner = free_port(), free_port()
    chain = certificate(folder)
    wide = {"SILOQUENT_RATE_PER_SECOND": "1e6", "SILOQUENT_BURST": "1000000"}
    environment = {**os.environ, "SILOQUENT_TRUSTED_PROXY": "127.0.0.1", **wide}
    words = [*build_command(), "--workspace", str(workspace), "serve", "--port", str(inner)]
    with (
        subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as server,
        _running(_words(proxy, folder, port=port, inner=inner)) as front,
    ):
        made = Proxied(proxy, workspace, port, inner, chain, texts, server)
        try:
            _await(made, server, front)
            yield made
        finally:
            server.terminate()


def _words(proxy: str, folder: Path, *, port: int, inner: int) -> list[str]:
    found = program(proxy)
    assert found is not None
    if proxy == "nginx":
        site = (DEPLOY / "nginx.conf").read_text().replace("    listen [::]:443 ssl http2;\n", "")
        site = site.replace("listen 443", f"listen 127.0.0.1:{port}").replace("/etc/ssl/siloquent/", f"{folder}/")
        (folder / "site.conf").write_text(site.replace("127.0.0.1:8642", f"127.0.0.1:{inner}"))
        said = (DEPLOY.parent / "docs" / "how-to" / "deploy-a-server.md").read_text()
        most = {name: re.findall(rf"worker_{name} (\d+);", said)[0] for name in ("connections", "rlimit_nofile")}
        own = NGINX.format(folder=folder, connections=most["connections"], files=most["rlimit_nofile"])
        (folder / "nginx.conf").write_text(own if os.getuid() == 0 else own.replace("user root;\n", ""))
        return [found, "-p", str(folder), "-e", f"{folder}/nginx.log", "-c", f"{folder}/nginx.conf"]
    site = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:8642", f"127.0.0.1:{inner}")
    site = site.replace("{\n", CADDY, 1)
    tls = f"https://127.0.0.1:{port} {{\n\ttls {folder}/fullchain.pem {folder}/key.pem\n"
    (folder / "Caddyfile").write_text(site.replace("siloquent.example.org {\n", tls))
    return [found, "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


@contextmanager
def _running(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    home = {**os.environ, "HOME": str(Path(words[-1]).parent), "XDG_DATA_HOME": str(Path(words[-1]).parent)}
    with subprocess.Popen(words, env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as front:
        try:
            yield front
        finally:
            front.terminate()


def _await(made: Proxied, *processes: subprocess.Popen[bytes]) -> None:
    with made.client() as client:
        while True:
            with suppress(httpx.TransportError):
                if client.get("/healthz").status_code == 200:
                    return
            assert [one.poll() for one in processes] == [None] * len(processes), "it ended before it was ready"
            time.sleep(0.05)


def certificate(folder: Path) -> Path:
    """The file of a new certificate of 127.0.0.1; its key lies beside it as ``key.pem``."""
    chain = folder / "fullchain.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*words, "-keyout", str(folder / "key.pem"), "-out", str(chain)], check=True, capture_output=True)
    return chain


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
