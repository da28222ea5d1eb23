"""Discovery of a column's values or bounds, where nobody knows them: the price first, then a charged release."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text, format_label
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.consent import (
    Dry,
    Epsilon,
    Key,
    MaxCost,
    Rho,
    Yes,
    confirm_price,
    create_key,
    track_charge,
)
from siloquent.cli.base.problems import clean_lines
from siloquent.documents.discoveries import build_discovery_document, build_discovery_plan_document
from siloquent.documents.prices.plans import price_words
from siloquent.fixes import build_fix

if TYPE_CHECKING:
    from collections.abc import Callable

    from siloquent.api import Session
    from siloquent.cli.base.screen import Screen
    from siloquent.discover import DiscoveredKeys, ProposedBounds
    from siloquent.discover.plan import DiscoverPlan
    from siloquent.discover.task import PreparedDiscovery
    from siloquent.privacy import Cost

SHOWN = 40


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "discover", discover, panel="Owner")


def discover(
    options: Options,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A declared table.")],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A text or category, or a number or date.")],
    epsilon: Epsilon = None,
    rho: Rho = None,
    at_least: Annotated[
        int | None, typer.Option("--at-least", metavar="N", help="Values shared by fewer people are rarely released.")
    ] = None,
    keys_each: Annotated[
        int | None,
        typer.Option("--keys-each", metavar="K", help="The number of values that each person contributes (default 1)."),
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", help="The part of delta_events that it may cost (default: a tenth).")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the released domain (default: TABLE-COLUMN).")
    ] = None,
    key: Key = None,
    yes: Yes = False,
    max_cost: MaxCost = None,
    dry: Dry = False,
) -> int | None:
    """Release a column's values that enough people share, or propose bounds for a number; the price is shown first."""
    asked: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "at_least": at_least, "keys_each": keys_each}

    def prepare(session: Session, own_key: str | None) -> PreparedDiscovery:
        return session.discover.prepare(table, column, key=own_key, delta=delta, name=name, **asked)

    return _run(options, prepare, key=key, yes=yes, max_cost=max_cost, dry=dry)


def discover_text(
    options: Options, text: str, *, key: str | None, yes: bool, max_cost: str | None, dry: bool
) -> int | None:
    """Discover as ``text`` says, for ``ask``."""
    from siloquent.discover.language import parse_discovery

    explain = parse_discovery(text).explain

    def prepare(session: Session, own_key: str | None) -> PreparedDiscovery:
        return session.discover.prepare_sql(text, key=own_key)

    return _run(options, prepare, key=key, yes=yes, max_cost=max_cost, dry=dry or explain)


def _run(
    options: Options,
    prepare: Callable[[Session, str | None], PreparedDiscovery],
    *,
    key: str | None,
    yes: bool,
    max_cost: str | None,
    dry: bool,
) -> int | None:
    from siloquent.discover import DiscoveredKeys
    from siloquent.schema.domains import get_domain_file

    with options.open_session() as session:
        own_key = key or create_key()
        prepared = prepare(session, key) if key or dry else prepare(session, None).with_key(own_key)
        planned, stored = prepared.plan, prepared.stored
        if dry:
            left = session.get_remaining(planned.spec.table) if stored is None else prepared.charge.account.left
            if options.as_json:
                document = build_discovery_plan_document(planned, left, is_taken=bool(prepared.free_name))
                options.screen.write_document(document)
            else:
                _show_plan(options, prepared, left)
            return None
        if stored is None:
            price = price_words(planned)
            if planned.warning and (yes or max_cost is not None):  # otherwise it is part of the question
                options.screen.warn(clean_text(planned.warning))
            what = " ".join(filter(None, (_describe(planned), clean_text(planned.warning), f"This costs {price}.")))
            if not confirm_price(options, price, what=what, question="Discover?", yes=yes, max_cost=max_cost):
                options.screen.note("Nothing was discovered, nothing was spent.")
                return 2
        with track_charge(options, session, own_key):
            found = prepared.run(max_cost=max_cost)
            file = None
            if isinstance(found, DiscoveredKeys):
                found = session.discover.save(found)
                file = get_domain_file(session.workspace.folder, found.name) if found.keys else None
            if options.as_json:
                options.screen.write_document(build_discovery_document(found, file, own_key))
            else:
                _show(options.screen, found)
                if stored is not None:
                    options.screen.note(f"It is entry {stored.receipt.seq} of the ledger: nothing was charged now.")
                options.screen.note(_format_next(options, found))
    return None


def _describe(planned: DiscoverPlan) -> str:
    from siloquent.discover import KeysPlan

    column = clean_text(planned.spec.column)
    if not isinstance(planned, KeysPlan):
        return f"Bounds of {column} are proposed; nothing is changed."
    return (
        f"Values of {column} that {planned.sure_from:,} or more units share are found with probability 0.95 and are "
        "public from then on; a value of a single unit is rarely found."
    )


def _show_plan(options: Options, prepared: PreparedDiscovery, left: Cost) -> None:
    """Print the price first, then what is found from how many units on."""
    from siloquent.discover import KeysPlan
    from siloquent.documents.ledger import format_delta, format_significant
    from siloquent.privacy import ATTO, format_digits, get_accountant

    planned = prepared.plan
    book = get_accountant(planned.schema.budget.accountant)
    remaining = f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"
    facts = [
        ("price", price_words(planned) if prepared.stored is None else "nothing: the ledger has it already"),
        ("left", f"{remaining}, delta {format_delta(Fraction(left.delta, ATTO))}" if left.delta else remaining),
        ("noise", f"+-{planned.deviation:.3g} on each count"),
    ]
    if isinstance(planned, KeysPlan):
        single, name = format_digits(planned.event.delta, 2), planned.spec.domain_name
        taken = f"domains/{name}.toml is there already; add --name {prepared.free_name}"
        facts += [
            ("threshold", f"{planned.event.threshold:,} units, after noise"),
            ("found", f"values of {planned.sure_from:,} or more units, each with probability 0.95"),
            ("not found", f"a unit's own values, but for a probability of {single}"),
            ("kept as", taken if prepared.free_name else f"domains/{name}.toml"),
        ]
    if planned.warning and prepared.stored is None:
        facts.append(("warning", clean_text(planned.warning)))
    options.screen.write_facts([*facts, ("data", "not read; nothing was spent")])
    if shortage := prepared.find_shortage():
        fix = clean_lines(build_fix(shortage).render(options.language))
        options.screen.note(f"This exceeds what is left of the budget. Instead: {fix}")


def _show(screen: Screen, found: DiscoveredKeys | ProposedBounds) -> None:
    from siloquent.discover import DiscoveredKeys

    if isinstance(found, DiscoveredKeys):
        for value in found.keys[:SHOWN]:
            screen.write_line(format_label(value))
        if len(found.keys) > SHOWN:
            screen.write_line(f"and {len(found.keys) - SHOWN:,} more in domains/{found.name}.toml")
    elif found.declaration:
        screen.write_line(found.declaration)
    screen.note(f"\n{clean_lines(found.describe())}\n{found.guarantee.describe()}")


def _format_next(options: Options, found: DiscoveredKeys | ProposedBounds) -> str:
    table = found.table
    check = options.format_command("check", table)
    return f"Next: change schemas/{table}.toml, then: {check}" if found.declaration else ""
