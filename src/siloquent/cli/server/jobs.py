"""Jobs that a server runs for a token: start, inspect, wait, cancel, fetch the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT
from siloquent.documents.server import build_job_list_document
from siloquent.errors import RequestError
from siloquent.foreign import load_json, load_toml

if TYPE_CHECKING:
    from siloquent.remote.documents import Job as RemoteJob

MAX_SPEC_BYTES = 2**20
Job = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Work on a server, with --server URL: sketch, synth, search and share.")
    for name, body in (("start", start), ("list", list_all), ("show", show), ("wait", wait), ("cancel", cancel)):
        register_command(group, name, body, at_server=True)
    register_command(group, "fetch", fetch, at_server=True)
    app.add_typer(group, name="job", rich_help_panel="Server")


def start(
    options: Options,
    task: Annotated[str, typer.Argument(metavar="TASK", help="sketch, synth, search or share.")],
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The task's spec, TOML or JSON.")],
    max_cost: Annotated[
        str, typer.Option("--max-cost", metavar="X", help="Pay up to X in the account's epsilon or rho.")
    ],
    key: Annotated[
        str | None, typer.Option("--key", help="A name for this job: starting it again with the same name is free.")
    ] = None,
) -> None:
    """Start a job. It is charged once, even if the server or this command fails."""
    with options.connect() as session:
        _tell(options, session.start(task, read_spec(spec), key=key, max_cost=max_cost))


def list_all(options: Options) -> None:
    """List the newest jobs."""
    with options.connect() as session:
        found = [one.to_json() for one in session.list_jobs()]
    if options.as_json:
        options.screen.write_document(build_job_list_document(found))
        return
    names = ("id", "name", "task", "state")
    options.screen.write_table(
        [(name, LEFT) for name in names], [tuple(clean_text(one[n]) for n in names) for one in found]
    )


def show(options: Options, job: Job) -> int:
    """Show a job's progress; exit 1 if it failed."""
    with options.connect() as session:
        return _tell(options, session.get_job(job))


def wait(options: Options, job: Job) -> int:
    """Wait until a job ends; exit 1 if it failed."""

    def told(done: int, steps: int) -> None:
        options.screen.note(f"{done} of {steps} steps done")

    with options.connect() as session:
        return _tell(options, session.wait(job, progress=None if options.as_json else told))


def cancel(options: Options, job: Job) -> None:
    """Cancel an unfinished job. Its charge is not refunded."""
    with options.connect() as session:
        _tell(options, session.cancel(job))


def fetch(
    options: Options,
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="A release's id, from a job or an answer.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="A new folder for its files.")],
) -> None:
    """Fetch a release's files from the server, and verify each against the manifest."""
    with options.connect() as session:
        found = session.fetch(release, output)
    if options.as_json:
        options.screen.write_document(found.to_json())
    else:
        options.screen.write_line(f"Wrote {len(found.files)} files of {clean_text(release)} to {output}.")


def _tell(options: Options, job: RemoteJob) -> int:
    if options.as_json:
        options.screen.write_document(job.to_json())
        return int(job.state == "failed")
    result = job.result or {}
    facts = [("job", job.id), ("task", job.task), ("state", job.state)]
    facts += [(name, str(result[name])) for name in ("release", "detail", "fix") if result.get(name)]
    told = job.to_json()
    if cost := told.get("cost"):  # a server of an earlier version does not report it
        facts += [("paid", f"{cost['symbol']} {cost['spent']} of {told['account']}")]
    if told.get("cancelled_by"):
        facts += [("cancelled by", str(told["cancelled_by"]))]
    options.screen.write_facts([(name, clean_text(text)) for name, text in facts])
    return int(job.state == "failed")


def read_spec(path: Path) -> dict[str, Any]:
    """Return a task's spec from a TOML or JSON file.

    Raises:
        RequestError: the file is not a valid spec.
    """
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_SPEC_BYTES + 1).decode()
        found = load_json(text, most=MAX_SPEC_BYTES) if path.suffix == ".json" else load_toml(text, most=MAX_SPEC_BYTES)
    except OSError as failed:
        raise RequestError(f"Cannot read {path}: {failed.strerror}.", fix="name an existing file") from None
    except ValueError as unreadable:
        raise RequestError(
            f"{path} is not valid TOML or JSON: {str(unreadable)[:200]}.", fix="correct the file at that position"
        ) from None
    if len(text) > MAX_SPEC_BYTES:
        raise RequestError(
            f"{path} is too large: the limit is {MAX_SPEC_BYTES:,} bytes.",
            fix="a spec with the names of columns, not with rows",
        )
    if not isinstance(found, dict):
        raise RequestError(f"{path} must be a JSON object.", fix='{"table": "visits"}')
    return found
