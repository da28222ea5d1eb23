"""What is asked and what is released: values that check themselves."""

from siloquent.share.spec.agreement import Agreement, agreement_from_json, agreement_of, differing_attribute
from siloquent.share.spec.asked import LearnSpec, ShareSpec, TreeSpec, spec_from_plain

__all__ = [
    "Agreement",
    "LearnSpec",
    "ShareSpec",
    "TreeSpec",
    "agreement_from_json",
    "agreement_of",
    "differing_attribute",
    "spec_from_plain",
]
