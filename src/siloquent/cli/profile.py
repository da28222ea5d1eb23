"""Profiles: dependencies of one table, or of several silos that show each other no row; what is shown is said first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.commands import Options, command
from siloquent.cli.places import again_as
from siloquent.cli.problems import Interrupted
from siloquent.cli.profile_files import names_of
from siloquent.errors import ProtocolError, ReleaseError, RequestError

if TYPE_CHECKING:
    from siloquent.federation.journal import Journal
    from siloquent.profile import FDReport, ProfileSpec, Terms

Spec = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="Table, columns, kinds, max_lhs, protocol.")]
Report = Annotated[str, typer.Argument(metavar="REPORT", help="A release's id, or a report's file or folder.")]
Workers = Annotated[int, typer.Option("--workers", help="How many workers stand between the parties.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Functional dependencies, of one table or over several silos.")
    for name, body in (
        ("local", local),
        ("plan", plan),
        ("run", run),
        ("show", show),
        ("verify", verify),
        ("adopt", adopt),
        ("simulate", simulate),
    ):
        command(group, name, body)
    app.add_typer(group, name="profile", rich_help_panel="Profile")


def local(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table, or a .csv or .parquet file.")],
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")] = None,
    max_lhs: Annotated[int | None, typer.Option("--max-lhs", metavar="K", help="Left sides of at most K.")] = None,
    nulls: Annotated[str, typer.Option("--nulls", help="value: NULL equals NULL; distinct: nothing.")] = "value",
) -> None:
    """Find the dependencies of one table: exact, not private, for its owner alone."""
    from siloquent.cli.profile_files import search_lines, table_at
    from siloquent.cli.profile_words import local_document, show_local
    from siloquent.profile import local as find

    options.require_owner("A local profile shows what rows have in common, so it")
    chosen, tell = names_of(columns), search_lines(options.screen)
    if Path(table).suffix in (".csv", ".parquet"):
        found = find(table_at(options, Path(table), chosen), max_lhs=max_lhs, nulls=nulls, progress=tell)
    else:
        with options.session() as session:
            found = session.profile.local(table, columns=chosen, max_lhs=max_lhs, nulls=nulls, progress=tell)
    if options.as_json:
        options.screen.document(local_document(table, found))
    else:
        show_local(options.screen, found)


def plan(
    options: Options,
    spec: Spec,
    parties: Annotated[int, typer.Option("--parties", help="How many silos take part.")] = 3,
    workers: Workers = 3,
) -> None:
    """Say what a session would take and what each role could learn. Contacts nobody, reads no row."""
    from siloquent.cli.profile_files import spec_at
    from siloquent.cli.profile_words import plan_document, show_plan

    asked = spec_at(options, spec)
    with options.session() as session:
        planned = session.profile.explain(asked, parties=parties, workers=workers)
    if options.as_json:
        options.screen.document(plan_document(planned))
    else:
        show_plan(options.screen, planned)


def run(
    options: Options,
    spec: Spec,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="DIR", help="The moderator's bundle: run over its federation.")
    ] = None,
    without: Annotated[
        str | None, typer.Option("--without", metavar="A,B", help="Roles of the federation that are not invited.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SESSION", help="Go on with a session that was begun before.")
    ] = None,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", metavar="NAME=DIR", help="Instead: a silo's workspace on this machine; once for each."),
    ] = None,
    workers: Workers = 3,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="NAME", help="A name among the releases, or a path with /.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what is revealed, for every silo named.")] = False,
    dry: Annotated[bool, typer.Option("--explain", help="Only say what would be revealed.")] = False,
) -> int | None:
    """Find the dependencies of several silos' rows together. What is revealed is shown first and goes on record."""
    from siloquent.cli.profile_files import release_place, silos_and_workers, spec_at
    from siloquent.cli.profile_words import report_document, show_report

    asked = spec_at(options, spec)
    if bundle is None and (resume or without):
        raise RequestError("--resume and --without are about a federation.", fix="--bundle DIR, the moderator's")
    silos, parties, workers = silos_and_workers(options, party or [], bundle, names_of(without), workers)
    if dry:
        plan(options, spec, parties=parties, workers=workers)
        return None
    place = None if output is None else release_place(options, output)
    if place is not None and place.exists() and resume is None:
        raise ReleaseError(f"{place} is there already.", fix=f"the same command with -o {output}-2")
    if not _agreed(options, asked, parties, workers, yes=yes):
        options.screen.note("Nothing was read, nothing was revealed.")
        return 2
    if bundle is None:
        report = _together(options, asked, silos, workers)
    else:
        report = _over_the_relay(options, asked, bundle, names_of(without), resume)
    folder = _kept(options, report, place, asked.table)
    if options.as_json:
        options.screen.document(report_document(report, folder))
    else:
        show_report(options.screen, report)
        named = again_as(output, folder) if folder == place else folder.name
        options.screen.note(f"\nKept as {folder}. Next: {options.shell('profile', 'verify', named)}")
    return None


