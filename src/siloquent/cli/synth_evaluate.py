"""A synthetic table beside the true one: exact figures for the owner's eyes, shown and never written into a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.commands import Options, command
from siloquent.cli.places import release_path
from siloquent.cli.screen import LEFT, RIGHT
from siloquent.errors import ReleaseError, RequestError
from siloquent.pictures.plain import clean, number_of

if TYPE_CHECKING:
    from siloquent.synth.estimate.evaluate import Beside, Evaluation
    from siloquent.synth.spec.compiled import CompiledConstraints

WORST = 5


def mount(group: typer.Typer) -> None:
    """Add this file's command to the group ``synth``."""
    command(group, "evaluate", evaluate)


def evaluate(
    options: Options,
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="A release's id or name, or its folder as a path.")],
    truth: Annotated[Path, typer.Option("--truth", metavar="FILE", help="The true rows, as CSV or Parquet.")],
) -> None:
    """Compare a synthetic table with the true rows, exactly, for the owner's eyes alone; nothing is written."""
    from siloquent.synth.estimate.evaluate import evaluate as compared
    from siloquent.synth.estimate.public_rows import column_names, read_public
    from siloquent.synth.plan.constraints import compile_constraints
    from siloquent.synth.release import load_model

    options.require_owner("An evaluation")
    folder = release_path(options, release)
    if not folder.is_dir():
        raise ReleaseError(f"There is no release {release!r}.", fix=options.shell("release", "list"))
    model = load_model(folder)
    if not truth.is_file():
        raise RequestError(f"{truth} is not a file.", fix="--truth ROWS.csv")
    drawn = folder / "rows.parquet"
    present = column_names(truth) & column_names(drawn)
    names = [one.name for one in model.schema.domain if one.name in present and one.is_countable]
    if not names:
        raise RequestError(f"{truth} has none of the release's columns.", fix="--truth with the table's own rows")
    compiled = compile_constraints(model.schema, columns=names, probe=False)
    targets = [model.schema.domain[target].name for target in model.plan.spec.targets]
    true_rows = read_public(truth, compiled.declared, ragged=True)
    if true_rows.left_out:
        lines = number_of(true_rows.left_out, "line has", "lines have")
        options.screen.note(
            f"{lines} another number of columns than {clean(truth.name)} names: left out, as in a source."
        )
    found = compared(
        read_public(drawn, compiled.declared).cells,
        true_rows.cells,
        compiled,
        [target for target in targets if target in compiled.attributes],
    )
    document = evaluation_document(model.schema.name, found, compiled)
    if options.as_json:
        options.screen.document(document)
    else:
        _show(options, document)


def evaluation_document(table: str, found: Evaluation, compiled: CompiledConstraints) -> dict[str, Any]:
    """An evaluation as a document of kind ``siloquent/synth-evaluation/1``; ``private``: it shows exact figures."""
    texts = {one.number: (one.text, one.hard) for one in compiled.constraints}
    return {
        "schema": "siloquent/synth-evaluation/1",
        "private": True,
        "table": table,
        "rows": found.rows,
        "true_rows": found.true_rows,
        "single": _distances(found.ones),
        "pairs": _distances(found.pairs),
        "constraints": [
            {
                "number": number,
                "constraint": texts[number][0],
                "hard": texts[number][1],
                "broken": ours.pairs,
                "rate": ours.rate,
                "true_rate": theirs.rate,
            }
            for number, ours, theirs in found.broken
        ],
        "classifiers": [
            {
                "target": one.target,
                "classifier": one.classifier,
                "trained_on_output": round(one.on_output, 5),
                "trained_on_truth": round(one.on_truth, 5),
            }
            for one in found.right
        ],
    }


def _distances(found: tuple[Beside, ...]) -> dict[str, Any]:
    worst = sorted(found, key=lambda one: -one.distance)[:WORST]
    mean = sum(one.distance for one in found) / max(len(found), 1)
    return {
        "mean": round(mean, 5),
        "worst": [{"columns": list(one.columns), "distance": round(one.distance, 5)} for one in worst],
    }


def _show(options: Options, document: dict[str, Any]) -> None:
    screen = options.screen
    screen.note(
        "Exact figures of the true rows, for the owner's eyes alone: they are in no release and under no guarantee."
    )
    screen.facts(
        [
            ("rows", f"{document['rows']:,}, and {document['true_rows']:,} true ones"),
            (
                "single columns",
                f"off by {document['single']['mean']:.4f} on average (half of all differences of shares)",
            ),
            ("pairs", f"off by {document['pairs']['mean']:.4f} on average"),
        ]
    )
    worst = [*document["single"]["worst"], *document["pairs"]["worst"]]
    screen.table(
        [("worst", LEFT), ("off by", RIGHT)],
        [(clean(", ".join(one["columns"])), f"{one['distance']:.4f}") for one in worst],
    )
    if document["constraints"]:
        screen.table(
            [("constraint", LEFT), ("hard", LEFT), ("broken, %", RIGHT), ("by true rows, %", RIGHT)],
            [
                (
                    clean(one["constraint"]),
                    "yes" if one["hard"] else "no",
                    f"{100 * one['rate']:.4g}",
                    f"{100 * one['true_rate']:.4g}",
                )
                for one in document["constraints"]
            ],
        )
    if document["classifiers"]:
        screen.table(
            [("target", LEFT), ("classifier", LEFT), ("right, from output", RIGHT), ("from truth", RIGHT)],
            [
                (
                    clean(one["target"]),
                    one["classifier"],
                    f"{one['trained_on_output']:.4f}",
                    f"{one['trained_on_truth']:.4f}",
                )
                for one in document["classifiers"]
            ],
        )
