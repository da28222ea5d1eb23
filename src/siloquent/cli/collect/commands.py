"""Collections: design reports, perturb on devices, ingest reports, ask in SQL. Questions are free."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.paths import resolve_file
from siloquent.documents.collect import (
    build_check_document,
    build_counters_document,
    build_design_document,
    build_estimates_document,
)
from siloquent.errors import RequestError

NAMED = "The name of a collection in the workspace, such as walks-1, or a document as a path with /."
One = Annotated[str, typer.Argument(metavar="COLLECTION", help=NAMED)]
Out = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="A name in the collections folder, or a path with /."),
]
MAX_REPORT_BYTES = 2**32
HIDES = 0.2  # a standard error of this share of all users makes an answer almost worthless


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Collect statistics from devices that randomize their reports, across several services.")
    register_command(group, "design", design)
    register_command(group, "check", check)
    register_command(group, "perturb", perturb)
    register_command(group, "ingest", ingest)
    register_command(group, "estimate", estimate)
    register_command(group, "show", show)
    app.add_typer(group, name="collect", rich_help_panel="Collect")


def design(
    options: Options,
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="Services, attributes, and the epsilon per user.")],
    output: Out = None,
    users: Annotated[
        int, typer.Option("--users", help="The expected number of users, for the predicted errors.")
    ] = 100_000,
) -> None:
    """Design a collection: a public document for clients and the collector, and the services' secret key for the
    epoch."""
    from siloquent import collect
    from siloquent.cli.collect.inputs import read_text, write_new_collection
    from siloquent.cli.collect.output import show_design

    made = collect.design(collect.parse_spec(read_text(resolve_file(options, spec))))
    document, key = write_new_collection(options, made, output)
    predicted = collect.predict(made, max(users, 1))
    best = min((one.relative for one in predicted), default=0.0)
    if best > HIDES:  # now, since devices pay with their first report
        options.screen.warn(
            f"At epsilon {made.spec.epsilon} even the best answer is off by about {100 * best:.0f} % of all "
            f"{users:,} users: noise dominates. Use a larger epsilon or collect from more users."
        )
    if options.as_json:
        options.screen.write_document(build_design_document(made, document, key, users, predicted))
    else:
        show_design(options.screen, made, document, key, users, predicted)
        name = str(output) if output and "/" in str(output) else document.stem
        options.screen.note(f"\nNext: {options.format_command('collect', 'check', name)}")


def check(options: Options, collection: One) -> int:
    """Prove from a document's integer parameters that no user's reports exceed epsilon; exit 1 if they do."""
    from siloquent import collect
    from siloquent.cli.collect.inputs import load_collection
    from siloquent.cli.collect.output import show_check

    made, _ = load_collection(options, collection)
    findings = collect.check(made)
    if options.as_json:
        options.screen.write_document(build_check_document(made, findings))
    else:
        show_check(options.screen, findings)
    return 0 if all(one.holds for one in findings) else 1


def perturb(
    options: Options,
    collection: One,
    rows: Annotated[
        Path | None, typer.Argument(metavar="[ROWS.jsonl]", help="The rows (default: standard input).")
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="The service that holds these rows.")] = None,
    secret: Annotated[
        Path | None, typer.Option("--secret", metavar="FILE", help="The epoch's key (default: next to the document).")
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            "--memory",
            metavar="FILE",
            help="The store of reports already sent, which are sent again unchanged (default: this account's).",
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME=FILE", help="A public table of the collection, one JSON row per line."),
    ] = None,
    output: Out = None,
) -> None:
    """Make reports as devices do: read lines {"user": "u1", "rows": [...]}, write one fixed-length report per user."""
    from siloquent.cli.base.paths import resolve_file
    from siloquent.cli.collect.inputs import build_reports, load_collection, read_public_tables, write_bytes

    made, document = load_collection(options, collection)
    public = read_public_tables(options, made, tables or [])
    memory = memory and resolve_file(options, memory)
    data = build_reports(
        options, made, document, rows=rows, service=service, secret=secret, memory=memory, tables=public
    )
    if output is not None:
        path = write_bytes(options, output, data)
        options.screen.note(f"Wrote {len(data):,} bytes of reports to {path}.")
    elif sys.stdout.isatty():
        raise RequestError("Reports are binary; write them to a file.", fix="-o reports.bin, or > reports.bin")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def ingest(
    options: Options,
    collection: One,
    reports: Annotated[
        list[str],  # strings, since a Path drops the leading ./ of ./r.bin
        typer.Argument(
            metavar="REPORTS ...", help="Files of reports as devices send them, or .parquet with a column report."
        ),
    ],
) -> None:
    """Ingest reports: one per user and service is accepted; others are rejected and counted by reason."""
    from siloquent.cli.collect.inputs import ingest_file, load_collection, open_report_store, resolve_collection_path
    from siloquent.cli.collect.output import show_counters
    from siloquent.collect import Counters

    made, document = load_collection(options, collection)
    taken, without = Counters(), []
    with open_report_store(made, document) as store:
        for name in reports:
            path = resolve_collection_path(options, name)
            try:
                if path.stat().st_size > MAX_REPORT_BYTES:
                    raise RequestError(f"{path} is too large: the limit is 4 GiB.", fix="split it into parts")
                own = ingest_file(store, path)
                if own == Counters(bad_length=own.bad_length):
                    without.append(str(path))
                taken = taken.combine(own)
            except OSError:
                raise RequestError(f"{path} cannot be read.", fix="name an existing file") from None
        if len(without) == len(reports):
            raise RequestError(
                f"{', '.join(without)}: no reports, so nothing was ingested.",
                fix=options.format_command("collect", "perturb", collection, "ROWS.jsonl", "-o", "reports.bin"),
            )
        for empty in without:
            options.screen.warn(f"{empty} contains no reports.")
        if options.as_json:
            options.screen.write_document(build_counters_document(made, taken, store))
        else:
            show_counters(options.screen, made, taken, store)


def estimate(
    options: Options,
    collection: One,
    question: Annotated[str, typer.Argument(metavar="SQL", help="SELECT with COUNT(*), SUM or AVG, FROM a service.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the rows as CSV or a chart as SVG.")
    ] = None,
) -> None:
    """Query in SQL at no cost, any number of times. Each number comes with its standard error and a 95 % interval."""
    from siloquent import collect
    from siloquent.cli.collect.inputs import load_collection, open_report_store
    from siloquent.cli.collect.output import keep_answer, show_answer

    made, document = load_collection(options, collection)
    with open_report_store(made, document) as store:
        answer = collect.estimate(store, question)
    if output is not None:
        keep_answer(output, answer)
    if options.as_json:
        options.screen.write_document(build_estimates_document(made, answer))
    else:
        show_answer(options.screen, answer)


def show(options: Options, collection: One) -> None:
    """Show how many reports arrived, by outcome and by layer."""
    from siloquent.cli.collect.inputs import load_collection, open_report_store
    from siloquent.cli.collect.output import show_counters

    made, document = load_collection(options, collection)
    with open_report_store(made, document) as store:
        if options.as_json:
            options.screen.write_document(build_counters_document(made, store.counters, store))
        else:
            show_counters(options.screen, made, store.counters, store)
