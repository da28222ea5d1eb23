"""Documents with prices of long-running work: the same on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.privacy import Cost, Event
    from siloquent.schema import TableSchema
    from siloquent.search import OfferPlan
    from siloquent.share import SharePlan
    from siloquent.sketch import SketchPlan
    from siloquent.synth.engines import Plan

SKETCH_DENSITIES = (0.001, 0.01, 0.1)
"""The shares of the rows for which a sketch's plan gives its error."""


class Priced(Protocol):
    """The interface of a plan of any task that has a price."""

    @property
    def schema(self) -> TableSchema:
        """The table whose budget is charged."""

    @property
    def price(self) -> Fraction:
        """The amount that would be charged, in the account's epsilon or rho."""

    @property
    def event(self) -> Event:
        """The event that would be reserved."""


def price_words(planned: Priced) -> str:
    """Return the price, and its meaning in epsilon if the account counts in rho."""
    from siloquent.documents.ledger import format_significant
    from siloquent.privacy import convert_zcdp_to_epsilon, format_digits, get_accountant

    budget = planned.schema.budget
    book = get_accountant(budget.accountant)
    words = f"{book.symbol} {format_significant(planned.price, 'up')}"
    if budget.accountant == "zcdp":
        delta, own = budget.delta - budget.delta_events, book.compute_price(planned.event).delta
        at = f" at delta {format_digits(delta + own)}" if own else ""
        words += (
            f" (epsilon {format_digits(convert_zcdp_to_epsilon(float(planned.price), float(delta)))}{at} on its own)"
        )
    return words


def sketch_plan_document(planned: SketchPlan, left: Cost) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/sketch-plan/1``."""
    from siloquent.privacy import format_digits, get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    classes, rows, width = planned.hash_plan.shape
    errors = {str(d): planned.estimate_typical_error(d) for d in SKETCH_DENSITIES}
    return {
        "schema": "siloquent/sketch-plan/1",
        "table": planned.schema.name,
        "plan": planned.hash_plan.digest,
        "classes": classes,
        "rows": rows,
        "width": width,
        "hits": planned.hits,
        "noise": planned.noise,
        "parameter": str(planned.parameter),
        "noise_deviation": planned.noise_deviation,
        "typical_relative_error": {key: value for key, value in errors.items() if value is not None},
        "symbol": book.symbol,
        "price": format_digits(planned.price, 6),
        "left_before": format_digits(Fraction(left.amount, book.scale), 6, up=False) if left.amount else "0",
        "bytes": 8 * planned.counters,
        "seconds": planned.seconds,
        "data_touched": False,
        "notes": list(planned.notes),
    }


def synth_plan_document(planned: Plan, left: Cost) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/synth-plan/1``."""
    from siloquent.privacy import format_digits, get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    return {
        "schema": "siloquent/synth-plan/1",
        "table": planned.schema.name,
        "engine": planned.spec.engine,
        "quality": planned.spec.quality,
        "columns": list(planned.names),
        "constraints": [
            {"number": one.number, "constraint": one.text, "hard": one.hard, "kind": one.kind, "kept": one.kept}
            for one in planned.compiled.constraints
        ],
        "steps": [{"step": name, "price": price, "deviation": sd} for name, price, sd in planned.list_noises()],
        "model": planned.outline,
        "rounds": planned.rounds,
        "cells": planned.cells,
        "expected_distance": planned.expected_distance,
        "symbol": book.symbol,
        "price": format_digits(planned.price, 6),
        "price_words": price_words(planned),
        "left_before": format_digits(Fraction(left.amount, book.scale), 6, up=False) if left.amount else "0",
        "data_touched": False,
        "notes": list(planned.notes),
    }


def compute_mean_error(planned: OfferPlan, cells: int) -> float | None:
    """Return the noise's error of the mean of a key with an even share of the rows, in half ranges."""
    size = planned.schema.size_hint
    return None if size is None else planned.compute_mean_error(max(size / cells, 1))


def offer_plan_document(planned: OfferPlan, left: Cost) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/offer-plan/1``."""
    from siloquent.privacy import format_digits, get_accountant

    book = get_accountant(planned.schema.budget.accountant)
    return {
        "schema": "siloquent/offer-plan/1",
        "table": planned.schema.name,
        "features": [feature.name for feature in planned.features],
        "keys": [
            {"name": key.name, "cells": key.cells, "mean_error": compute_mean_error(planned, key.cells)}
            for key in planned.keys
        ],
        "numbers": planned.numbers,
        "noise": planned.noise,
        "parameters": [None if value is None else str(value) for value in planned.parameters],
        "symbol": book.symbol,
        "price": format_digits(planned.price, 6),
        "left_before": format_digits(Fraction(left.amount, book.scale), 6, up=False) if left.amount else "0",
        "data_touched": False,
        "notes": list(planned.notes),
    }


def share_plan_document(planned: SharePlan, left: Cost) -> dict[str, Any]:
    """Return a plan as a document of kind ``siloquent/share-plan/1``."""
    from siloquent.privacy import format_digits, get_accountant

    book, relative = get_accountant(planned.schema.budget.accountant), planned.compute_relative_noise()
    return {
        "schema": "siloquent/share-plan/1",
        "table": planned.schema.name,
        "label": planned.agreement.label.name,
        "method": planned.agreement.method,
        "trust": planned.agreement.trust,
        "agreement": planned.agreement.digest,
        "numbers": planned.numbers,
        "noise": planned.noise,
        "noise_deviation": planned.deviation,
        "relative_noise": relative,
        "symbol": book.symbol,
        "price": format_digits(planned.price, 6),
        "left_before": format_digits(Fraction(left.amount, book.scale), 6, up=False) if left.amount else "0",
        "data_touched": False,
        "notes": list(planned.notes),
    }


def plan_of_job(session: Session, task: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price of the job ``task`` with ``spec``. Does not read data; free.

    Raises:
        SiloquentError: As the task's own ``explain``; RequestError: The task has no price.
    """
    plain = dict(spec)
    left = session.get_remaining(str(spec["table"]))
    if task == "sketch":
        from siloquent.sketch import parse_spec as sketch_spec

        return sketch_plan_document(session.sketch.explain(sketch_spec(plain)), left)
    if task == "synth":
        from siloquent.synth import parse_spec as synth_spec

        return synth_plan_document(session.synth.explain(synth_spec(plain)), left)
    if task == "share":
        from siloquent.share import parse_spec as share_spec

        return share_plan_document(session.share.explain(share_spec(plain)), left)
    if task == "discover":
        from siloquent.discover import parse_spec as discover_spec
        from siloquent.documents.discoveries import build_discovery_plan_document

        prepared = session.discover.prepare_request(discover_spec(plain))
        return build_discovery_plan_document(prepared.plan, left, is_taken=bool(prepared.free_name))
    if task == "search":
        from siloquent.search import parse_spec as offer_spec

        return offer_plan_document(session.search.explain(offer_spec(plain)), left)
    from siloquent.search import parse_request

    asked = parse_request(plain)
    if asked.scoring != "platform":
        raise RequestError("Local scoring costs nothing, so there is no price.", fix='scoring = "platform"')
    return offer_plan_document(session.search.explain(asked.build_offer_spec()), left)
