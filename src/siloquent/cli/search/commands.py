"""Search: offer a table's sums once, browse catalogues, find features that improve a model, augment one's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import Dry, Epsilon, Key, MaxCost, Rho, Yes, confirm_price, create_key, track_charge
from siloquent.cli.base.paths import format_reuse_argument, resolve_path, resolve_release_path, write_new, write_rows
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.search.inputs import build_offer_spec, build_request_spec, load_plan, resolve_catalogue_path
from siloquent.documents.prices.plans import offer_plan_document, price_words
from siloquent.documents.search import (
    build_augmented_document,
    build_catalogue_document,
    build_offer_document,
    build_result_document,
)
from siloquent.errors import RequestError
from siloquent.fixes import run

if TYPE_CHECKING:
    from siloquent.charge import PreparedRelease
    from siloquent.search import Offer, OfferPlan

PLACE = "A name in the workspace (default: catalogue), or a path with /."
Features = Annotated[str | None, typer.Option("--features", metavar="A,B", help="The attributes, separated by commas.")]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", metavar="KEY", help="A join key; repeatable; A+B for a compound key; A:2 with a parent of 2 characters."
    ),
]
Ranges = Annotated[
    str, typer.Option("--ranges", metavar="WHICH", help="declared, or quantiles: estimated for a tenth of the price.")
]
Order = Annotated[
    int,
    typer.Option("--order", metavar="K", help="3 or 4: products of that many features, for logistic models of unions."),
]
CatalogueOption = Annotated[str | None, typer.Option("--catalogue", metavar="DIR", help=PLACE)]


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    group = typer.Typer(help="Find tables that improve your model, without seeing them.")
    register_command(group, "offer", offer)
    register_command(group, "find", find)
    register_command(group, "augment", augment)
    catalogue = typer.Typer(help="Manage folders of offers, which hold only releases.")
    register_command(catalogue, "add", add)
    register_command(catalogue, "list", show)
    group.add_typer(catalogue, name="catalogue")
    app.add_typer(group, name="search", rich_help_panel="Search")


def offer(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table, or a .toml file with the offer.")],
    features: Features = None,
    by: By = None,
    epsilon: Epsilon = None,
    rho: Rho = None,
    second_moments: Annotated[
        str | None, typer.Option("--second-moments", metavar="WHICH", help="none, total (for unions) or per-key.")
    ] = None,
    norm_cut: Annotated[
        float | None, typer.Option("--norm-cut", metavar="B", help="Clip records to a norm of B half ranges.")
    ] = None,
    ranges: Ranges = "declared",
    order: Order = 2,
    owner: Annotated[str | None, typer.Option("--owner", help="The owner of the rows, shown to others.")] = None,
    catalogue: Annotated[
        str | None, typer.Option("--catalogue", metavar="DIR", help=f"Also add it to this catalogue. {PLACE}")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="NAME", help="The release's folder, as a path with /.")
    ] = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
) -> int | None:
    """Release a table's sums once, for others to find and use; the price is shown first."""
    from siloquent.cli.search.output import show_offer, show_plan

    given = locals()
    with options.open_session() as session:
        spec, place = (
            build_offer_spec(options, table, given),
            None if output is None else resolve_release_path(options, output),
        )
        if place is not None and place.exists() and key is None:
            raise RequestError(f"{place} already exists.", fix="choose another name with -o")
        if dry:
            planned, left = session.search.explain(spec), session.get_remaining(spec.table)
            if options.as_json:
                options.screen.write_document(offer_plan_document(planned, left))
            else:
                show_plan(options.screen, planned, left)
            return None
        own_key = key or create_key()
        prepared = session.search.prepare(spec, key=own_key)
        if not _confirm_offer(options, prepared, yes=yes, max_cost=max_cost):
            options.screen.note("Nothing was offered or spent.")
            return 2
        with track_charge(options, session, own_key):
            made = prepared.run(max_cost=max_cost)
            folder = session.search.save(made, place)
            if catalogue is not None:
                session.search.publish(made, resolve_catalogue_path(options, catalogue))
            if options.as_json:
                options.screen.write_document(build_offer_document(made, folder, own_key))
            else:
                show_offer(options.screen, made, folder)
                if catalogue is None:
                    then = options.format_command(
                        "search", "catalogue", "add", "catalogue", format_reuse_argument(output, folder)
                    )
                    options.screen.note(f"\nNext: {then}")
    return None


def _confirm_offer(
    options: Options, prepared: PreparedRelease[OfferPlan, Offer], *, yes: bool, max_cost: str | None
) -> bool:
    """Return whether the price may be paid, after printing the plan's notes."""
    planned = prepared.plan
    for note in planned.notes:  # whether it can work is printed before payment, even without a confirmation
        options.screen.warn(clean_lines(note))
    price = price_words(planned)
    what = f"A release of {planned.schema.name}'s sums costs {price}. Using it is free."
    return confirm_price(
        options, price, what=what, question="Release them?", yes=yes, max_cost=max_cost, prepared=prepared
    )


def add(
    options: Options,
    folder: Annotated[str, typer.Argument(metavar="DIR", help=PLACE)],
    releases: Annotated[list[str], typer.Argument(metavar="RELEASE ...", help="Releases by id, or their folders.")],
) -> None:
    """Copy offers into a catalogue's folder; each is verified first."""
    from siloquent.cli.search.output import show_catalogue
    from siloquent.search import add_to_catalogue, open_catalogue

    target = resolve_catalogue_path(options, folder)
    for release in releases:
        add_to_catalogue(target, resolve_release_path(options, release))
    found = open_catalogue(target)
    if options.as_json:
        options.screen.write_document(build_catalogue_document(found, target, []))
    else:
        show_catalogue(options.screen, found, [])