def _together(options: Options, asked: ProfileSpec, silos: Mapping[str, Path], workers: int) -> FDReport:
    """All roles in this process."""
    from siloquent.door import open_session
    from siloquent.profile import discover_together

    with ExitStack() as stack:
        sessions = {name: stack.enter_context(open_session(folder)) for name, folder in silos.items()}
        return discover_together(asked, sessions, _yes, workers=workers, say=options.screen.note)


def _over_the_relay(
    options: Options, asked: ProfileSpec, folder: Path, without: list[str], resume: str | None
) -> FDReport:
    """Parties and workers are processes of their own; the columns' types are this workspace's declaration.

    Raises:
        Interrupted: by a person; it says how to go on.
    """
    from siloquent.cli.federation import find_session
    from siloquent.cli.profile_files import WaitingLines
    from siloquent.federation.bundle import read_bundle
    from siloquent.federation.running import open_journal

    waiting = WaitingLines(options.screen)
    with open_journal(read_bundle(folder)) as journal, options.session() as session:
        if resume is not None:
            resume = find_session(journal.sessions(), resume, folder).id
        try:
            return session.profile.discover(
                asked, folder, without=without, resume=resume, say=waiting.say, watch=waiting.look
            )
        except KeyboardInterrupt:
            raise _interrupted(options, journal, resume) from None
        except ProtocolError as failed:
            if failed.fix.startswith("siloquent federation ") and "--bundle" not in failed.fix:
                failed.fix += f" --bundle {shlex.quote(str(folder))}"
            if going_on := _going_on(options, journal, resume):
                failed.add_note(f"The session is open still. Once that is mended: {going_on}")
            raise


def _interrupted(options: Options, journal: Journal, resume: str | None) -> KeyboardInterrupt:
    """What was begun goes on with the same command, since all others wait for it."""
    if not (fix := _going_on(options, journal, resume)):
        return KeyboardInterrupt()
    return Interrupted("what the parties have recorded so far stays in their ledgers, and is not recorded twice", fix)


def _going_on(options: Options, journal: Journal, resume: str | None) -> str:
    """The command that goes on with the session that was begun last; empty where none is open."""
    begun = journal.sessions()
    if not begun or begun[-1].is_over:
        return ""
    return options.again() if resume else options.again("--resume", begun[-1].id[:12])


def _kept(options: Options, report: FDReport, place: Path | None, table: str) -> Path:
    """The report's release: among the releases under its own id where ``place`` turns out to hold another one."""
    from siloquent.cli.profile_files import release_place
    from siloquent.profile import save_report

    own = release_place(options, report.id)
    try:
        return save_report(report, place or own, table=table)
    except ReleaseError as refused:
        if place in (None, own):
            raise
        options.screen.warn(refused.detail)
        return save_report(report, own, table=table)


