"""Roles as processes: the relay, a worker, a party; and the decisions of a party's owner on waiting sessions."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.base.command import CommandBody, Options, register_command
from siloquent.cli.base.screen import LEFT
from siloquent.cli.federation.commands import BundleOption, find_session
from siloquent.documents.federation import build_decision_document, build_party_sessions_document, build_session_entry
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.federation.identity.bundle import Bundle
    from siloquent.federation.protocols import ProtocolRegistry

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="A session's id or a prefix of it.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    groups: dict[str, tuple[str, dict[str, CommandBody]]] = {
        "relay": ("Run the mailbox of a federation.", {"run": serve_relay}),
        "worker": ("Run a host that computes for others and holds no data.", {"run": serve_worker}),
        "party": (
            "Run a silo that answers sessions from its workspace.",
            {"run": serve_party, "list": list_party_sessions, "approve": approve_session, "refuse": refuse_session},
        ),
    }
    for name, (words, bodies) in groups.items():
        group = typer.Typer(help=words)
        for word, body in bodies.items():
            register_command(group, word, body)
        app.add_typer(group, name=name, rich_help_panel="Federation")


def serve_relay(
    options: Options,
    bundle: BundleOption = Path("bundle"),
    host: Annotated[str, typer.Option("--host", help="The address to listen on (default: the roster's).")] = "",
    port: Annotated[int, typer.Option("--port", help="The port (default: the roster's).")] = 0,
    metrics_port: Annotated[int, typer.Option("--metrics-port", help="Loopback port for /healthz, /metrics.")] = 0,
    rate: Annotated[float, typer.Option("--rate", help="The limit on requests per second of one role.")] = 50.0,
    burst: Annotated[float, typer.Option("--burst", help="The limit on requests in one burst.")] = 500.0,
    most_bytes: Annotated[int, typer.Option("--session-bytes", help="The limit on bytes stored per session.")] = 20
    * 10**9,
    unacknowledged: Annotated[
        int, typer.Option("--unacknowledged", help="The limit on messages queued between a sender and a receiver.")
    ] = 256,
    queued_bytes: Annotated[
        int, typer.Option("--queued-bytes", help="The limit on their bytes; a sender's to all receivers: 4 times that.")
    ] = 2**27,
) -> None:
    """Store and forward sealed messages until stopped. The relay needs an address that all roles can reach; it sees
    no content."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.relay.rates import RelayRates
    from siloquent.federation.relay.server import run_relay
    from siloquent.federation.relay.store import RelayLimits

    role = read_bundle(bundle)
    _require_kind(role, "relay")
    _greet(options, role, f"listening for {role.roster.relay}")
    limits = RelayLimits(
        session_bytes=most_bytes,
        unacknowledged=unacknowledged,
        queued_bytes=queued_bytes,
        sender_bytes=4 * queued_bytes,
    )
    rates = RelayRates(rate=rate, burst=burst)
    run_relay(role, host=host, port=port, watch_port=metrics_port, limits=limits, rates=rates)


def serve_worker(options: Options, bundle: BundleOption = Path("bundle")) -> None:
    """Serve sessions of the federation until stopped. A worker only makes outbound connections and resumes after a
    crash."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import serve

    role = read_bundle(bundle)
    _require_kind(role, "worker")
    walks = build_all_protocols()
    _greet(options, role, f"serves {', '.join(walks.list_names('worker'))}")
    with _catch_signals() as stop:
        serve(role, walks, stop)


def serve_party(options: Options, bundle: BundleOption = Path("bundle")) -> None:
    """Answer sessions from this workspace until stopped, as federation.toml or the owner allows."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.policy import read_policy
    from siloquent.federation.role_process import serve

    role = read_bundle(bundle)
    _require_kind(role, "party")
    with options.open_session() as session:
        policy = read_policy(session.workspace.folder)
    many = "1 rule" if len(policy.rules) == 1 else f"{len(policy.rules)} rules"
    by_hand = options.format_command("party", "list", "--bundle", str(bundle))
    rules = f"{many} in federation.toml" if policy.rules else f"every session needs approval: {by_hand}"
    _greet(options, role, rules)

    def desk() -> AbstractContextManager[Any]:
        return options.open_session()

    with _catch_signals() as stop:
        serve(role, build_all_protocols(), stop, open_desk=desk, policy=policy)