def show(
    options: Options,
    folder: Annotated[str | None, typer.Argument(metavar="[DIR]", help=PLACE)] = None,
    table: Annotated[
        str | None,
        typer.Option("--for", metavar="TABLE", help="Show which offers share a key with this table of yours."),
    ] = None,
) -> None:
    """List a catalogue's offers and the keys they share with a table. Reads declarations only."""
    from siloquent.cli.search.output import show_catalogue
    from siloquent.search import find_matching_offers, open_catalogue

    target = resolve_catalogue_path(options, folder)
    found, fitting = open_catalogue(target), []
    if table is not None:
        with options.open_session() as session:
            fitting = find_matching_offers(session.schema(table), found)
    if options.as_json:
        options.screen.write_document(build_catalogue_document(found, target, fitting))
    else:
        show_catalogue(options.screen, found, fitting)


def find(
    options: Options,
    request: Annotated[
        str, typer.Argument(metavar="REQUEST", help="A .toml file with the request, or your own table's name.")
    ],
    target: Annotated[str | None, typer.Option("--target", help="The attribute to predict.")] = None,
    features: Features = None,
    by: By = None,
    kinds: Annotated[str, typer.Option("--kinds", metavar="A,B", help="join, union, or both.")] = "join",
    most: Annotated[int, typer.Option("--most", metavar="N", help="Combine at most N offers.")] = 1,
    model: Annotated[str, typer.Option("--model", help="linear, logistic or poisson.")] = "linear",
    epsilon: Annotated[
        str | None, typer.Option("--epsilon", help="Platform scoring: the price of releasing your moments, in epsilon.")
    ] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="Platform scoring: the price in rho.")] = None,
    ranges: Ranges = "declared",
    order: Order = 2,
    catalogue: CatalogueOption = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Keep the plan: a name in the workspace, or a path with /."
        ),
    ] = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
) -> int | None:
    """Rank offers by how much they improve your model. Free on your own rows; --epsilon pays for a release of their
    sums."""
    from siloquent.cli.search.output import show_found, show_plan

    given = locals()
    with options.open_session() as session:
        spec = build_request_spec(options, request, given)
        place = None if output is None else resolve_path(options, output)
        if place is not None and place.exists() and key is None:
            raise RequestError(f"{place} already exists.", fix="choose another file with -o, or remove it")
        own_key, prepared = key or create_key(), None
        if spec.scoring == "platform":
            prepared = session.search.prepare(spec.build_offer_spec(), key=None if dry else own_key)
            if dry:
                planned, left = prepared.plan, session.get_remaining(spec.table)
                if options.as_json:
                    options.screen.write_document(offer_plan_document(planned, left))
                else:
                    show_plan(options.screen, planned, left)
                return None
            if not _confirm_offer(options, prepared, yes=yes, max_cost=max_cost):
                options.screen.note("Nothing was requested or spent.")
                return 2
        elif dry:
            raise RequestError("Local scoring is free, so there is no price to explain.", fix="omit --explain")
        with track_charge(options, session, own_key):
            found = session.search.find(
                spec, resolve_catalogue_path(options, catalogue), key=own_key, max_cost=max_cost, prepared=prepared
            )
            if place is not None:
                write_new(place, found.plan.to_json())
            if options.as_json:
                options.screen.write_document(build_result_document(found, place, own_key if found.guarantee else ""))
            else:
                show_found(options.screen, found, place)
                if place is not None and found.plan.steps:
                    then = options.format_command("search", "augment", str(output), "-o", "augmented.parquet")
                    options.screen.note(f"\nNext: {then}")
    return None


def augment(
    options: Options,
    plan: Annotated[str, typer.Argument(metavar="PLAN.json", help="The plan that search find saved with -o.")],
    table: Annotated[str | None, typer.Option("--table", help="Your table (default: the plan's).")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="A .parquet, .csv or .arrow file: in the workspace, or a path."
        ),
    ] = None,
) -> None:
    """Add the chosen features, with their standard errors, to your own rows; for the owner only."""
    from siloquent.cli.base.screen import LEFT, RIGHT
    from siloquent.releases import FORMATS

    options.require_owner("augment shows exact rows, so it")
    if output is None:
        raise RequestError(
            "Augmented rows need an output file.", fix=run("search augment", plan, "-o", "augmented.parquet")
        )
    chosen, place = load_plan(options, plan), resolve_path(options, output)
    form = place.suffix.removeprefix(".")
    if form not in FORMATS:
        raise RequestError(
            f"The format of rows must be one of {', '.join(FORMATS)}, not {form!r}.", fix="-o augmented.parquet"
        )
    if place.exists():
        raise RequestError(f"{place} already exists.", fix="choose another file with -o, or remove it")
    with options.open_session() as session:
        rows = session.search.augment(chosen, table)
    write_rows(place, rows)
    if options.as_json:
        options.screen.write_document(build_augmented_document(chosen, table or chosen.table, place))
    else:
        screen = options.screen
        screen.write_table([("added", LEFT), ("offer", RIGHT)], [(step.name, step.offer) for step in chosen.steps])
        screen.write_facts(
            [("file", str(place)), ("note", "your own rows, exactly: publishing them requires a separate release")]
        )
