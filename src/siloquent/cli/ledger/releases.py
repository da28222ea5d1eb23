"""Releases as files: list, show, export and verify. All of it is free."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.releases import (
    build_export_document,
    build_release_document,
    build_release_list_document,
    build_release_verdict_document,
)
from siloquent.errors import RequestError, SiloquentError

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.explore.spec.answers.labels import ColumnLabels
    from siloquent.releases import Manifest
    from siloquent.schema.workspace import Workspace

Release = Annotated[str, typer.Argument(metavar="RELEASE", help="A release's id, such as r-000017, or its folder.")]
MAX_SHOWN = 100
EXIT_STATUS = {"verified": 0, "receipt_only": 0, "invalid": 1, "other_rules": 9}


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Answers stored as files.")
    register_command(group, "list", list_all)
    register_command(group, "show", show)
    register_command(group, "export", export)
    register_command(group, "verify", verify)
    app.add_typer(group, name="release", rich_help_panel="Releases")
    register_command(app, "verify", verify, panel="Releases")


def list_all(options: Options) -> None:
    """List the releases of the workspace."""
    documents = _list_served_documents(options) if options.server is not None else _list_documents(options)
    if options.as_json:
        options.screen.write_document(build_release_list_document(documents))
        return
    options.screen.write_table(
        [("release", LEFT), ("table", LEFT), ("account", LEFT), ("request", LEFT)],
        [
            (
                clean_text(one["id"]),
                clean_text(one["table"]),
                clean_text(one["guarantee"].get("account", "")),
                clean_text(one["request"].get("query", "")),
            )
            for one in documents
        ],
    )
    if not documents:
        options.screen.note("There are no releases yet. Each answered query creates one.")


def _list_documents(options: Options) -> list[dict[str, Any]]:
    """Return the manifests of the workspace's releases; its ledger, which may be damaged, is not opened."""
    from siloquent.releases import list_releases, read_manifest

    workspace = _read_settings(options)
    return [
        build_release_document(read_manifest(workspace.releases / name)) for name in list_releases(workspace.releases)
    ]


def _list_served_documents(options: Options) -> list[dict[str, Any]]:
    """Return the server's manifests as those of a workspace here: oldest first, without who shares them."""
    with options.connect() as session:
        listed = [one.to_json() for one in session.list_releases()]
    return [
        {name: value for name, value in one.items() if name not in ("shared", "deleted")} for one in reversed(listed)
    ]


def _read_settings(options: Options) -> Workspace:
    """Return the workspace's settings without opening its ledger."""
    from siloquent.schema.workspace import find_workspace, read_workspace

    return read_workspace(options.workspace or find_workspace(Path.cwd()))


def _find_folder(options: Options, release: str) -> Path:
    """Return the folder of a release named by its id or by a path."""
    from siloquent.releases import get_release_folder

    if "/" in release or os.sep in release:
        return Path(release)
    return get_release_folder(_read_settings(options).releases, release)


def _find_labels(options: Options, manifest: Manifest) -> tuple[ColumnLabels, ...]:
    """Return the labels of an answer's groups, as they are declared in the workspace now; none if it is not there."""
    from siloquent.explore import parse
    from siloquent.explore.spec.answers.labels import find_labels
    from siloquent.explore.spec.rewriting.name_resolution import resolve_names

    if manifest.task != "explore":
        return ()
    with suppress(SiloquentError, OSError, UnicodeDecodeError):
        from siloquent.schema.build import parse_schema
        from siloquent.schema.domains import DomainFolder

        workspace = _read_settings(options)
        text = workspace.get_schema_file(manifest.table).read_text(encoding="utf-8")
        schema = parse_schema(text, DomainFolder(workspace.folder))
        return find_labels(resolve_names(parse(str(manifest.request["query"])), schema), schema)
    return ()


def _add_labels(table: pa.Table, labels: tuple[ColumnLabels, ...]) -> pa.Table:
    import pyarrow as pa

    from siloquent.explore.spec.answers.labels import name_label_column

    for one in labels:
        if one.column in table.column_names:
            words = {(type(value), value): label for value, label in one.labels}
            cells = pa.array([words.get((type(value), value)) for value in table[one.column].to_pylist()], pa.string())
            place = table.column_names.index(one.column) + 1
            table = table.add_column(place, name_label_column(one.column, table.column_names), cells)
    return table