def list_party_sessions(options: Options, bundle: BundleOption = Path("bundle")) -> None:
    """List this party's sessions, those awaiting approval first."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import open_journal

    role = read_bundle(bundle)
    with open_journal(role) as journal:
        sessions = sorted(journal.list_sessions(), key=lambda known: known.state != "invited")
    document = build_party_sessions_document(role, sessions)
    if options.as_json:
        options.screen.write_document(document)
        return
    columns = [("session", LEFT), ("state", LEFT), ("task", LEFT), ("moderator", LEFT), ("tables", LEFT)]
    rows = [
        (one["session"][:12], one["state"], one["task"], one["moderator"], ", ".join(one["tables"]))
        for one in document["sessions"]
    ]
    options.screen.write_table(columns, rows)


def approve_session(
    options: Options,
    session: SessionArgument,
    bundle: BundleOption = Path("bundle"),
    yes: Annotated[bool, typer.Option("--yes", help="Agree without confirmation.")] = False,
) -> None:
    """Show a session's moderator, request, price and what each role learns; then approve it."""
    _decide(options, bundle, session, "approved", is_sure=yes)


def refuse_session(options: Options, session: SessionArgument, bundle: BundleOption = Path("bundle")) -> None:
    """Refuse a session. The moderator receives the code "policy" and no reason."""
    _decide(options, bundle, session, "refused", is_sure=True)


def build_all_protocols() -> ProtocolRegistry:
    """Return the protocols of all tasks, and the workers' sum with its own noise source."""
    from siloquent.federation.measure import add_full_noise
    from siloquent.federation.protocols import ProtocolRegistry
    from siloquent.federation.sums import SERVICE, build_worker_part
    from siloquent.profile.federated import add_protocols
    from siloquent.share.federated import add_protocols as add_sharing
    from siloquent.sketch.federated import add_protocols as add_sketching

    walks = ProtocolRegistry()
    walks.add("worker", SERVICE, build_worker_part(add_full_noise))
    add_protocols(walks)
    add_sharing(walks)
    add_sketching(walks)
    return walks


def _decide(options: Options, bundle: Path, asked: str, decision: str, *, is_sure: bool) -> None:
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import open_journal

    role = read_bundle(bundle)
    with open_journal(role) as journal:
        known = find_session(journal.list_sessions(), asked, bundle)
        _require_undecided(options, known, bundle)
        if decision == "approved" and not options.as_json:
            _show(options, build_session_entry(role, known))
        if not is_sure and not (options.screen.can_ask and options.screen.confirm("Agree to this session?")):
            raise RequestError("The session was not approved.", fix=options.format_rerun("--yes"))
        if not journal.decide(known.id, decision):  # decided in the meantime
            _require_undecided(options, find_session(journal.list_sessions(), known.id, bundle), bundle)
    if options.as_json:
        options.screen.write_document(build_decision_document(known.id, decision))
    options.screen.note(f"{known.id[:12]}: {decision}; the running party continues.")


def _require_undecided(options: Options, known: Any, bundle: Path) -> None:
    """Refuse a session that is already decided by a person, a rule or the protocol.

    Raises:
        RequestError: it is decided; the message names its current state.
    """
    if known.decided or known.state != "invited":
        now = known.decided if known.state == "invited" else known.state
        fix = options.format_command("party", "list", "--bundle", str(bundle))
        raise RequestError(f"This session is already {now}.", fix=fix)


def _show(options: Options, told: dict[str, Any]) -> None:
    words = {k: ", ".join(v) if isinstance(v, list) else str(v or "") for k, v in told.items()}
    options.screen.write_facts([(key.replace("_", " "), value) for key, value in words.items() if value])


def _require_kind(role: Bundle, kind: str) -> None:
    if role.kind != kind:
        raise RequestError(f"{role.folder} is the bundle of a {role.kind}.", fix=f"--bundle DIR of a {kind}")


def _greet(options: Options, role: Bundle, told: str) -> None:
    options.screen.note(f"{role.kind} {role.name} of {role.roster.name}: {told}. Press Ctrl-C to stop.")
    for warning in role.list_warnings():
        options.screen.warn(warning)


@contextmanager
def _catch_signals() -> Iterator[threading.Event]:
    """Yield an event that Control-C or a TERM signal sets, so that a role ends between two transactions."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
