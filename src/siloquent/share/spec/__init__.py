"""Specifications, agreements, encodings and releases: values that check themselves."""

from siloquent.share.spec.agreement import Agreement, build_agreement, find_differing_attribute, parse_agreement
from siloquent.share.spec.learning import LearnSpec
from siloquent.share.spec.requests import ShareSpec, TreeSpec, parse_spec

__all__ = [
    "Agreement",
    "LearnSpec",
    "ShareSpec",
    "TreeSpec",
    "build_agreement",
    "find_differing_attribute",
    "parse_agreement",
    "parse_spec",
]
