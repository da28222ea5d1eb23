"""Offers, catalogues and search results: display and JSON documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import clean_text
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.offers import build_catalogue_document, build_result_document, list_uses
from siloquent.documents.plans import mean_error, price_words

if TYPE_CHECKING:
    from siloquent.privacy import Cost
    from siloquent.search import Augmentation, Catalogue, Offer, OfferPlan, SearchResult

__all__ = [
    "build_catalogue_document",
    "build_offer_document",
    "build_result_document",
    "show_catalogue",
    "show_found",
    "show_offer",
    "show_plan",
]
MAX_SHOWN = 10


def show_plan(screen: Screen, planned: OfferPlan, left: Cost) -> None:
    """Print the price first, then the released sums and their accuracy."""
    from siloquent.documents.ledger import format_significant
    from siloquent.privacy import get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    screen.write_facts(
        [
            ("price", f"{price_words(planned)}; whoever has the offer searches for free"),
            ("left", f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"),
            ("features", clean_text(", ".join(feature.name for feature in planned.features))),
            ("released", f"{planned.numbers:,} noisy sums ({planned.noise})"),
            ("data", "not touched; nothing was spent"),
            *[("note", clean_lines(note)) for note in planned.notes],
        ]
    )
    errors = [(key.name, key.cells, mean_error(planned, key.cells)) for key in planned.keys]
    rows = [
        (clean_text(name), f"{cells:,}", f"{50 * e:.2g} % of the range") for name, cells, e in errors if e is not None
    ]
    if rows:
        screen.write_table([("key", LEFT), ("values", RIGHT), ("error of a mean by it", RIGHT)], rows)


def build_offer_document(offer: Offer, folder: Path | None) -> dict[str, Any]:
    """Return an offer as a document of kind ``siloquent/offer/1``; its sums are in its file."""
    part = offer.part
    assert part is not None
    return {
        "schema": "siloquent/offer/1",
        "id": offer.id,
        "folder": str(folder or ""),
        "table": offer.table,
        "owner": offer.owner,
        "features": [feature.name for feature in offer.features],
        "keys": [{"name": key.name, "cells": key.cells, "digest": key.digest} for key in offer.keys],
        "serves": list_uses(offer),
        "guarantee": offer.describe_guarantee(),
        "receipt": {"ledger": part.ledger, "seq": part.seq, "hash": part.hash},
        "notes": list(offer.notes),
    }


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
            *(chosen or [("chosen", "nothing: no augmentation surely helps")]),
            ("R2", f"{found.base_r2:.3f} alone, {found.r2:.3f} with the chosen; {found.candidates:,} candidates"),
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
                _format_three_digits(one.value),
                f"{_format_three_digits(one.low)} and {_format_three_digits(one.high)}",
            )
            for one in found.model.coefficients
        ],
    )
    if found.scoring == "local":
        screen.note("Free: your own rows were read for your eyes; publishing any of it is a release of its own.")


def _describe_chosen(one: Augmentation) -> str:
    aside = "" if one.realised is None else f"; {one.realised:.3f} on rows kept aside"
    return f"{one.name}: +{one.gain:.3f}{aside}"


def _format_three_digits(value: float) -> str:
    """Return three digits, as plain decimal text."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 12)}f}"
