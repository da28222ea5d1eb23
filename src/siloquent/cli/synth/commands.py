"""Synthetic tables: the plan and its price first, one run over the rows, then any number of rows at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import confirm_price, create_key, track_charge
from siloquent.cli.base.paths import format_reuse_argument, resolve_file, resolve_release_path
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.synth import constraints as synth_constraints
from siloquent.cli.synth import evaluate as synth_evaluate
from siloquent.documents.prices.plans import price_words, synth_plan_document
from siloquent.documents.synth import build_report_document, build_rows_document, build_synthesis_document
from siloquent.errors import ReleaseError, RequestError

if TYPE_CHECKING:
    from siloquent.synth import SynthSpec

Asked = Annotated[
    str, typer.Argument(metavar="SPEC", help="A .toml file that describes the synthesis, or a declared table.")
]
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="The price to pay, in epsilon.")]
Rho = Annotated[str | None, typer.Option("--rho", help="The price to pay, in rho (zCDP accounts).")]
Rows = Annotated[
    int | None, typer.Option("--rows", metavar="N", help="The number of rows (default: as many as the table has).")
]
Targets = Annotated[
    str | None, typer.Option("--targets", metavar="A,B", help="Columns that will serve as prediction targets.")
]
Columns = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns.")]
Quality = Annotated[str | None, typer.Option("--quality", help="fast, default or best.")]
Engine = Annotated[str | None, typer.Option("--engine", help="tree or chain.")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="How engine chain learns: default, paper (the thesis's settings) or search."),
]
Report = Annotated[
    str | None, typer.Option("--report", help="The share of the budget that pays for a comparison with the true rows.")
]
Seed = Annotated[int, typer.Option("--seed", help="The seed of the rows; another seed draws different rows.")]
One = Annotated[str, typer.Argument(metavar="RELEASE", help="A release's id or name, or its folder as a path.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Make a synthetic table that preserves the constraints and statistics of the real one.")
    register_command(group, "plan", plan)
    register_command(group, "run", run)
    register_command(group, "rows", draw_rows)
    register_command(group, "report", report)
    synth_constraints.mount(group)
    synth_evaluate.mount(group)
    app.add_typer(group, name="synth", rich_help_panel="Synthesis")


def plan(
    options: Options,
    spec: Asked,
    epsilon: Epsilon = None,
    rho: Rho = None,
    rows: Rows = None,
    targets: Targets = None,
    columns: Columns = None,
    quality: Quality = None,
    engine: Engine = None,
    preset: Preset = None,
    report: Report = None,
    seed: Seed = 0,
) -> None:
    """Show the price, how each constraint would be enforced and how noisy each step is. Reads no rows; free."""
    from siloquent.cli.synth.output import show_plan

    asked = _read_spec(options, spec, locals())
    with options.open_session() as session:
        planned, left = session.synth.explain(asked), session.get_remaining(asked.table)
    document = synth_plan_document(planned, left)
    if options.as_json:
        options.screen.write_document(document)
    else:
        show_plan(options.screen, document)


def run(
    options: Options,
    spec: Asked,
    epsilon: Epsilon = None,
    rho: Rho = None,
    rows: Rows = None,
    targets: Targets = None,
    columns: Columns = None,
    quality: Quality = None,
    engine: Engine = None,
    preset: Preset = None,
    report: Report = None,
    seed: Seed = 0,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="NAME", help="A name among the releases, or a path with /.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="A name for this run: repeating it is free, and an interrupted run resumes."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Pay the price without confirmation.")] = False,
    max_cost: Annotated[
        str | None, typer.Option("--max-cost", metavar="X", help="Pay up to X in the account's epsilon or rho.")
    ] = None,
    dry: Annotated[bool, typer.Option("--explain", help="Only show the price.")] = False,
) -> int | None:
    """Make a synthetic table; the price is shown first. Further rows from it are free."""
    from siloquent.cli.synth.output import show_plan, show_release

    asked = _read_spec(options, spec, locals())
    with options.open_session() as session:
        place = None if output is None else resolve_release_path(options, output)
        if place is not None and place.exists() and key is None:
            raise RequestError(f"{place} already exists.", fix="choose another name with -o")
        if dry:
            document = synth_plan_document(session.synth.explain(asked), session.get_remaining(asked.table))
            options.screen.write_document(document) if options.as_json else show_plan(options.screen, document)
            return None
        key = create_key() if key is None else key
        prepared = session.synth.prepare(asked, key=key)
        planned = prepared.plan
        for note in planned.notes:  # whether it can work is printed before payment, even without a confirmation
            options.screen.warn(clean_lines(note))
        price = price_words(planned)
        what = f"A synthetic {asked.table} costs {price}. Further rows from it are free."
        if not confirm_price(options, price, what=what, question="Make it?", yes=yes, max_cost=max_cost):
            options.screen.note("Nothing was created or spent.")
            return 2
        with track_charge(options, session, key):
            made = prepared.run(max_cost=max_cost, progress=_build_progress_reporter(options, planned))
            folder = session.synth.save(made, place)
    if options.as_json:
        options.screen.write_document(build_synthesis_document(made, folder, key))
    else:
        show_release(options.screen, made, folder)
        then = options.format_command(
            "synth", "rows", format_reuse_argument(output, folder), "--rows", "1000", "-o", "more.csv"
        )
        options.screen.note(f"\nNext: {then}")
    return None


def draw_rows(
    options: Options,
    release: One,
    number: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="The number of rows (default: as many as the table has).")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="W", help="A condition such as \"ward = 'A' and age < 30\".")
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A .csv, .parquet or .arrow file.")
    ] = None,
) -> None:
    """Draw more rows from a release's model, with every hard constraint satisfied; free."""
    from siloquent.cli.synth.output import show_rows
    from siloquent.releases import write_table
    from siloquent.synth.release import load_model

    model = load_model(_find_folder(options, release))
    if output is not None and output.exists():
        raise RequestError(f"{output} already exists.", fix="choose another file with -o")
    table = model.draw(number, where=where, seed=seed)
    if output is not None:
        write_table(output, table, output.suffix.removeprefix("."))
    if options.as_json:
        options.screen.write_document(build_rows_document(table, output))
    else:
        show_rows(options.screen, table, output)


