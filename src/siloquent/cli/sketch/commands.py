"""Sketches: the price first, one pass over the rows, then any number of questions at no cost."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import Dry, Epsilon, Key, MaxCost, Rho, Yes, confirm_price, create_key, track_charge
from siloquent.cli.base.paths import format_reuse_argument, resolve_file, resolve_release_path, write_new
from siloquent.cli.sketch.inputs import (
    build_sketch_spec,
    choose_rule,
    find_sketch,
    parse_numbers,
    read_points,
)
from siloquent.documents.prices.plans import price_words, sketch_plan_document
from siloquent.documents.sketch import build_answer_document, build_sketch_document
from siloquent.errors import RequestError
from siloquent.fixes import run

Table = Annotated[
    str | None,
    typer.Argument(metavar="[TABLE]", help="A declared table, or a .toml file that describes the sketch."),
]
Features = Annotated[str | None, typer.Option("--features", metavar="A,B", help="The attributes, separated by commas.")]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel", help="p2 (Euclidean), p1, laplacian, angular, hamming, jaccard (sets), surrogate (--regress)."
    ),
]
Bandwidth = Annotated[
    float,
    typer.Option("--bandwidth", help="The kernel's width: in units after --scale; in bits for angular and hamming."),
]
Error = Annotated[
    str | None, typer.Option("--error", metavar="PERCENT", help="Instead of a price: the error at --at-density.")
]
AtDensity = Annotated[
    float, typer.Option("--at-density", help="The density at which --error holds: a share of all records.")
]
Scale = Annotated[str, typer.Option("--scale", help="raw, or range: every feature to 0..1 by its bounds.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="A category: one stack of counters per class.")]
Group = Annotated[str | None, typer.Option("--group", help="The unit's column: all rows of one user form one set.")]
Rows = Annotated[
    int | None, typer.Option("--rows", help="The number of rows of counters (default: as many as the price allows).")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Use this hash plan, shared with other silos.")
]
One = Annotated[str, typer.Argument(metavar="SKETCH", help="A release's id or name, or its folder as a path.")]
NAME = "A name among the releases, or a path with /."
Out = Annotated[str | None, typer.Option("-o", "--output", metavar="NAME", help=NAME)]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Release a table once as a sketch, then query it any number of times.")
    register_command(group, "plan", plan)
    register_command(group, "build", build)
    register_command(group, "ask", ask)
    register_command(group, "merge", merge)
    register_command(group, "show", show)
    app.add_typer(group, name="sketch", rich_help_panel="Sketch")


def _collect_options(
    table: Table = None,
    features: Features = None,
    kernel: KernelName = "p2",
    bandwidth: Bandwidth = 0.1,
    epsilon: Epsilon = None,
    rho: Rho = None,
    error: Error = None,
    at_density: AtDensity = 0.02,
    scale: Scale = "range",
    label: LabelOption = None,
    group: Group = None,
    rows: Rows = None,
    plan_file: PlanFile = None,
) -> dict[str, Any]:
    """Return the options of ``plan`` and ``build`` that describe a sketch."""
    return locals()


def _add_sketch_options(body: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return ``body(options, spec, ...)`` as a command with the options that describe the sketch, then its own."""
    shared = inspect.signature(_collect_options, eval_str=True).parameters
    options, _, *own = inspect.signature(body, eval_str=True).parameters.values()

    @functools.wraps(body)
    def run(options: Options, **given: Any) -> int | None:
        spec = build_sketch_spec(options, _collect_options(**{name: given.pop(name) for name in shared}))
        return body(options, spec, **given)

    run.__signature__ = inspect.Signature([options, *shared.values(), *own])  # type: ignore[attr-defined]
    return run


@_add_sketch_options
def plan(
    options: Options,
    spec: Any,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Save the hash plan for other silos.")
    ] = None,
) -> None:
    """Show the price and accuracy of a sketch. Reads no rows; free. -o saves the hash plan for other silos."""
    from siloquent.cli.sketch.output import show_plan

    with options.open_session() as session:
        planned = session.sketch.explain(spec)
        left = session.get_remaining(spec.table)
        if output is not None:
            write_new(output, planned.hash_plan.to_json())
    if options.as_json:
        options.screen.write_document(sketch_plan_document(planned, left))
    else:
        show_plan(options.screen, planned, left)
        if output is not None:
            options.screen.note(f"The hash plan is in {output}: every silo builds with --plan {output}.")


