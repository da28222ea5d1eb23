"""Events, accountants and guarantees: the record of a release, its cost and its meaning.

Noise is drawn only in ``siloquent.privacy.noise``.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.privacy.accountants import (
    ATTO,
    NANO,
    PICO,
    Accountant,
    AccountantName,
    Cost,
    Price,
    PureAccountant,
    ZCDPAccountant,
    build_limit,
    get_accountant,
    parse_exact,
)
from siloquent.privacy.conversions import compute_gaussian_epsilon, convert_epsilon_to_rho, convert_zcdp_to_epsilon
from siloquent.privacy.events import (
    FREE,
    Composed,
    Disclosure,
    DiscreteGaussian,
    DiscreteLaplace,
    Disjoint,
    Event,
    ExponentialSelect,
    GeometricTopK,
    LocalReport,
    NoiseReduction,
    PermuteAndFlip,
    SampledGaussian,
    StabilityThreshold,
    SummedGaussian,
    ThresholdedGaussian,
    event_from_json,
    event_to_json,
    list_required_settings,
    parse_fraction,
)
from siloquent.privacy.guarantee import Guarantee, format_digits

__all__ = [
    "ATTO",
    "FREE",
    "NANO",
    "PICO",
    "Accountant",
    "AccountantName",
    "Composed",
    "Cost",
    "Disclosure",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Disjoint",
    "Event",
    "ExponentialSelect",
    "GeometricTopK",
    "Guarantee",
    "LocalReport",
    "NoiseReduction",
    "PermuteAndFlip",
    "Price",
    "PureAccountant",
    "SampledGaussian",
    "StabilityThreshold",
    "SummedGaussian",
    "ThresholdedGaussian",
    "ZCDPAccountant",
    "build_limit",
    "compute_gaussian_epsilon",
    "convert_epsilon_to_rho",
    "convert_zcdp_to_epsilon",
    "event_from_json",
    "event_to_json",
    "format_digits",
    "get_accountant",
    "list_required_settings",
    "parse_exact",
    "parse_fraction",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "accountant": "get_accountant",
            "digits": "format_digits",
            "epsilon_of_gaussian": "compute_gaussian_epsilon",
            "epsilon_of_zcdp": "convert_zcdp_to_epsilon",
            "exact": "parse_exact",
            "limit_of": "build_limit",
            "needs": "list_required_settings",
            "rho_of_epsilon": "convert_epsilon_to_rho",
            "told_fraction": "parse_fraction",
        },
    )
    keep_old_methods(
        Guarantee, {"epsilon_at": "compute_epsilon", "total_epsilon": "compute_total_epsilon", "sentence": "describe"}
    )
