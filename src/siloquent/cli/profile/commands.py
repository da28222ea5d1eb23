"""Profiles: dependencies of one table, or of several silos that share no rows; disclosures are listed first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.paths import format_reuse_argument
from siloquent.cli.base.problems import UNCONFIRMED, Interrupted
from siloquent.cli.profile.inputs import split_names
from siloquent.documents.profile import (
    build_adoption_document,
    build_local_document,
    build_plan_document,
    build_report_document,
    build_report_verdict_document,
)
from siloquent.errors import ProtocolError, ReleaseError, RequestError
from siloquent.fixes import RunCommand

if TYPE_CHECKING:
    from siloquent.federation.messages.journal import RoleJournal
    from siloquent.profile import FDReport, ProfileSpec, Terms

Spec = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="Table, columns, kinds, max_lhs, protocol.")]
Report = Annotated[str, typer.Argument(metavar="REPORT", help="A release's id, or a report's file or folder.")]
Workers = Annotated[int, typer.Option("--workers", help="The number of workers between the parties.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Find functional dependencies in one table or across several silos.")
    for name, body in (
        ("local", profile_locally),
        ("plan", plan),
        ("run", run),
        ("show", show),
        ("verify", verify),
        ("adopt", adopt),
        ("simulate", simulate),
    ):
        register_command(group, name, body)
    app.add_typer(group, name="profile", rich_help_panel="Profile")


def profile_locally(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table, or a .csv or .parquet file.")],
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")] = None,
    max_lhs: Annotated[
        int | None, typer.Option("--max-lhs", metavar="K", help="The maximum number of columns on a left side.")
    ] = None,
    nulls: Annotated[
        str, typer.Option("--nulls", help="value: NULL equals NULL; distinct: NULL equals nothing.")
    ] = "value",
) -> None:
    """Find the dependencies of one table: exact, not private, for the owner only."""
    from siloquent.cli.profile.inputs import build_progress_reporter, read_open_table
    from siloquent.cli.profile.output import show_local
    from siloquent.profile import discover_locally as find

    options.require_owner("A local profile shows exact facts about rows, so it")
    chosen, tell = split_names(columns), build_progress_reporter(options.screen)
    if Path(table).suffix in (".csv", ".parquet"):
        found = find(read_open_table(options, Path(table), chosen), max_lhs=max_lhs, nulls=nulls, progress=tell)
    else:
        with options.open_session() as session:
            found = session.profile.local(table, columns=chosen, max_lhs=max_lhs, nulls=nulls, progress=tell)
    if options.as_json:
        options.screen.write_document(build_local_document(table, found))
    else:
        show_local(options.screen, found)


def plan(
    options: Options,
    spec: Spec,
    parties: Annotated[int, typer.Option("--parties", help="The number of silos that take part.")] = 3,
    workers: Workers = 3,
) -> None:
    """Show the cost of a session and what each role could learn. Contacts no other role, reads no rows."""
    from siloquent.cli.profile.inputs import read_profile_spec
    from siloquent.cli.profile.output import show_plan

    asked = read_profile_spec(options, spec)
    with options.open_session() as session:
        planned = session.profile.explain(asked, parties=parties, workers=workers)
    if options.as_json:
        options.screen.write_document(build_plan_document(planned))
    else:
        show_plan(options.screen, planned)


def run(
    options: Options,
    spec: Spec,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="DIR", help="The moderator's bundle; runs over its federation.")
    ] = None,
    without: Annotated[
        str | None, typer.Option("--without", metavar="A,B", help="Roles of the federation that are not invited.")
    ] = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="SESSION", help="Resume a session.")] = None,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", metavar="NAME=DIR", help="Instead: a silo's workspace on this machine; repeatable."),
    ] = None,
    workers: Workers = 3,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="NAME", help="A name among the releases, or a path with /.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what is revealed, for every silo named here.")] = False,
    dry: Annotated[bool, typer.Option("--explain", help="Only show what would be revealed.")] = False,
) -> int | None:
    """Find dependencies over the rows of several silos. The facts to be revealed are shown first and recorded."""
    from siloquent.cli.profile.inputs import choose_release_folder, read_profile_spec, resolve_participants
    from siloquent.cli.profile.output import show_report

    asked = read_profile_spec(options, spec)
    if bundle is None and (resume or without):
        raise RequestError("--resume and --without require --bundle.", fix="--bundle DIR, the moderator's")
    silos, parties, workers = resolve_participants(options, party or [], bundle, split_names(without), workers)
    if dry:
        plan(options, spec, parties=parties, workers=workers)
        return None
    place = None if output is None else choose_release_folder(options, output)
    if place is not None and place.exists() and resume is None:
        raise ReleaseError(f"{place} already exists.", fix=f"the same command with -o {output}-2")
    if not _confirm_session(options, asked, parties, workers, yes=yes):
        options.screen.note("Nothing was read or revealed.")
        return 2
    if bundle is None:
        report = _run_together(options, asked, silos, workers)
    else:
        report = _run_over_relay(options, asked, bundle, split_names(without), resume)
    folder = _save_report(options, report, place, asked.table)
    if options.as_json:
        options.screen.write_document(build_report_document(report, folder))
    else:
        show_report(options.screen, report)
        named = format_reuse_argument(output, folder) if folder == place else folder.name
        options.screen.note(f"\nKept as {folder}. Next: {options.format_command('profile', 'verify', named)}")
    return None


def _run_together(options: Options, asked: ProfileSpec, silos: Mapping[str, Path], workers: int) -> FDReport:
    """Run all roles in this process."""
    from siloquent.api import open_session
    from siloquent.profile import discover_in_process

    with ExitStack() as stack:
        sessions = {name: stack.enter_context(open_session(folder)) for name, folder in silos.items()}
        return discover_in_process(asked, sessions, _approve_terms, workers=workers, say=options.screen.note)


def _run_over_relay(
    options: Options, asked: ProfileSpec, folder: Path, without: list[str], resume: str | None
) -> FDReport:
    """Run parties and workers as separate processes; the columns' types come from this workspace's declaration.

    Raises:
        Interrupted: a person interrupted it; the error gives the command to continue.
    """
    from siloquent.cli.federation.commands import find_session
    from siloquent.cli.profile.inputs import WaitingLines
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import open_journal

    waiting = WaitingLines(options.screen)
    with open_journal(read_bundle(folder)) as journal, options.open_session() as session:
        if resume is not None:
            resume = find_session(journal.list_sessions(), resume, folder).id
        try:
            return session.profile.discover(
                asked, folder, without=without, resume=resume, say=waiting.say, watch=waiting.look
            )
        except KeyboardInterrupt:
            raise _build_interrupt(options, journal, resume) from None
        except ProtocolError as failed:
            failed.remedy = failed.remedy.map(RunCommand, partial(_add_bundle, folder))
            if going_on := _format_resume(options, journal, resume):
                failed.add_note(f"The session is still open. After correcting this, run: {going_on}")
            raise


def _add_bundle(folder: Path, action: RunCommand) -> RunCommand:
    """Return a command about a federation with the role's bundle."""
    if not action.verb.startswith("federation ") or "--bundle" in action.args:
        return action
    return replace(action, args=(*action.args, "--bundle", str(folder)))