def _yes(terms: Terms, told: str) -> bool:
    """The person at this terminal has agreed for every silo before a session began."""
    return True


def _agreed(options: Options, spec: ProfileSpec, parties: int, workers: int, *, yes: bool) -> bool:
    from siloquent.profile import statement

    if yes:
        return True
    if not options.screen.can_ask:
        told = "This reveals what the plan says, and nobody is here to agree."
        raise RequestError(told, fix=options.again("--yes"))
    options.screen.warn("The dependencies are exact, not differentially private. Besides them:")
    for role, text in statement(spec.protocol, parties=parties, workers=workers, size_class=spec.size_class):
        options.screen.warn(f"  {role}: {text}")
    return options.screen.confirm("Run it?")


def show(options: Options, report: Report) -> None:
    """Show a report: what holds over all rows, what holds only inside each silo, and what was revealed."""
    from siloquent.cli.profile_files import report_at
    from siloquent.cli.profile_words import report_document, show_report

    found, place = report_at(options, report)
    if options.as_json:
        options.screen.document(report_document(found, place))
    else:
        show_report(options.screen, found)


def verify(options: Options, report: Report) -> int:
    """Check a report: unchanged, confirmed by every party, without contradictions; exit 1 if not."""
    from siloquent.cli.profile_files import report_at
    from siloquent.profile import check_report

    found, _ = report_at(options, report)
    problems = check_report(found)
    if options.as_json:
        options.screen.document({"schema": "siloquent/fd-verdict/1", "id": found.id, "problems": list(problems)})
    else:
        for problem in problems:
            options.screen.line(problem)
        if not problems:
            options.screen.line(f"{found.id}: unchanged, confirmed by {len(found.parties)} parties, no contradiction.")
    return 1 if problems else 0


def adopt(
    options: Options,
    report: Report,
    table: Annotated[str, typer.Option("--table", help="The declared table that gets the constraints.")],
    pick: Annotated[
        list[str] | None,
        typer.Option("--pick", metavar='"A, B -> C"', help="A dependency over all rows; once for each."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write without being asked.")] = False,
) -> int | None:
    """Write dependencies that were found into a table's declaration, as hard constraints."""
    from siloquent.cli.profile_files import report_at

    found, _ = report_at(options, report)
    wanted = pick or [str(one) for one in found.ufd if one.lhs]
    with options.session() as session:
        if not yes:
            if not options.screen.can_ask:
                told = f"This changes schemas/{table}.toml, and nobody is here to agree."
                raise RequestError(told, fix=options.again("--yes"))
            options.screen.warn(f"schemas/{table}.toml gets: {'; '.join(wanted)}. They are facts about private rows.")
            if not options.screen.confirm("Write them?"):
                return 2
        changed = session.profile.adopt(found, table, wanted)
    if options.as_json:
        document = {"schema": "siloquent/fd-adopted/1", "id": found.id, "table": table, "picked": wanted}
        options.screen.document({**document, "changed": changed})
    else:
        options.screen.line(
            f"schemas/{table}.toml now declares: {'; '.join(wanted)}." if changed else "They were declared already."
        )
    return None


def simulate(
    options: Options,
    spec: Spec,
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Public rows: .csv or .parquet.")],
    split: Annotated[int, typer.Option("--split", help="How many parties the rows are cut into, in order.")] = 3,
    workers: Workers = 3,
) -> None:
    """Run every role in memory on public rows: to see what a session would find and show. Nothing is charged."""
    from siloquent.cli.profile_files import public_parts, spec_at
    from siloquent.cli.profile_words import report_document, show_report
    from siloquent.profile import simulate as run_all

    asked = spec_at(options, spec)
    tables, columns = public_parts(options, data, asked, split)
    report = run_all(asked, tables, columns, workers=workers, say=options.screen.note)
    if options.as_json:
        options.screen.document(report_document(report, None))
    else:
        show_report(options.screen, report)
