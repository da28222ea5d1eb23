"""The relay's process: uvicorn over mutual TLS 1.3, passing the certificate's name to the routes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

from siloquent.errors import NotAllowed, ProtocolError
from siloquent.federation.identity.bundle import CA, ROSTER, TLS, TLS_KEY, Bundle, read_small
from siloquent.federation.identity.certificates import parse_uri_name
from siloquent.federation.identity.roster import Roster, read_roster
from siloquent.federation.relay.app import Relay, watch_app
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.relay.store import RelayLimits, RelayStore
from siloquent.fixes import run
from siloquent.foreign.addresses import address_of
from siloquent.foreign.connections import build_limited_protocol, prepare_process

if TYPE_CHECKING:
    import uvicorn

IDLE_S, GRACE_S = 75, 1
SWEEP_S = 3600.0
MAX_HEADERS = 8192
_log = logging.getLogger("siloquent.relay")
MAX_CONNECTIONS, MAX_CONNECTIONS_OF_A_ROLE = 512, 16


class CurrentRoster:
    """The roster as it is on disk now: a revoked role is refused as soon as its operator installs the file."""

    def __init__(self, bundle: Bundle) -> None:
        self._folder, self._roster, self._stamp = bundle.folder, bundle.roster, 0

    def admit(self, kind: str, name: str, serial: str) -> str:
        """Return the role of a certificate.

        Raises:
            ProtocolError: ``certificate_refused``: revoked.
            NotAllowed: not a role of the roster.
        """
        roster = self._read_current()
        if serial in roster.revoked:
            raise ProtocolError("certificate_refused", role=name)
        for role in roster.roles:
            if (role.name, role.kind) == (name, kind) and kind != "relay":
                return name
        raise NotAllowed("The roster knows no such role.", fix=run("federation accept", "roster.json"))

    def list_members(self) -> frozenset[str]:
        """Return the names of the roles that may be members of a session."""
        roster = self._read_current()
        return frozenset(role.name for role in roster.roles if role.kind != "relay")

    def _read_current(self) -> Roster:
        stamp = (self._folder / ROSTER).stat().st_mtime_ns
        if stamp != self._stamp:
            self._roster = read_roster(read_small(self._folder / ROSTER), read_small(self._folder / CA))
            self._stamp = stamp
        return self._roster


def build_server_context(bundle: Bundle) -> ssl.SSLContext:
    """Build the TLS 1.3 context that accepts only certificates of this federation's CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=bundle.folder / CA)
    context.load_cert_chain(bundle.folder / TLS, bundle.folder / TLS_KEY)
    return context


def read_peer(transport: Any) -> tuple[str, str, str]:
    """Return kind, name and serial number in a connection's certificate; empty strings if it is not one of ours."""
    certificate = transport.get_extra_info("peercert") or {}
    for kind, value in certificate.get("subjectAltName", ()):
        who = parse_uri_name(value) if kind == "URI" else None
        if who is not None:
            return (*who, format(int(certificate["serialNumber"], 16), "x"))
    return "", "", ""


def make_server(bundle: Bundle, relay: Relay, host: str, port: int) -> uvicorn.Server:
    """Build the server of the relay's routes; ``server.run()`` blocks."""
    import uvicorn

    # uvicorn does not pass the certificate on; values in its state reach the routes as ``request.state``.
    protocol = build_limited_protocol(
        lambda transport: relay.peer_of(*read_peer(transport)),
        max_each=MAX_CONNECTIONS_OF_A_ROLE,
        max_all=MAX_CONNECTIONS,
        state=lambda transport: {"peer": read_peer(transport)},
        tls=build_server_context(bundle),
        arriving=address_of,
    )
    config = uvicorn.Config(
        relay.build_app(),
        host=host,
        port=port,
        http=protocol,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,  # waiting receivers reconnect by themselves; nothing is lost
        limit_concurrency=MAX_CONNECTIONS + 1,
        h11_max_incomplete_event_size=MAX_HEADERS,
        backlog=prepare_process(MAX_CONNECTIONS, _log.name),
    )
    return uvicorn.Server(config)


def run_relay(
    bundle: Bundle,
    *,
    host: str = "",
    port: int = 0,
    watch_port: int = 0,
    limits: RelayLimits | None = None,
    rates: RelayRates | None = None,
) -> None:
    """Serve until the process is told to stop; everything answered with 201 is durable.

    Args:
        host, port: The address to listen on; by default the roster's.
        watch_port: A loopback port for ``/healthz`` and ``/metrics``; none if 0.
    """
    import uvicorn

    with closing(RelayStore(bundle.state / "relay.sqlite", limits=limits)) as store:
        roster = CurrentRoster(bundle)
        relay = Relay(store, roster.admit, roster.list_members, rates)
        server = make_server(bundle, relay, host or bundle.roster.host, port or bundle.roster.port)
        stop = threading.Event()
        sweeper = threading.Thread(target=_sweep, args=(store, stop), daemon=True)
        sweeper.start()
        if watch_port:
            config = uvicorn.Config(watch_app(store, relay), host="127.0.0.1", port=watch_port, log_level="warning")
            watch = uvicorn.Server(config)
            threading.Thread(target=lambda: asyncio.run(watch.serve()), daemon=True).start()
        server.run()
        stop.set()
        sweeper.join()


def _sweep(store: RelayStore, stop: threading.Event) -> None:
    while True:  # also at the start: a relay that restarts daily must still delete expired data
        try:
            store.sweep()
        except Exception as failed:  # allowed: a locked file or full disk today must not end the sweeping for ever
            _log.warning("old messages could not be forgotten: %s", failed)
        if stop.wait(SWEEP_S):
            return