def show(options: Options, release: Release) -> None:
    """Show a release: its table, guarantee and cost."""
    from siloquent.explore.spec.answers.text import describe_label, format_cells
    from siloquent.releases import read_manifest, read_release

    folder = _find_folder(options, release)
    manifest, table = read_manifest(folder), read_release(folder)
    if options.as_json:
        options.screen.write_document(build_release_document(manifest, values=table))
        return
    shown = table.slice(0, MAX_SHOWN)
    columns = [shown[name].to_pylist() for name in shown.column_names]
    labels = _find_labels(options, manifest)
    headings, lines = format_cells(table.column_names, list(zip(*columns, strict=True)), labels=labels)
    options.screen.write_table([(clean_text(one.name), RIGHT if one.numbers else LEFT) for one in headings], lines)
    if table.num_rows > MAX_SHOWN:
        more = table.num_rows - MAX_SHOWN
        options.screen.note(f"{more:,} more rows: siloquent release export {manifest.id} -o FILE")
    holds = describe_label(str(manifest.accuracy.get("label", "fresh")))
    receipt = f"entry {manifest.receipt.get('seq', '')} of ledger {manifest.receipt.get('ledger', '')}"
    options.screen.write_facts(
        [
            ("request", clean_text(manifest.request.get("query", ""))),
            ("promise", clean_text(manifest.accuracy.get("promise", ""))),
            *([("holds", clean_text(holds))] if holds else []),
            ("privacy", clean_lines(str(manifest.guarantee.get("sentence", "")))),
            ("receipt", clean_text(receipt)),
            *[("known", clean_text(text)) for text in manifest.known],
        ]
    )


def export(
    options: Options,
    release: Release,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")],
    form: Annotated[
        str | None, typer.Option("--format", help="csv, parquet or arrow (default: from the file's name).")
    ] = None,
) -> None:
    """Write a release's table to a file, with a column of labels beside each key that has them.

    CSV cells that a spreadsheet would execute are quoted.
    """
    from siloquent.releases import FORMATS, read_manifest, read_release, write_table

    chosen = form or output.suffix.lstrip(".")
    if chosen not in FORMATS:
        raise RequestError(f"The format must be one of {', '.join(FORMATS)}, not {chosen!r}.", fix="--format csv")
    if output.exists():
        raise RequestError(f"{output} already exists.", fix="name another file, or remove it")
    folder = _find_folder(options, release)
    table = _add_labels(read_release(folder), _find_labels(options, read_manifest(folder)))
    try:
        with tempfile.TemporaryDirectory(prefix=".siloquent-", dir=output.parent) as building:
            write_table(Path(building) / "table", table, chosen)
            os.replace(Path(building) / "table", output)
    except OSError as failed:
        raise RequestError(f"{output} cannot be written: {failed.strerror}.", fix="name a file elsewhere") from None
    if options.as_json:
        options.screen.write_document(build_export_document(release, output, chosen, table.num_rows))
    else:
        options.screen.write_line(f"{table.num_rows:,} rows of {clean_text(release)} written to {output}.")


def verify(options: Options, release: Release) -> int:
    """Compare a release, or a discovered domain, with the ledger; exit 1 if it differs, 9 if another version made it.

    Exit 9: another version of siloquent made it by other rules. Its record in the ledger was compared; some of its
    files were not.
    """
    from siloquent.schema.domains import list_domain_files  # it loads numpy, which help does not need

    with options.open_session() as session:
        is_domain = release in {file.stem for file in list_domain_files(session.workspace.folder)}
        verdict = session.discover.verify(release) if is_domain else session.verify(_find_folder(options, release))
    if options.as_json:
        options.screen.write_document(build_release_verdict_document(verdict))
        return EXIT_STATUS[verdict.outcome]
    if verdict.ok:
        words = "is valid" if verdict.compared else "is valid as far as it could be checked"
        options.screen.write_line(f"{clean_text(verdict.release)} {words}: {clean_text(verdict.checked)}.")
    for problem in verdict.problems:
        options.screen.write_line(clean_text(problem))
    for note in verdict.notes:
        options.screen.note(clean_text(note))
    if verdict.outcome == "invalid":
        options.screen.note(
            "Do not use this release. The ledger still holds the answer; repeat the query with its key at no cost."
        )
    if verdict.outcome == "other_rules":
        options.screen.note(
            "To compare all of it, verify it with the version that made it; or move its folder away and repeat the "
            "query with its key: that is free, and writes it by this version's rules."
        )
    return EXIT_STATUS[verdict.outcome]
