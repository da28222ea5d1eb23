"""Comparison of a synthetic table with the true one: exact figures for the owner only, never written into a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from siloquent.charts.text import clean_text, number_of
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.paths import resolve_release_path
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.synth import build_evaluation_document
from siloquent.errors import ReleaseError, RequestError


def mount(group: typer.Typer) -> None:
    """Add this file's command to the group ``synth``."""
    register_command(group, "evaluate", evaluate)


def evaluate(
    options: Options,
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="A release's id or name, or its folder as a path.")],
    truth: Annotated[Path, typer.Option("--truth", metavar="FILE", help="The true rows, as CSV or Parquet.")],
) -> None:
    """Compare a synthetic table with the true rows, exactly, for the owner only; nothing is written."""
    from siloquent.synth.estimate.public_rows import read_file_columns, read_public
    from siloquent.synth.estimate.report.evaluate import evaluate as compared
    from siloquent.synth.plan.constraints import compile_constraints
    from siloquent.synth.release import load_model

    options.require_owner("An evaluation")
    folder = resolve_release_path(options, release)
    if not folder.is_dir():
        raise ReleaseError(f"Release {release!r} does not exist.", fix=options.format_command("release", "list"))
    model = load_model(folder)
    if not truth.is_file():
        raise RequestError(f"{truth} is not a file.", fix="--truth ROWS.csv")
    drawn = folder / "rows.parquet"
    present = read_file_columns(truth) & read_file_columns(drawn)
    names = [one.name for one in model.schema.domain if one.name in present and one.is_countable]
    if not names:
        raise RequestError(f"{truth} has none of the release's columns.", fix="--truth with the table's own rows")
    compiled = compile_constraints(model.schema, columns=names)
    targets = [model.schema.domain[target].name for target in model.plan.spec.targets]
    true_rows = read_public(truth, compiled.declared, ragged=True)
    if true_rows.left_out:
        lines = number_of(true_rows.left_out, "line has", "lines have")
        options.screen.note(
            f"{lines} a different number of columns than the header of {clean_text(truth.name)}: skipped, as in a "
            "source."
        )
    found = compared(
        read_public(drawn, compiled.declared).cells,
        true_rows.cells,
        compiled,
        [target for target in targets if target in compiled.attributes],
    )
    document = build_evaluation_document(model.schema.name, found, compiled)
    if options.as_json:
        options.screen.write_document(document)
    else:
        _show(options, document)


def _show(options: Options, document: dict[str, Any]) -> None:
    screen = options.screen
    screen.note(
        "Exact figures of the true rows, for the owner only: they are part of no release and have no privacy guarantee."
    )
    screen.write_facts(
        [
            ("rows", f"{document['rows']:,}, against {document['real_rows']:,} true rows"),
            (
                "single columns",
                f"off by {document['single']['mean']:.4f} on average (half of all differences of shares)",
            ),
            ("pairs", f"off by {document['pairs']['mean']:.4f} on average"),
        ]
    )
    worst = [*document["single"]["worst"], *document["pairs"]["worst"]]
    screen.write_table(
        [("worst", LEFT), ("off by", RIGHT)],
        [(clean_text(", ".join(one["columns"])), f"{one['distance']:.4f}") for one in worst],
    )
    if document["constraints"]:
        screen.write_table(
            [("constraint", LEFT), ("hard", LEFT), ("broken, %", RIGHT), ("by true rows, %", RIGHT)],
            [
                (
                    clean_text(one["constraint"]),
                    "yes" if one["hard"] else "no",
                    f"{100 * one['rate']:.4g}",
                    f"{100 * one['real_rate']:.4g}",
                )
                for one in document["constraints"]
            ],
        )
    if document["classifiers"]:
        screen.write_table(
            [("target", LEFT), ("classifier", LEFT), ("right, from output", RIGHT), ("from truth", RIGHT)],
            [
                (
                    clean_text(one["target"]),
                    one["classifier"],
                    f"{one['trained_on_synthetic']:.4f}",
                    f"{one['trained_on_real']:.4f}",
                )
                for one in document["classifiers"]
            ],
        )
