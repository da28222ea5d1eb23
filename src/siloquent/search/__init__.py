"""search: find a table that improves a model, without access to its rows.

    spec = OfferSpec("air", features=("pm25",), keys=(KeyOf("postcode"),), budget=Budget(epsilon="1"))
    made = offer(session, spec)                     # one price, once; goes into a catalogue's folder
    found = find(session, RequestSpec("lungs", "score", ("age",), keys=("postcode",)), open_catalogue("offers"))
    table = augment(session, found.plan)            # own rows with the released feature and its error

Searches with given offers are unlimited. Scoring is local (own exact rows, free) or on a platform (own release).
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.privacy.budget import Budget
from siloquent.search.catalogue import Catalogue, add_to_catalogue, load_offer, open_catalogue
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.estimate.many import compute_pooled_slopes
from siloquent.search.offers import Offer, decode_offer
from siloquent.search.plan import OfferPlan, plan
from siloquent.search.plan.discovery import find_matching_keys, find_matching_offers
from siloquent.search.release import save_offer
from siloquent.search.results import (
    Augmentation,
    AugmentPlan,
    Coefficient,
    FittedModel,
    SearchResult,
    parse_augment_plan,
)
from siloquent.search.spec import KeyOf, OfferAccuracy, OfferSpec, RequestSpec, parse_request, parse_spec
from siloquent.search.task import augment, explain, find, offer

__all__ = [
    "AugmentPlan",
    "Augmentation",
    "Budget",
    "Catalogue",
    "Coefficient",
    "Feature",
    "FittedModel",
    "JoinKey",
    "KeyOf",
    "Offer",
    "OfferAccuracy",
    "OfferPlan",
    "OfferSpec",
    "RequestSpec",
    "SearchResult",
    "add_to_catalogue",
    "augment",
    "compute_pooled_slopes",
    "decode_offer",
    "explain",
    "find",
    "find_matching_keys",
    "find_matching_offers",
    "load_offer",
    "offer",
    "open_catalogue",
    "parse_augment_plan",
    "parse_request",
    "parse_spec",
    "plan",
    "save_offer",
]

if not TYPE_CHECKING:  # the names in version 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Accuracy": "OfferAccuracy",
            "Found": "SearchResult",
            "offer_from_bytes": "decode_offer",
            "plan_from_json": "parse_augment_plan",
            "pooled_slopes": "compute_pooled_slopes",
            "proposed": "find_matching_keys",
            "request_from_plain": "parse_request",
            "spec_from_plain": "parse_spec",
            "suggested": "find_matching_offers",
        },
    )
    keep_old_methods(
        Offer, {"by_key": "get_key_sums", "second": "compute_second_moments", "sentence": "describe_guarantee"}
    )
    keep_old_methods(OfferPlan, {"mean_error": "compute_mean_error"})
    keep_old_methods(SearchResult, {"picture": "draw_picture"})