def _build_interrupt(options: Options, journal: RoleJournal, resume: str | None) -> KeyboardInterrupt:
    """Return an interrupt with the command that continues the session, since all other roles wait for it."""
    if not (fix := _format_resume(options, journal, resume)):
        return KeyboardInterrupt()
    return Interrupted("what the parties have recorded so far stays in their ledgers, and is not recorded twice", fix)


def _format_resume(options: Options, journal: RoleJournal, resume: str | None) -> str:
    """Return the command that continues the newest session; empty if it is over or there is none."""
    begun = journal.list_sessions()
    if not begun or begun[-1].is_over:
        return ""
    return options.format_rerun() if resume else options.format_rerun("--resume", begun[-1].id[:12])


def _save_report(options: Options, report: FDReport, place: Path | None, table: str) -> Path:
    """Save the report's release; under its own id among the releases if ``place`` turns out to hold another one."""
    from siloquent.cli.profile.inputs import choose_release_folder
    from siloquent.profile import save_report

    own = choose_release_folder(options, report.id)
    try:
        return save_report(report, place or own, table=table)
    except ReleaseError as refused:
        if place in (None, own):
            raise
        options.screen.warn(refused.detail)
        return save_report(report, own, table=table)


def _approve_terms(terms: Terms, told: str) -> bool:
    """Agree to the terms: the person at this terminal agreed for every silo before the session began."""
    return True


