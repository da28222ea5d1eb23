"""Constraints of public rows: count violations, repair a table, import rules from .ic files. All is free."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.paths import is_path
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.synth import build_check_document, build_constraints_document, build_repair_document
from siloquent.errors import ReleaseError, RequestError
from siloquent.fixes import run
from siloquent.foreign import DocumentTooLarge, read_text
from siloquent.foreign.documents import MAX_TOML_BYTES

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.synth.estimate.public_rows import PublicRows
    from siloquent.synth.spec.compiled import CompiledConstraints

MAX_SHOWN = 50
Rows = Annotated[str, typer.Argument(metavar="RELEASE|FILE", help="A release's id, or a public CSV or Parquet file.")]
TableName = Annotated[
    str | None,
    typer.Option("--table", metavar="T", help="The table whose constraints to check; a release names its own."),
]


def mount(group: typer.Typer) -> None:
    """Add this file's commands to the group ``synth``."""
    register_command(group, "check", check)
    register_command(group, "repair", repair)
    register_command(group, "import-dcs", import_dcs)


def check(options: Options, rows: Rows, table: TableName = None) -> int:
    """Count exactly how often rows violate each constraint, in both directions; free on releases and public files."""
    from siloquent.synth.estimate.enforce.constraints import count_violations

    path, schema = _resolve_rows(options, rows, table)
    compiled, found = _read(path, schema)
    counts = count_violations(found.cells, compiled)
    document = build_check_document(schema, path, compiled, found, counts)
    if options.as_json:
        options.screen.write_document(document)
    else:
        _show_check(options, document, path)
    return 0 if document["kept"] else 1


def repair(
    options: Options,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A public or synthetic CSV or Parquet file.")],
    table: Annotated[str, typer.Option("--table", metavar="T", help="The table whose constraints apply.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The new file.")],
    seed: Annotated[int, typer.Option("--seed", help="The seed that chooses among equal repairs.")] = 0,
) -> None:
    """Write the table with every hard constraint satisfied, and list the changed cells. A second run changes
    nothing."""
    import numpy as np

    from siloquent.synth.estimate.public_rows import copy_public, write_public
    from siloquent.synth.estimate.repair import repair as repaired_of

    with options.open_session() as session:
        schema = session.schema(table)
    compiled, found = _read(file, schema)
    repaired = repaired_of(found.cells, compiled, np.random.default_rng(seed))
    if len(repaired.changed) or output.suffix != file.suffix:
        write_public(output, found.replace_cells(repaired.rows))
    else:
        copy_public(file, output)
    document = build_repair_document(schema, output, compiled, found, repaired)
    if options.as_json:
        options.screen.write_document(document)
    else:
        _show_repair(options, document)


def import_dcs(
    options: Options,
    file: Annotated[Path, typer.Argument(metavar="FILE.ic", help="Lines t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b).")],
    soft: Annotated[
        bool, typer.Option("--soft", help="Write soft constraints: only their violation rate is preserved.")
    ] = False,
) -> None:
    """Print the denial constraints of an .ic file as the constraint entry of a table file."""
    from siloquent.synth.spec.constraint_text import parse_ic, render_constraints_toml

    try:
        text = read_text(file, MAX_TOML_BYTES)
    except DocumentTooLarge:
        raise RequestError(f"{file} is too large for a constraint file: the limit is 1 MiB.") from None
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"{file} cannot be read.", fix="name an existing text file") from None
    found = parse_ic(text, hard=not soft)
    toml = render_constraints_toml(found)
    if options.as_json:
        options.screen.write_document(build_constraints_document(toml, len(found)))
        return
    options.screen.write_line(toml.rstrip("\n"))
    options.screen.note(
        f"{len(found)} constraints. Next: paste them into schemas/TABLE.toml above [table], then check."
    )


def _resolve_rows(options: Options, rows: str, table: str | None) -> tuple[Path, TableSchema]:
    """Return the intended file and the declaration of its table."""
    from siloquent.releases import get_release_folder, read_manifest

    with options.open_session() as session:
        path = Path(rows)
        if path.is_file():
            if table is None:
                raise RequestError(
                    f"{rows} does not name a table, so it is unclear which constraints to check.", fix="--table NAME"
                )
            return path, session.schema(table)
        if not path.exists() and (is_path(rows) or path.suffix in (".csv", ".parquet")):
            raise RequestError(f"File {rows} does not exist.", fix="name an existing file")
        folder = path if path.is_dir() else get_release_folder(session.workspace.releases, rows)
        manifest = read_manifest(folder)
        inside = [entry.name for entry in manifest.files if entry.name.startswith("rows.")]
        if not inside:
            raise ReleaseError(f"The release {manifest.id} has no rows.", fix=run("release list"))
        return folder / inside[0], session.schema(table or manifest.table)


def _read(path: Path, schema: TableSchema) -> tuple[CompiledConstraints, PublicRows]:
    """Return the rows, and the constraints on the attributes in the file."""
    from siloquent.synth.estimate.public_rows import read_file_columns, read_public
    from siloquent.synth.plan.constraints import compile_constraints

    present = read_file_columns(path)
    names = [attribute.name for attribute in schema.domain if attribute.name in present]
    compiled = compile_constraints(schema, columns=names)
    return compiled, read_public(path, compiled.declared)


def _show_check(options: Options, document: dict[str, Any], path: Path) -> None:
    screen = options.screen
    screen.write_table(
        [("", RIGHT), ("constraint", LEFT), ("", LEFT), ("broken by", RIGHT), ("of", RIGHT), ("%", RIGHT)],
        [
            (
                str(entry["number"]),
                clean_text(entry["constraint"]),
                "hard" if entry["hard"] else "soft",
                f"{entry['violations']:,}",
                f"{entry['possible']:,}",
                f"{100 * entry['rate']:.4g}",
            )
            for entry in document["constraints"]
        ],
    )
    for entry in document["constraints"]:
        if entry["note"]:
            screen.note(f"{entry['number']}: {clean_text(entry['note'])}.")
    if document["outside"]:
        screen.note(f"{document['outside']:,} values lie outside the declared domain; they violate no constraint.")
    verdict = "Every hard constraint is satisfied" if document["kept"] else "Hard constraints are violated"
    screen.write_line(f"{verdict} by {document['rows']:,} rows (pairs of rows, in either direction).")
    if not document["kept"]:
        then = options.format_command("synth", "repair", str(path), "--table", document["table"], "-o", "repaired.csv")
        screen.note(f"Next: {then}")


def _show_repair(options: Options, document: dict[str, Any]) -> None:
    screen, changes = options.screen, document["changes"]
    for entry in document["violations"]:
        screen.write_line(f"{clean_text(entry['constraint'])}: was violated {entry['count']:,} times.")
    screen.write_table(
        [("row", RIGHT), ("attribute", LEFT), ("was", LEFT), ("is", LEFT)],
        [
            (
                f"{one['row']:,}",
                clean_text(one["attribute"]),
                clean_text(one["old"] or "NULL"),
                clean_text(one["new"] or "NULL"),
            )
            for one in changes[:MAX_SHOWN]
        ],
    )
    if len(changes) > MAX_SHOWN:
        screen.note(f"And {len(changes) - MAX_SHOWN:,} more; --json lists all.")
    screen.write_line(f"{len(changes):,} cells changed; every hard constraint is satisfied in {document['file']}.")
