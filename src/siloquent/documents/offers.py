"""Documents of offers, catalogues and search results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.search import Augmentation, Catalogue, Offer, SearchResult


def list_uses(offer: Offer) -> list[str]:
    """Return the possible uses of an offer: join, union, or both."""
    return (["join"] if offer.keys else []) + (["union"] if offer.measured.second is not None else [])


def build_catalogue_document(
    catalogue: Catalogue, folder: Path, fitting: Sequence[tuple[str, str, str, float]]
) -> dict[str, Any]:
    """Return a document of kind ``siloquent/catalogue/1``; ``fitting``: (offer, its key, own key, share)."""
    return {
        "schema": "siloquent/catalogue/1",
        "folder": str(folder),
        "offers": [
            {
                "id": offer.id,
                "table": offer.table,
                "owner": offer.owner,
                "features": [feature.name for feature in offer.features],
                "keys": [key.name for key in offer.keys],
                "serves": list_uses(offer),
            }
            for offer in catalogue.offers
        ],
        "fitting": [
            {"offer": offer, "key": theirs, "own": own, "contained": share} for offer, theirs, own, share in fitting
        ],
        "notes": catalogue.list_notes(),
    }


def build_result_document(found: SearchResult, plan: Path | None) -> dict[str, Any]:
    """Return a search result as a document of kind ``siloquent/found/1``."""
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
    }


def _build_augmentation_entry(one: Augmentation) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}
