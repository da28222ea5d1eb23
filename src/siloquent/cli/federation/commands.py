"""Federation commands of the operator and the owners: bundles, rosters, checks, and the state of sessions."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT
from siloquent.cli.federation.output import show_status
from siloquent.documents.federation import (
    build_connection_document,
    build_roster_document,
    build_session_list_document,
    build_session_verdict_document,
    build_status_document,
)
from siloquent.errors import NotAllowed, RequestError, UnknownName
from siloquent.fixes import build_fix, run

if TYPE_CHECKING:
    from siloquent.federation.identity.roster import Roster

BundleOption = Annotated[Path, typer.Option("--bundle", metavar="DIR", help="The role's folder.")]
CaOption = Annotated[Path, typer.Option("--ca", metavar="DIR", help="The operator's folder with the CA.")]
OutFile = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The output file or folder.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The role's name: a-z, 0-9 and -.")]
SEEN_ALL = "This command handled every private key: for trials only. Otherwise use request, sign and accept."


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Set up and monitor a federation of silos.")
    for name, body in (
        ("init", init), ("request", request_certificate), ("sign", sign), ("accept", accept), ("renew", renew),
        ("revoke", revoke), ("check", check), ("status", report_status), ("verify", verify),
    ):  # fmt: skip
        register_command(group, name, body)
    app.add_typer(group, name="federation", rich_help_panel="Federation")


def init(
    options: Options,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="TOML: name, relay, role = [{ name, kind, owner }, ...].")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the bundles.")] = Path(
        "bundles"
    ),
) -> None:
    """Create a complete federation for trials: a CA, a roster, and one bundle per role."""
    from siloquent.federation.identity import operator

    if not file.is_file():
        raise RequestError(f"File {file} does not exist.", fix=operator.DESCRIBED)
    roster = operator.init(operator.read_description(file), output)
    many = "1 bundle" if len(roster.roles) == 1 else f"{len(roster.roles)} bundles"
    _show_roster(options, roster, f"{many} and the operator's folder ca are in {output}.")
    options.screen.warn(SEEN_ALL)


def request_certificate(
    options: Options,
    name: Name,
    kind: Annotated[str, typer.Option("--role", metavar="KIND", help="party, worker, moderator or relay.")],
    owner: Annotated[str, typer.Option("--owner", help="The owner of the role, visible to all members.")],
    bundle: BundleOption = Path("bundle"),
    output: OutFile = Path("request.json"),
) -> None:
    """Make a role's keys locally, and a request for the operator to sign. No private key leaves the bundle."""
    from siloquent.federation.identity import operator
    from siloquent.federation.identity.roster import KINDS

    if kind not in KINDS:
        raise RequestError(f"--role must be one of {', '.join(KINDS)}, not {kind!r}.", fix="--role party")
    made = operator.create_request(name, next(known for known in KINDS if known == kind), owner, bundle)
    output.write_bytes(made + b"\n")
    then = f"siloquent federation accept ANSWER --bundle {shlex.quote(str(bundle))}"
    options.screen.note(f"Keys are in {bundle}. Send {output} to the operator, then run: {then}")


