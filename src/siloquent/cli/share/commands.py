"""Share: release statistics once, learn from others' releases, and get advice beforehand on whether that helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import Dry, Epsilon, Key, MaxCost, Rho, Yes, confirm_price, create_key, track_charge
from siloquent.cli.base.paths import resolve_path, write_new, write_rows
from siloquent.cli.share.inputs import build_share_spec, find_table_name, load_releases
from siloquent.documents.prices.plans import price_words, share_plan_document
from siloquent.documents.share import (
    build_advice_document,
    build_model_document,
    build_rows_document,
    build_share_document,
    build_sum_document,
)
from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.share import LearnSpec, ShareRelease

PLACE = "A name in the workspace, or a path with /."
Table = Annotated[str, typer.Argument(metavar="TABLE", help="A declared table, or a .toml file that names one.")]
Releases = Annotated[
    list[str], typer.Argument(metavar="RELEASE ...", help="Files or folders from other silos, or ids of releases here.")
]
Label = Annotated[str | None, typer.Option("--label", help="The attribute to predict.")]
Features = Annotated[
    str | None, typer.Option("--features", metavar="A,B", help="The predicting attributes, separated by commas.")
]
MethodOption = Annotated[str | None, typer.Option("--method", help="marginals (default), gram, moments or tree.")]
Agents = Annotated[int | None, typer.Option("--agents", help="The number of silos, to predict the noise.")]
Overlap = Annotated[
    int | None, typer.Option("--overlap", help="The number of silos in which one person may have rows.")
]
ModelOption = Annotated[str | None, typer.Option("--model", help="logistic (default for classes), svm or linear.")]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Learn with other silos from one release each, without sharing rows.")
    register_command(group, "release", release)
    register_command(group, "sum", hold)
    register_command(group, "advise", advise)
    register_command(group, "learn", learn)
    register_command(group, "synthesize", synthesize)
    app.add_typer(group, name="share", rich_help_panel="Share")


def release(
    options: Options,
    table: Table,
    label: Label = None,
    features: Features = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    method: MethodOption = None,
    agents: Agents = None,
    overlap: Overlap = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Also write it as one file to send. " + PLACE)
    ] = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
) -> int | None:
    """Release a table's statistics about a label, for other silos to learn from; the price is shown first."""
    from siloquent.cli.share.output import show_plan, show_release

    given = locals()
    with options.open_session() as session:
        spec = build_share_spec(options, table, given)
        own_key = key or create_key()
        prepared = session.share.prepare(spec, key=None if dry else own_key)
        planned, left = prepared.plan, session.get_remaining(spec.table)
        if dry:
            if options.as_json:
                options.screen.write_document(share_plan_document(planned, left))
            else:
                show_plan(options.screen, planned, left)
            return None
        place = None if output is None else resolve_path(options, output)
        if place is not None and place.exists() and key is None:
            raise RequestError(f"{place} already exists.", fix="choose another file with -o")
        price = price_words(planned)
        what = f"A release of {spec.table} costs {price}. Learning from it is free."
        if not confirm_price(
            options, price, what=what, question="Release it?", yes=yes, max_cost=max_cost, prepared=prepared
        ):
            options.screen.note("Nothing was released or spent.")
            return 2
        with track_charge(options, session, own_key):
            made = prepared.run(max_cost=max_cost)
            folder = session.share.save(made)
            if place is not None:
                write_new(place, made.to_bytes())
            if options.as_json:
                options.screen.write_document(build_share_document(made, folder, own_key))
            else:
                show_release(options.screen, made, folder)
                sent = place if place is not None else folder
                then = options.format_command("share", "advise", spec.table, "THEIRS")
                options.screen.note(f"\nSend {sent} to the other silos and collect theirs. Then run: {then}")
    return None


def hold(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="SPEC", help='A .toml file with trust = "sum".')],
    bundle: Annotated[Path, typer.Option("--bundle", metavar="DIR", help="The moderator's bundle.")] = Path("bundle"),
) -> None:
    """Run a secure sum as the moderator: all parties of the roster are invited; each stores the sum as its release."""
    from siloquent.cli.share.output import show_sum
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import moderate
    from siloquent.share.federated import build_invitation, collect_sum

    role = read_bundle(bundle)
    with options.open_session() as session:
        spec = build_share_spec(options, table, {})
        invitation = build_invitation(session, spec)
    members = tuple(one.name for one in role.roster.roles if one.kind in ("party", "worker"))
    held = moderate(role, invitation, members, collect_sum)
    if options.as_json:
        options.screen.write_document(build_sum_document(spec, held))
    else:
        show_sum(options.screen, spec, held)


def _build_learn_spec(
    options: Options, table: str, found: list[ShareRelease], model: str | None, own: bool
) -> LearnSpec:
    from siloquent.share import LearnSpec

    name = find_table_name(options, table)
    return LearnSpec(name, found[0].agreement.label.name, tuple(found), model, use_own=own)  # type: ignore[arg-type]


def advise(options: Options, table: Table, releases: Releases, model: ModelOption = None) -> None:
    """Show whether the others' releases help, by comparing four models on your own rows. Free; the result is for you
    only."""
    from siloquent.cli.share.output import show_advice

    with options.open_session() as session:
        found = load_releases(options, releases)
        advice = session.share.advise(_build_learn_spec(options, table, found, model, own=True))
    if options.as_json:
        options.screen.write_document(build_advice_document(advice, found))
    else:
        show_advice(options.screen, advice, found)


def learn(
    options: Options,
    table: Table,
    releases: Releases,
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="The file for the model. " + PLACE)],
    model: ModelOption = None,
    shared_only: Annotated[
        bool, typer.Option("--shared-only", help="Exclude your own rows, so that the model may be shared.")
    ] = False,
) -> None:
    """Learn a model from the others' releases and your own rows. Free; a model with your own rows must not be
    shared."""
    from siloquent.cli.share.output import show_model

    place = resolve_path(options, output)
    with options.open_session() as session:
        found = load_releases(options, releases)
        made = session.share.learn(_build_learn_spec(options, table, found, model, own=not shared_only))
        made.save(place)
    if options.as_json:
        options.screen.write_document(build_model_document(made, place))
    else:
        show_model(options.screen, made, place)


def synthesize(
    options: Options,
    releases: Releases,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The file for the rows (CSV or Parquet). " + PLACE)
    ],
    rows: Annotated[
        int | None, typer.Option("--rows", help="The number of rows (default: as many as the releases state).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds, equal rows.")] = 0,
) -> None:
    """Draw labelled rows from marginals or trees; free, and every row is synthetic."""
    from siloquent.cli.share.output import show_rows
    from siloquent.share import synthesize as drawn

    place, found = resolve_path(options, output), load_releases(options, releases)
    table = drawn(found, rows=rows, seed=seed)
    write_rows(place, table)
    if options.as_json:
        options.screen.write_document(build_rows_document(table, found, place))
    else:
        show_rows(options.screen, table, found, place)
