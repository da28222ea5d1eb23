"""Server settings from ``[server]`` in siloquent.toml, ``SILOQUENT_*`` variables and flags; the last one wins."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from siloquent.errors import SchemaError, UnknownName
from siloquent.fixes import UseOption, build_fix, run
from siloquent.foreign.addresses import address_of, host_of
from siloquent.schema.workspace import read_workspace

PREFIX = "SILOQUENT_"
CATALOGUE = "catalogue"
"""The folder of a workspace that holds the offers of other silos."""
_FOLDER = re.compile(r"(?!\.)[A-Za-z0-9_.-]+(/(?!\.)[A-Za-z0-9_.-]+)*/")


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and addresses. Sizes are in bytes, times in the unit that ends the name.

    Attributes:
        trusted_proxy: The address of the reverse proxy trusted to report TLS and clients, or networks separated by
            commas; empty: none. If it is set, only the proxy and this machine are served.
        rate_per_second, burst: The request rate of one person, with all tokens.
        connections: The most open connections in total; ``connections_each``: of one address where there is no proxy,
            and open requests of one person, with all tokens, from anywhere, while more than half are free. A person may
            have a sixteenth of it while more than a quarter is free, and one after that.
        workers: Threads that read rows, and as many for each other kind of work.
        planners: Processes that price questions and jobs, each plan in ``plan_seconds`` of processor time and in
            ``plan_bytes`` of memory.
        running: The most answers, prices and other pieces of work of one person that wait or run, with all tokens;
            ``queue``: the most of all persons, shared as ``connections`` are.
        jobs: Jobs that run at once, each in ``job_bytes`` of memory for at most ``job_seconds``.
        sources: The sources that an owner may name over HTTP: folders of the workspace, ``postgres:NAME`` and
            ``spark:NAME`` (``postgres:``: all that siloquent.toml names). Files on the machine may name more.
        keep_replies_days, keep_jobs_days, keep_uploads_days, keep_releases_days, keep_denials_days: The days after
            which copies of answers, ended jobs, uploads that no table names, values of unshared releases, refusals and
            acts are deleted; 0: never. The ledger keeps every answer.
        bundle: The folder of the workspace's role in a federation, for the Sessions page; it need not exist.
        access_log: A file that gets one line of JSON per request, or ``-`` for standard error; empty: none.
        slot_counts_ms, slot_answers_ms: Answers leave at whole multiples of these, so that times do not depend on rows.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    tls_cert: str = ""
    tls_key: str = ""
    trusted_proxy: str = ""
    workers: int = 2
    planners: int = 2
    plan_seconds: float = 10.0
    plan_bytes: int = 4 * 2**30
    body_bytes: int = 16 * 2**20
    upload_bytes: int = 2**30
    text_bytes: int = 64 * 2**10
    connections: int = 512
    connections_each: int = 64
    rate_per_second: float = 10.0
    burst: int = 30
    running: int = 4
    queue: int = 64
    jobs: int = 2
    job_bytes: int = 4 * 2**30
    job_seconds: int = 24 * 3600
    answer_seconds: int = 30
    slot_counts_ms: int = 50
    slot_answers_ms: int = 250
    session_hours: int = 12
    access_log: str = ""
    sources: tuple[str, ...] = ("uploads/", "data/", "postgres:")
    keep_replies_days: int = 0
    keep_jobs_days: int = 0
    keep_uploads_days: int = 0
    keep_releases_days: int = 0
    keep_denials_days: int = 0
    bundle: str = "bundle"

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            least = 0 if one.name.startswith("keep_") else math.ulp(0)
            if isinstance(value, (int, float)) and not least <= value < 2**50:
                bound = "0 or more" if least == 0 else "above 0"
                raise SchemaError(
                    f"[server] {one.name} must be {bound}, not {value}.", fix=f"{one.name} = {one.default}"
                )
        for source in self.sources:
            if ":" not in source and not _FOLDER.fullmatch(source):
                raise SchemaError(
                    f"[server] sources must name folders of the workspace or databases, not {source[:60]!r}.",
                    fix='sources = ["uploads/", "data/", "postgres:"]',
                )
        if self.port >= 2**16:
            raise SchemaError(f"[server] port must be below 65536, not {self.port}.", fix="port = 8642")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SchemaError("[server] TLS needs a certificate and its key.", fix='tls_cert = "...", tls_key = "..."')
        self._parse_networks()
        if not (self.is_loopback or self.tls_cert or self.trusted_proxy):
            raise SchemaError(
                f"Without TLS the server listens only on this machine, not on {self.host}.",
                fix=build_fix(
                    UseOption("tls_cert", "FILE"),
                    " ",
                    UseOption("tls_key", "FILE"),
                    ", or trusted_proxy in [server] if a proxy ends TLS",
                ),
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in ("127.0.0.1", "::1", "localhost")

    def trusts(self, address: str) -> bool:
        """Return whether connections from ``address`` come through the proxy."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped  # an IPv4 client of a socket that listens for both
        return any(found in network for network in self._parse_networks())

    def hears(self, address: str) -> bool:
        """Return whether connections from ``address`` are accepted: behind a proxy, plain HTTP comes only by it."""
        if not self.trusted_proxy or self.tls_cert or address in ("", "127.0.0.1", "::1", "::ffff:127.0.0.1"):
            return True
        return self.trusts(address)

    def _parse_networks(self) -> list[IPv4Network | IPv6Network]:
        texts = [one.strip() for one in self.trusted_proxy.split(",") if one.strip()]
        try:
            return [ip_network(one) for one in texts]
        except ValueError:
            raise SchemaError(
                f"[server] trusted_proxy must be an address or a network, not {self.trusted_proxy[:60]!r}.",
                fix='trusted_proxy = "127.0.0.1"',
            ) from None

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the server by TLS, so that cookies may require it."""
        return bool(self.tls_cert or self.trusted_proxy)


def build_client_reader(settings: Settings) -> Callable[[Any], str]:
    """Return a function that maps a transport to its client's address; all are one where they come through a proxy."""
    return lambda transport: "" if settings.trusts(host_of(transport)) else address_of(transport)


