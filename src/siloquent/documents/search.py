"""Documents of offers, catalogues and search results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.search import Augmentation, AugmentPlan, Catalogue, Offer, SearchResult


def list_uses(offer: Offer) -> list[str]:
    """Return the possible uses of an offer: join, union, or both."""
    return (["join"] if offer.keys else []) + (["union"] if offer.measured.second is not None else [])


def build_offer_document(offer: Offer, folder: Path | None, key: str) -> dict[str, Any]:
    """Return an offer as a document of kind ``siloquent/offer/2``; its sums are in its file; ``key``: free with it."""
    part = offer.part
    assert part is not None
    return {
        "schema": "siloquent/offer/2",
        "id": offer.id,
        "folder": str(folder or ""),
        "table": offer.table,
        "owner": offer.owner,
        "features": [feature.name for feature in offer.features],
        "keys": [{"name": key.name, "cells": key.cells, "digest": key.digest} for key in offer.keys],
        "usable_for": list_uses(offer),
        "guarantee": offer.describe_guarantee(),
        "receipt": {"ledger": part.ledger, "seq": part.seq, "hash": part.hash},
        "notes": list(offer.notes),
        "key": key,
    }


def build_catalogue_document(
    catalogue: Catalogue, folder: Path, fitting: Sequence[tuple[str, str, str, float]]
) -> dict[str, Any]:
    """Return a document of kind ``siloquent/catalogue/2``; ``fitting``: (offer, its key, own key, share)."""
    return {
        "schema": "siloquent/catalogue/2",
        "folder": str(folder),
        "offers": [
            {
                "id": offer.id,
                "table": offer.table,
                "owner": offer.owner,
                "features": [feature.name for feature in offer.features],
                "keys": [key.name for key in offer.keys],
                "usable_for": list_uses(offer),
            }
            for offer in catalogue.offers
        ],
        "matching_keys": [
            {"offer": offer, "key": theirs, "own_key": own, "overlap": share} for offer, theirs, own, share in fitting
        ],
        "notes": catalogue.list_notes(),
    }


def build_result_document(found: SearchResult, plan: Path | None, key: str) -> dict[str, Any]:
    """Return a search result as a document of kind ``siloquent/found/1``.

    ``key``: under which the release of one's own moments is free; empty if there is none, or a job has it.
    """
    model = found.model
    return {
        "schema": "siloquent/found/1",
        "table": found.table,
        "scoring": found.scoring,
        "candidates": found.candidates,
        "base_r2": found.base_r2,
        "r2": found.r2,
        "chosen": [_build_augmentation_entry(one) for one in found.chosen],
        "ranked": [_build_augmentation_entry(one) for one in found.ranked],
        "model": {
            "target": model.target,
            "kind": model.kind,
            "intercept": model.intercept,
            "r2": model.r2,
            "coefficients": [
                {"feature": one.feature, "value": one.value, "low": one.low, "high": one.high}
                for one in model.coefficients
            ],
        },
        "plan": str(plan or ""),
        "guarantee": found.guarantee,
        "notes": list(found.notes),
        "key": key,
    }


def build_augmented_document(plan: AugmentPlan, table: str, file: Path) -> dict[str, Any]:
    """Return augmented rows as a document of kind ``siloquent/augmented/1``; the rows are in their file."""
    return {
        "schema": "siloquent/augmented/1",
        "table": table,
        "file": str(file),
        "added": [step.name for step in plan.steps],
    }


def _build_augmentation_entry(one: Augmentation) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