def report(
    options: Options,
    release: One,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Copy the page to this .html file.")
    ] = None,
) -> None:
    """Show how good a synthetic table is: constraints, columns, pairs, and the purchased comparison with the true
    rows. Free."""
    from siloquent.cli.base.paths import write_new
    from siloquent.cli.synth.output import show_report
    from siloquent.synth.release import load_report, read_page

    folder = _find_folder(options, release)
    found = load_report(folder)
    if output is not None:
        write_new(output, read_page(folder))
    if options.as_json:
        options.screen.write_document(build_report_document(found))
    else:
        show_report(options.screen, found)
        options.screen.note(f"The page with its charts: {output or folder / 'report.html'}")


def _read_spec(options: Options, asked: str, given: dict[str, Any]) -> SynthSpec:
    """Return the synthesis of a TOML file or table, overridden by the command line."""
    from siloquent.synth import parse_spec
    from siloquent.synth.spec.spec import read_plain, require_known

    plain: dict[str, Any] = {"table": asked}
    if asked.endswith(".toml"):
        plain = dict(read_plain(resolve_file(options, Path(asked))))
        require_known(plain)
    budget = {name: given[name] for name in ("epsilon", "rho") if given[name] is not None}
    if budget:
        plain["budget"] = budget
    if "budget" not in plain:
        raise RequestError("A synthesis needs a budget.", fix=options.format_rerun("--epsilon", "1"))
    for name in ("targets", "columns"):
        if given[name] is not None:
            plain[name] = [each.strip() for each in given[name].split(",")]
    for name in ("rows", "quality", "engine", "report"):
        if given[name] is not None:
            plain[name] = given[name]
    if given["preset"] is not None:
        plain["chain"] = {**plain.get("chain", {}), "preset": given["preset"]}
    if given["seed"] or "seed" not in plain:
        plain["seed"] = given["seed"]
    return parse_spec(plain)


def _find_folder(options: Options, release: str) -> Path:
    folder = resolve_release_path(options, release)
    if not folder.is_dir():
        raise ReleaseError(f"Release {release!r} does not exist.", fix=options.format_command("release", "list"))
    return folder


def _build_progress_reporter(options: Options, planned: Any) -> Any:
    """Return a callback that prints finished steps at a terminal: numbers of steps only, independent of rows."""
    if options.as_json or options.quiet or not options.screen.can_ask:
        return None
    steps = planned.steps
    return lambda done: options.screen.note(f"step {done} of {steps}") if done % 10 == 0 or done == steps else None
