"""Display of offers, catalogues and search results."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.charts.text import clean_text, format_three_digits
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.prices.plans import compute_mean_error, price_words
from siloquent.documents.search import list_uses

if TYPE_CHECKING:
    from siloquent.privacy import Cost
    from siloquent.search import Augmentation, Catalogue, Offer, OfferPlan, SearchResult

MAX_SHOWN = 10


def show_plan(screen: Screen, planned: OfferPlan, left: Cost) -> None:
    """Print the price first, then the released sums and their accuracy."""
    from siloquent.documents.ledger import format_significant
    from siloquent.privacy import get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    screen.write_facts(
        [
            ("price", f"{price_words(planned)}; searching with the offer is free"),
            ("left", f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"),
            ("features", clean_text(", ".join(feature.name for feature in planned.features))),
            ("released", f"{planned.numbers:,} noisy sums ({planned.noise})"),
            ("data", "not read; nothing was spent"),
            *[("note", clean_lines(note)) for note in planned.notes],
        ]
    )
    errors = [(key.name, key.cells, compute_mean_error(planned, key.cells)) for key in planned.keys]
    rows = [
        (clean_text(name), f"{cells:,}", f"{50 * e:.2g} % of the range") for name, cells, e in errors if e is not None
    ]
    if rows:
        screen.write_table([("key", LEFT), ("values", RIGHT), ("error of a mean by it", RIGHT)], rows)


def show_offer(screen: Screen, offer: Offer, folder: Path | None) -> None:
    """Print an offer's content and guarantee."""
    part = offer.part
    assert part is not None
    screen.write_facts(
        [
            ("offer", offer.id),
            ("features", clean_text(", ".join(feature.name for feature in offer.features))),
            (
                "joined by",
                clean_text(", ".join(f"{key.name} ({key.cells:,} values)" for key in offer.keys)) or "nothing",
            ),
            ("serves", " and ".join(f"{kind}s" for kind in list_uses(offer))),
            ("privacy", clean_lines(offer.describe_guarantee())),
            ("receipt", f"entry {part.seq} ({part.hash[:12]}) of ledger {part.ledger[:12]}"),
            *([("folder", str(folder))] if folder is not None else []),
            *[("note", clean_text(note)) for note in offer.notes],
        ]
    )


def show_catalogue(screen: Screen, catalogue: Catalogue, fitting: Sequence[tuple[str, str, str, float]]) -> None:
    """Print the offers, and the keys that they share with one's own table."""
    screen.write_table(
        [("offer", LEFT), ("table", LEFT), ("features", LEFT), ("keys", LEFT), ("for", LEFT)],
        [
            (
                offer.id,
                clean_text(offer.table),
                clean_text(", ".join(feature.name for feature in offer.features)),
                clean_text(", ".join(key.name for key in offer.keys)),
                ", ".join(list_uses(offer)),
            )
            for offer in catalogue.offers
        ],
    )
    if fitting:
        screen.write_table(
            [("own key", LEFT), ("offer", LEFT), ("its key", LEFT), ("has of its values", RIGHT)],
            [
                (clean_text(own), offer, clean_text(theirs), f"about {share:.0%}")
                for offer, theirs, own, share in fitting
            ],
        )
    for note in catalogue.list_notes():
        screen.note(clean_text(note))


def show_found(screen: Screen, found: SearchResult, plan: Path | None) -> None:
    """Print the ranking with intervals, the chosen offers with reasons, and the model."""
    rows = found.ranked[:MAX_SHOWN]
    screen.write_table(
        [("offer", LEFT), ("adds", LEFT), ("R2 gained", RIGHT), ("surely between", RIGHT)],
        [(one.offer, clean_text(one.name), f"{one.gain:.3f}", f"{one.low:.3f} and {one.high:.3f}") for one in rows],
    )
    drawn = found.draw_picture() if screen.draws else None
    for line in [] if drawn is None else drawn.lines(ascii_only=screen.ascii_only):
        screen.write_line(clean_text(line))
    chosen = [
        ("chosen", clean_text(f"{number}. {_describe_chosen(one)}")) for number, one in enumerate(found.chosen, start=1)
    ]
    screen.write_facts(
        [
            *(chosen or [("chosen", "none: no augmentation helps with certainty")]),
            (
                "R2",
                f"{found.base_r2:.3f} without offers, {found.r2:.3f} with the chosen ones; {found.candidates:,} "
                "candidates",
            ),
            *([("privacy", clean_lines(found.guarantee))] if found.guarantee else []),
            *([("plan", str(plan))] if plan is not None else []),
            *[("note", clean_text(note)) for note in found.notes],
        ]
    )
    screen.write_table(
        [("slope of", LEFT), (f"on {clean_text(found.model.target)}", RIGHT), ("between", RIGHT)],
        [
            (
                clean_text(one.feature),
                format_three_digits(one.value),
                f"{format_three_digits(one.low)} and {format_three_digits(one.high)}",
            )
            for one in found.model.coefficients
        ],
    )
    if found.scoring == "local":
        screen.note("Free: only your own rows were read. Publishing this result requires a separate release.")


def _describe_chosen(one: Augmentation) -> str:
    aside = "" if one.realised is None else f"; {one.realised:.3f}on held-out rows"
    return f"{one.name}: +{one.gain:.3f}{aside}"
