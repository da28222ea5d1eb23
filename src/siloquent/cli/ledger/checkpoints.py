"""Ledger verification, checkpoints, and adoption of a ledger as the newest copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options
from siloquent.cli.base.fixes import leave_out
from siloquent.cli.base.problems import clean_lines
from siloquent.documents.ledger import build_checkpoint_document, build_verdict_document
from siloquent.errors import ChainBroken, RequestError
from siloquent.ledger.head import NEWEST

if TYPE_CHECKING:
    from siloquent.ledger import Checkpoint


def verify(
    options: Options,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="A checkpoint stored elsewhere.")
    ] = None,
) -> int:
    """Recompute chain, totals, permits, answers and limits, and compare released domains; exit 1 if wrong."""
    from siloquent.discover.kept import find_domain_faults

    kept = _read_kept(checkpoint)
    with options.open_session() as session:
        verdict = session.ledger.verify(kept)
        faults = find_domain_faults(session.workspace.folder, session.ledger) if verdict.ok else []
    if options.as_json:
        options.screen.write_document(build_verdict_document(verdict, kept, faults, options.language))
        return 0 if verdict.ok and not faults else 1
    for fault in faults:
        fix = clean_lines(fault.fix.render(options.language))
        options.screen.write_line(f"{clean_text(fault.sentence)} Fix: {fix}")
    if verdict.ok:
        against = f"; none is missing since checkpoint {kept.seq}" if kept else ""
        options.screen.write_line(f"Verified {verdict.entries} entries: none was altered{against}.")
        if not kept:
            command = options.format_command("ledger", "checkpoint", "-o", "FILE")
            options.screen.note(f"Truncation can be detected only with a checkpoint: {command}")
        return 1 if faults else 0
    where = "" if verdict.first_bad_seq is None else f" The first bad entry is {verdict.first_bad_seq}."
    options.screen.write_line(f"Ledger verification failed. {clean_text(verdict.problem)}{where}")
    options.screen.note("Stop querying, do not change any file, and compare with your last checkpoint and backup.")
    return 1


def _read_kept(path: Path | None) -> Checkpoint | None:
    from siloquent.ledger import Checkpoint

    return Checkpoint.from_json(_read(path)) if path else None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(2**22).decode("utf-8", "replace")
    except OSError as failed:
        raise RequestError(f"{path} cannot be read: {failed.strerror}.", fix="name an existing file") from None


def write_checkpoint(
    options: Options,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write, best on another machine.")
    ],
) -> None:
    """Save the ledger's head and totals to a file, to keep elsewhere."""
    options.require_owner("A checkpoint")
    if output.exists():
        raise RequestError(f"{output} already exists.", fix="name a new file: old checkpoints remain useful")
    with options.open_session() as session:
        made = session.ledger.create_checkpoint()
    _write_new(output, made.to_json() + "\n")
    if options.as_json:
        options.screen.write_document(build_checkpoint_document(made, output))
        return
    options.screen.write_line(f"Checkpoint {made.seq} ({made.hash[:12]}) written to {output}.")
    later = options.format_command("ledger", "verify", "--checkpoint", str(output))
    options.screen.note(f"Keep it where the ledger's machine cannot change it. Later: {later}")


def _write_new(path: Path, text: str) -> None:
    """Write a new file atomically."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as failed:
        if not isinstance(failed, FileExistsError):
            path.unlink(missing_ok=True)
        raise RequestError(f"{path} cannot be written: {failed.strerror}.", fix="name a new file elsewhere") from None


def adopt(
    options: Options,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="Your last checkpoint, stored elsewhere.")
    ] = None,
    statement: Annotated[str | None, typer.Option("--statement", help=f'The sentence "{NEWEST}".')] = None,
) -> None:
    """Take a ledger into use whose head file is missing, after its owner says that it is the newest copy."""
    from siloquent.schema.workspace import find_workspace, read_workspace
    from siloquent.session import adopt_workspace_ledger

    options.require_owner("Adopting a ledger")
    workspace = read_workspace(options.workspace or find_workspace(Path.cwd()))
    kept = _read_kept(checkpoint)
    if statement is None and options.screen.can_ask:
        statement = options.screen.ask_for(
            "An older copy lacks recent charges; adopting it could exceed the privacy budget.\n"
            f'If no newer copy is anywhere, write "{NEWEST}"'
        )
    if (statement or "").strip().rstrip(".").casefold() != NEWEST:
        raise RequestError(
            f"Adopting a ledger requires the owner's statement: {NEWEST!r}.",
            fix=options.format_command(*leave_out(options.typed, "--statement"), "--statement", NEWEST),
        )
    verdict = adopt_workspace_ledger(workspace, kept)
    if not verdict.ok:
        raise ChainBroken(
            f"Ledger verification failed; the copy is not adopted. {clean_text(verdict.problem)}",
            seq=verdict.first_bad_seq or 0,
            fix="find the newest copy",
        )
    if options.as_json:
        options.screen.write_document(build_verdict_document(verdict, kept))
        return
    options.screen.write_line(f"The ledger with {verdict.entries:,} entries was adopted; its head file was written.")
