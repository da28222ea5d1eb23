"""search: find the table that improves a model, without seeing it.

    spec = OfferSpec("air", features=("pm25",), keys=(KeyOf("postcode"),), budget=Budget(epsilon="1"))
    made = offer(session, spec)                     # one price, once; goes into a catalogue's folder
    found = find(session, RequestSpec("lungs", "score", ("age",), keys=("postcode",)), open_catalogue("offers"))
    table = augment(session, found.plan)            # one's own rows with the released feature and its error

Whoever has offers may ask without end. Scoring is local (one's own exact rows, free) or on a platform (own release).
"""

from siloquent.privacy.prices import Budget
from siloquent.search.catalogue import Catalogue, add_to_catalogue, load_offer, open_catalogue
from siloquent.search.domains import Feature, JoinKey
from siloquent.search.estimate.many import pooled_slopes
from siloquent.search.found import Augmentation, AugmentPlan, Coefficient, FittedModel, Found, plan_from_json
from siloquent.search.offers import Offer, offer_from_bytes
from siloquent.search.plan import OfferPlan, plan
from siloquent.search.plan.discovery import proposed, suggested
from siloquent.search.release import save_offer
from siloquent.search.spec import Accuracy, KeyOf, OfferSpec, RequestSpec, request_from_plain, spec_from_plain
from siloquent.search.task import augment, explain, find, offer

__all__ = [
    "Accuracy",
    "AugmentPlan",
    "Augmentation",
    "Budget",
    "Catalogue",
    "Coefficient",
    "Feature",
    "FittedModel",
    "Found",
    "JoinKey",
    "KeyOf",
    "Offer",
    "OfferPlan",
    "OfferSpec",
    "RequestSpec",
    "add_to_catalogue",
    "augment",
    "explain",
    "find",
    "load_offer",
    "offer",
    "offer_from_bytes",
    "open_catalogue",
    "plan",
    "plan_from_json",
    "pooled_slopes",
    "proposed",
    "request_from_plain",
    "save_offer",
    "spec_from_plain",
    "suggested",
]
