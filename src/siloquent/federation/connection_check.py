"""The steps of ``siloquent federation check``; the first failed step shows where the problem is."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from siloquent.errors import NotAllowed, ProtocolError, SiloquentError
from siloquent.federation.identity.bundle import Bundle
from siloquent.federation.identity.certificates import FAIL_DAYS, WARN_DAYS
from siloquent.federation.transport import HttpTransport
from siloquent.fixes import FixLike, run

CONNECT_S = 5.0
MAX_GAP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One step: the test, its result, and the fix."""

    what: str
    state: Literal["good", "warn", "bad"]
    found: str
    fix: FixLike = ""


def check(bundle: Bundle) -> Iterator[CheckResult]:
    """Check certificate, DNS, TCP, TLS and the relay's answer; stop at the first failure."""
    for step in (_certificate, _roster, _dns, _tcp, _tls, _answer):
        tried = _run_safely(step, bundle)
        yield tried
        if tried.state == "bad":
            return


def check_certificate_days(bundle: Bundle) -> CheckResult:
    """Check how long the role's certificate lasts: warn from 14 days, fail from 3."""
    return _certificate(bundle)


def _run_safely(step: Callable[[Bundle], CheckResult], bundle: Bundle) -> CheckResult:
    try:
        return step(bundle)
    except SiloquentError as refused:
        return CheckResult(step.__name__.strip("_"), "bad", refused.detail, refused.remedy)


def _certificate(bundle: Bundle) -> CheckResult:
    days = bundle.read_certificate().days_left
    state: Literal["good", "warn", "bad"] = "bad" if days <= FAIL_DAYS else "warn" if days <= WARN_DAYS else "good"
    fix: FixLike = "" if state == "good" else run("federation renew", "--bundle", bundle.folder)
    return CheckResult("certificate", state, f"{bundle.kind} {bundle.name}, {days:.0f} days left", fix)


def _roster(bundle: Bundle) -> CheckResult:
    roster = bundle.roster
    return CheckResult(
        "roster", "good", f"{roster.name}, version {roster.version}, {len(roster.roles)} roles: {roster.words}"
    )


def _dns(bundle: Bundle) -> CheckResult:
    try:
        found = socket.getaddrinfo(bundle.roster.host, bundle.roster.port, type=socket.SOCK_STREAM)
    except OSError:
        return CheckResult("dns", "bad", f"{bundle.roster.host} has no address", "correct relay in the operator's file")
    return CheckResult("dns", "good", f"{bundle.roster.host} is {found[0][4][0]}")


def _tcp(bundle: Bundle) -> CheckResult:
    where = (bundle.roster.host, bundle.roster.port)
    try:
        socket.create_connection(where, CONNECT_S).close()
    except OSError:
        return CheckResult(
            "tcp", "bad", f"could not connect to {bundle.roster.relay}", run("relay run", "--bundle", "DIR")
        )
    return CheckResult("tcp", "good", f"{bundle.roster.relay} answers")


def _tls(bundle: Bundle) -> CheckResult:
    context = bundle.build_client_context()
    try:
        with (
            socket.create_connection((bundle.roster.host, bundle.roster.port), CONNECT_S) as plain,
            context.wrap_socket(plain, server_hostname=bundle.roster.host) as tls,
        ):
            return CheckResult("tls", "good", f"{tls.version()}, the relay's certificate is this federation's")
    except ssl.SSLCertVerificationError as refused:
        return CheckResult("tls", "bad", f"the relay's certificate: {refused.verify_message}", "the operator renews it")
    except OSError as broken:
        return CheckResult(
            "tls", "bad", f"no TLS 1.3: {type(broken).__name__}", "check the proxies and firewalls in between"
        )


def _answer(bundle: Bundle) -> CheckResult:
    """Check that the relay accepts this role's certificate: a refusal shows only now."""
    if bundle.kind == "relay":
        return CheckResult("answer", "good", "this is the relay's own bundle")
    start = time.monotonic()
    with closing(HttpTransport(bundle)) as transport:
        try:
            transport.fetch_next(2**62, 0)
        except (ProtocolError, NotAllowed) as refused:
            causes = "revoked, of another CA, or a roster that the relay does not have yet"
            told = f"the relay refuses {bundle.name}: {causes} [{refused.code}]"
            return CheckResult("answer", "bad", told, run("federation accept", "ROSTER", "--bundle", bundle.folder))
        apart, took = compute_clock_skew(transport.date), 1000 * (time.monotonic() - start)
    if apart > MAX_GAP_SECONDS:
        return CheckResult("answer", "warn", f"the relay's clock and ours are {apart:.0f} s apart", "set the clock")
    return CheckResult("answer", "good", f"the relay knows {bundle.name}; {took:.0f} ms")


def compute_clock_skew(date: str) -> float:
    """Return the difference between the clock that wrote ``date`` (an HTTP header) and ours; 0 if it is unreadable.

    >>> compute_clock_skew("Thu, 01 Jan 1970 00:00:00 GMT") > 10**9
    True
    """
    try:
        return abs(parsedate_to_datetime(date).timestamp() - time.time())
    except ValueError:
        return 0.0