def _confirm_session(options: Options, spec: ProfileSpec, parties: int, workers: int, *, yes: bool) -> bool:
    from siloquent.profile import describe_leakage

    if yes:
        return True
    if not options.screen.can_ask:
        told = f"This reveals what the plan says; {UNCONFIRMED}"
        raise RequestError(told, fix=options.format_rerun("--yes"))
    options.screen.warn("The dependencies are exact, not differentially private. In addition:")
    for role, text in describe_leakage(spec.protocol, parties=parties, workers=workers, size_class=spec.size_class):
        options.screen.warn(f"  {role}: {text}")
    return options.screen.confirm("Run it?")


def show(options: Options, report: Report) -> None:
    """Show a report: dependencies over all rows, dependencies only within each silo, and what was revealed."""
    from siloquent.cli.profile.inputs import find_report
    from siloquent.cli.profile.output import show_report

    found, place = find_report(options, report)
    if options.as_json:
        options.screen.write_document(build_report_document(found, place))
    else:
        show_report(options.screen, found)


def verify(options: Options, report: Report) -> int:
    """Verify that a report is unaltered, confirmed by every party and free of contradictions; exit 1 if not."""
    from siloquent.cli.profile.inputs import find_report
    from siloquent.profile import check_report

    found, _ = find_report(options, report)
    problems = check_report(found)
    if options.as_json:
        options.screen.write_document(build_report_verdict_document(found, problems))
    else:
        for problem in problems:
            options.screen.write_line(problem)
        if not problems:
            options.screen.write_line(
                f"{found.id}: unchanged, confirmed by {len(found.parties)} parties, no contradiction."
            )
    return 1 if problems else 0


def adopt(
    options: Options,
    report: Report,
    table: Annotated[str, typer.Option("--table", help="The declared table that gets the constraints.")],
    pick: Annotated[
        list[str] | None,
        typer.Option("--pick", metavar='"A, B -> C"', help="A dependency over all rows; repeatable."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write without confirmation.")] = False,
) -> int | None:
    """Write dependencies from a report into a table's declaration, as hard constraints."""
    from siloquent.cli.profile.inputs import find_report

    found, _ = find_report(options, report)
    wanted = pick or [str(one) for one in found.ufd if one.lhs]
    with options.open_session() as session:
        if not yes:
            if not options.screen.can_ask:
                told = f"This changes schemas/{table}.toml; {UNCONFIRMED}"
                raise RequestError(told, fix=options.format_rerun("--yes"))
            options.screen.warn(f"schemas/{table}.toml gets: {'; '.join(wanted)}. They are facts about private rows.")
            if not options.screen.confirm("Write them?"):
                return 2
        changed = session.profile.adopt(found, table, wanted)
    if options.as_json:
        options.screen.write_document(build_adoption_document(found.id, table, wanted, changed=changed))
    else:
        options.screen.write_line(
            f"schemas/{table}.toml now declares: {'; '.join(wanted)}." if changed else "They were already declared."
        )
    return None


def simulate(
    options: Options,
    spec: Spec,
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Public rows: .csv or .parquet.")],
    split: Annotated[
        int, typer.Option("--split", help="The number of parties that the rows are split into, in order.")
    ] = 3,
    workers: Workers = 3,
) -> None:
    """Run every role in memory on public rows, to see what a session would find and reveal. Free."""
    from siloquent.cli.profile.inputs import read_profile_spec, split_public_rows
    from siloquent.cli.profile.output import show_report
    from siloquent.profile import simulate as run_all

    asked = read_profile_spec(options, spec)
    tables, columns = split_public_rows(options, data, asked, split)
    report = run_all(asked, tables, columns, workers=workers, say=options.screen.note)
    if options.as_json:
        options.screen.write_document(build_report_document(report, None))
    else:
        show_report(options.screen, report)