def hears(settings: Settings) -> Callable[[Any], bool]:
    """Return a function that tells whether a transport is accepted."""
    return lambda transport: settings.hears(host_of(transport))


def read_settings(
    folder: Path, *, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of the workspace in ``folder``.

    Args:
        environment: Variables such as ``SILOQUENT_PORT`` (default: this process's).
        flags: The command line's settings; None means not given.
    Raises:
        SchemaError: a value has the wrong type or is invalid; UnknownName: no such setting (with suggestions).
    """
    environment = os.environ if environment is None else environment
    known = {one.name: type(one.default) for one in fields(Settings)}
    given: dict[str, Any] = {}
    for name, value in read_workspace(folder).server:
        if name not in known:
            raise UnknownName("setting in [server]", name, known, fix=run("serve", "--show"))
        given[name] = _convert_value(known[name], name, value)
    for name, kind in known.items():
        if (text := environment.get(PREFIX + name.upper())) is not None:
            given[name] = _convert_value(kind, PREFIX + name.upper(), text)
    given |= {name: value for name, value in (flags or {}).items() if value is not None}
    return replace(Settings(), **given)


def _convert_value(kind: type, name: str, value: Any) -> Any:
    if kind is tuple:
        return _parse_texts(name, value)
    try:
        if isinstance(value, bool) or ((kind is str) != isinstance(value, str) and not isinstance(value, str)):
            raise ValueError
        return kind(value)
    except (TypeError, ValueError):
        raise SchemaError(f"{name} must be {kind.__name__}, not {str(value)[:40]!r}.") from None


def _parse_texts(name: str, value: Any) -> tuple[str, ...]:
    """Return a list of texts; a variable separates them by commas."""
    found = [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise SchemaError(f"{name} must be a list of texts, not {str(value)[:40]!r}.")
    return tuple(found)