def sign(
    options: Options,
    requests: Annotated[list[Path], typer.Argument(metavar="REQUEST ...", help="Request files of owners.")],
    ca: CaOption = Path("ca"),
    new: Annotated[
        Path | None,
        typer.Option("--new", metavar="FILE", help="Start a federation: its TOML file with name and relay."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder for the answers.")] = Path(
        "."
    ),
) -> None:
    """Sign the owners' requests: write an answer file for each, and the next version of the roster."""
    from siloquent.federation.identity import operator
    from siloquent.federation.identity.bundle import read_small

    authority = operator.create_authority(operator.read_description(new), ca) if new else operator.open_authority(ca)
    authority, answers = operator.sign(authority, [read_small(path) for path in requests])
    output.mkdir(parents=True, exist_ok=True)
    for name, answer in answers.items():
        (output / f"answer-{name}.json").write_bytes(answer + b"\n")
    many = "1 answer is" if len(answers) == 1 else f"{len(answers)} answers are"
    _show_roster(options, authority.roster, f"{many} in {output}; the roster is {ca}/roster.json.")


def accept(
    options: Options,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The operator's answer, or a newer roster.json.")],
    bundle: BundleOption = Path("bundle"),
    words: Annotated[str | None, typer.Option("--words", metavar="WORDS", help="The operator's eight words.")] = None,
) -> None:
    """Accept the operator's answer or roster after comparing its eight words over a separate channel."""
    from siloquent.federation.identity import operator
    from siloquent.federation.identity.bundle import read_small

    text = read_small(file)
    roster = operator.read_offer(text, bundle)
    if words is None and options.screen.can_ask:  # never with --json
        _show_roster(options, roster, "")
        if not options.screen.confirm("Do these match the operator's eight words?"):
            raise NotAllowed("Nothing was accepted.", fix="compare the words with the operator by telephone")
    elif words is None or _normalise_words(words) != roster.words:
        there = shlex.join(["siloquent", "federation", "accept", str(file), "--bundle", str(bundle)])
        told = "--words is missing." if words is None else "The given words do not match the roster."
        raise NotAllowed(told, fix=f"{there} --words WORDS, with the operator's eight words")
    taken = operator.accept(text, bundle)
    if options.as_json:
        options.screen.write_document(build_roster_document(taken.roster))
    options.screen.note(f"{taken.name} is a {taken.kind} of {roster.name}, roster version {roster.version}.")


def renew(options: Options, bundle: BundleOption = Path("bundle"), output: OutFile = Path("request.json")) -> None:
    """Request a new certificate with a new TLS key; the role keeps its other keys."""
    from siloquent.federation.identity import operator

    output.write_bytes(operator.renew(bundle) + b"\n")
    options.screen.note(
        f"Send {output} to the operator, then run: siloquent federation accept ANSWER --bundle {bundle}"
    )


def revoke(options: Options, name: Name, ca: CaOption = Path("ca")) -> None:
    """Remove a role from the roster. The relay rejects the role once it accepts the new roster; do that immediately."""
    from siloquent.federation.identity import operator

    authority = operator.open_authority(ca)
    names = [role.name for role in authority.roster.roles]
    if name not in names:
        unknown = UnknownName("role", name, names)
        unknown.fix = options.format_command("federation", "revoke", unknown.near or "NAME", "--ca", str(ca))
        raise unknown
    authority = operator.revoke(authority, name)
    told = (
        f"Removed {name}. Send {ca}/roster.json to all roles, to the relay first, and run: siloquent federation "
        "accept roster.json"
    )
    _show_roster(options, authority.roster, told)


def check(options: Options, bundle: BundleOption = Path("bundle")) -> int:
    """Test the connection to the relay step by step, and show which step fails."""
    from siloquent.federation.connection_check import check as tried
    from siloquent.federation.identity.bundle import read_bundle

    steps = list(tried(read_bundle(bundle)))
    document = build_connection_document(steps, language=options.language)
    if options.as_json:
        options.screen.write_document(document)
    else:
        marks = {"good": "ok", "warn": "soon", "bad": "FIX"}
        rows = [(marks[s.state], s.what, s.found, build_fix(s.fix).render(options.language)) for s in steps]
        options.screen.write_table([("", LEFT), ("step", LEFT), ("found", LEFT), ("fix", LEFT)], rows)
    return 0 if document["ok"] else 6


def report_status(
    options: Options,
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="A session's id or a prefix of it.")
    ] = None,
    bundle: BundleOption = Path("bundle"),
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every two seconds until the session ends.")] = False,
) -> None:
    """Show each role's step in a session, and which roles it waits for; without a session, list this role's
    sessions."""
    from contextlib import closing

    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import open_journal
    from siloquent.federation.transport import HttpTransport

    role = read_bundle(bundle)
    with open_journal(role) as journal, closing(HttpTransport(role)) as transport:
        if session is None:
            _show_sessions(options, journal.list_sessions())
            return
        known = find_session(journal.list_sessions(), session, bundle)
        while True:
            told = transport.look(known.id)
            if options.as_json:
                options.screen.write_document(build_status_document(told, role.roster))
            else:
                show_status(options.screen, told, role.roster)
            if not watch or told["state"] != "open":
                return
            time.sleep(2)


def verify(
    options: Options,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id or a prefix of it.")],
    bundle: BundleOption = Path("bundle"),
) -> int:
    """Recompute a session's transcript from the headers stored by this role, and verify every role's signed head."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.messages.verification import verify_session
    from siloquent.federation.role_process import open_journal

    role = read_bundle(bundle)
    with open_journal(role) as journal:
        verdict = verify_session(role, journal, find_session(journal.list_sessions(), session, bundle).id)
    if options.as_json:
        options.screen.write_document(build_session_verdict_document(verdict))
    else:
        options.screen.write_facts(
            [("session", verdict.session), ("headers", str(verdict.headers)), ("head", verdict.head),
             ("heads signed by", ", ".join(verdict.signed) or "nobody")]
        )  # fmt: skip
        for fault in verdict.faults:
            options.screen.warn(fault)
    return 6 if verdict.faults else 0


def find_session(sessions: list[Any], asked: str, bundle: Path) -> Any:
    """Return the one session of ``bundle`` whose id has this prefix.

    Raises:
        RequestError: there is none, or more than one.
    """
    found = [known for known in sessions if known.id.startswith(asked)]
    if len(found) != 1:
        told = "no session" if not found else f"{len(found)} sessions"
        fix = run("federation status", "--bundle", bundle)
        raise RequestError(f"This role knows {told} {asked!r}.", fix=fix)
    return found[0]


def _normalise_words(words: str) -> str:
    """Return typed words, separated by blanks or dashes, in the roster's form."""
    return "-".join(words.lower().replace("-", " ").split())


def _show_sessions(options: Options, sessions: list[Any]) -> None:
    if options.as_json:
        options.screen.write_document(build_session_list_document(sessions))
        return
    columns = [("session", LEFT), ("state", LEFT), ("task", LEFT), ("moderator", LEFT), ("ended by", LEFT)]
    rows = [
        (s.id[:12], s.state, str(s.invitation.get("invitation", {}).get("task", "")), s.moderator,
         " ".join(filter(None, (s.code, s.by_role, s.step))))
        for s in sessions
    ]  # fmt: skip
    options.screen.write_table(columns, rows)


def _show_roster(options: Options, roster: Roster, told: str) -> None:
    if options.as_json:
        options.screen.write_document(build_roster_document(roster))
        return
    rows = [(role.name, role.kind, role.owner) for role in roster.roles]
    options.screen.write_table([("role", LEFT), ("kind", LEFT), ("owner", LEFT)], rows)
    options.screen.write_facts([("roster", f"{roster.name}, version {roster.version}"), ("words", roster.words)])
    for warning in roster.list_warnings():
        options.screen.warn(warning)
    if told:
        options.screen.note(told)
