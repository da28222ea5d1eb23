"""Specifications and agreements: values that check themselves."""

from siloquent.share.spec.agreement import Agreement, build_agreement, find_differing_attribute, parse_agreement
from siloquent.share.spec.requests import LearnSpec, ShareSpec, TreeSpec, parse_spec

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