@_add_sketch_options
def build(
    options: Options,
    spec: Any,
    output: Out = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
) -> int | None:
    """Build a sketch in one pass over the rows; the price is shown first. Queries to it are free."""
    from siloquent.cli.sketch.output import show_plan, show_sketch

    with options.open_session() as session:
        place = None if output is None else resolve_release_path(options, output)
        if place is not None and place.exists() and key is None:
            raise RequestError(f"{place} already exists.", fix="choose another name with -o")
        own_key = key or create_key()
        prepared = session.sketch.prepare(spec, key=None if dry else own_key)
        planned, left = prepared.plan, session.get_remaining(spec.table)
        if dry:
            if options.as_json:
                options.screen.write_document(sketch_plan_document(planned, left))
            else:
                show_plan(options.screen, planned, left)
            return None
        price = price_words(planned)
        what = f"A sketch of {spec.table} costs {price}. Queries to it are free."
        if not confirm_price(
            options, price, what=what, question="Build it?", yes=yes, max_cost=max_cost, prepared=prepared
        ):
            options.screen.note("Nothing was built or spent.")
            return 2
        with track_charge(options, session, own_key):
            made = prepared.run(max_cost=max_cost)
            folder = session.sketch.save(made, place)
            if options.as_json:
                options.screen.write_document(build_sketch_document(made, folder, own_key))
            else:
                show_sketch(options.screen, made, folder)
                then = options.format_command("sketch", "ask", format_reuse_argument(output, folder), "--modes", "3")
                options.screen.note(f"\nNext: {then}")
    return None


def ask(
    options: Options,
    sketch: One,
    density: Annotated[
        Path | None,
        typer.Option("--density", metavar="POINTS", help="Estimate how many records are near each point (CSV)."),
    ] = None,
    classify: Annotated[
        Path | None, typer.Option("--classify", metavar="POINTS", help="Show the likeliest class of each point (CSV).")
    ] = None,
    anomaly: Annotated[
        Path | None, typer.Option("--anomaly", metavar="POINTS", help="Show which points are unusual (CSV).")
    ] = None,
    share: Annotated[
        float, typer.Option("--share", help="Unusual points are those among this least dense share of records.")
    ] = 0.01,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Instead: points below this density, a share of all records.")
    ] = None,
    priors: Annotated[
        str | None, typer.Option("--priors", metavar="P,P", help="The known frequencies of the classes.")
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            "--rule", help="likelihood, or map: the class with the most records nearby, which favours frequent classes."
        ),
    ] = "likelihood",
    modes: Annotated[int | None, typer.Option("--modes", metavar="N", help="Find the N highest peaks.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", metavar="N", help="Draw N points from the density.")] = None,
    target: Annotated[
        str | None, typer.Option("--regress", metavar="TARGET", help="Fit a linear model, by the kernel surrogate.")
    ] = None,
    picture: Annotated[
        str | None, typer.Option("--map", metavar="A[,B]", help="Draw a chart over one or two features.")
    ] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Show densities as shares of all records.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="For --modes, --sample: equal seeds, equal points.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the chart as SVG or the rows as CSV.")
    ] = None,
) -> None:
    """Query a sketch at no cost, any number of times. Each value comes with its standard error and a 95 % interval."""
    from siloquent import sketch as task
    from siloquent.cli.sketch.map import show_map
    from siloquent.cli.sketch.output import show_answer

    chosen = [word for word in (density, classify, anomaly, modes, sample, target, picture) if word is not None]
    if len(chosen) != 1:
        raise RequestError(
            "Expected exactly one of --density, --classify, --anomaly, --modes, --sample, --regress or --map.",
            fix=run("sketch ask", sketch, "--modes", "3"),
        )
    judged, frequencies = choose_rule(rule, priors), parse_numbers(priors)
    made = find_sketch(options, sketch)
    if picture is not None:
        show_map(options.screen, made, picture.split(","), output)
        return
    if density is not None:
        question: task.Density | task.Classify | task.Anomaly | task.Modes | task.Sample | task.Regress
        question = task.Density(read_points(made, resolve_file(options, density)), normalise=normalise)
    elif classify is not None:
        question = task.Classify(read_points(made, resolve_file(options, classify)), judged, frequencies)
    elif anomaly is not None:
        points = read_points(made, resolve_file(options, anomaly))
        question = task.Anomaly(points, threshold, None if threshold is not None else share, seed=seed)
    elif modes is not None:
        question = task.Modes(modes, seed=seed)
    elif target is not None:
        question = task.Regress(target, seed=seed)
    else:
        question = task.Sample(int(sample or 0), seed=seed)
    answer = task.ask(made, question)
    show_answer(options.screen, build_answer_document(made, question, answer), output)


def merge(
    options: Options,
    sketches: Annotated[list[str], typer.Argument(metavar="SKETCH ...", help="Distinct releases or paths.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="NAME", help=NAME)],
) -> None:
    """Add the sketches of several silos that share one hash plan; free."""
    from siloquent import sketch as task
    from siloquent.cli.sketch.output import show_sketch

    made = task.merge([find_sketch(options, name) for name in sketches])
    folder = task.save_sketch(made, resolve_release_path(options, output))
    if options.as_json:
        options.screen.write_document(build_sketch_document(made, folder, ""))
    else:
        show_sketch(options.screen, made, folder)


def show(options: Options, sketch: One) -> None:
    """Show a sketch: its guarantee, its number of records, and the accuracy of its answers."""
    from siloquent.cli.sketch.output import show_sketch

    made = find_sketch(options, sketch)
    if options.as_json:
        options.screen.write_document(build_sketch_document(made, Path(sketch), ""))
    else:
        show_sketch(options.screen, made, None)
