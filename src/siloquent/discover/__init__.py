"""Discovery: the categories of a column that enough units share, or bounds of a number, as a charged release.

A declaration needs categories and bounds, which an owner may not know, and looking at private rows for them would cost
privacy that no ledger counts. ``discover`` releases them with a guarantee; ``prepare`` says first what it would cost.
"""

from siloquent.discover.plan import BoundsPlan, KeysPlan, plan
from siloquent.discover.release import DiscoveredKeys, ProposedBounds
from siloquent.discover.spec import BoundsSpec, DiscoverRequest, DiscoverSpec, KeysSpec, build_spec, parse_spec
from siloquent.discover.task import discover, prepare, save_domain

__all__ = [
    "BoundsPlan",
    "BoundsSpec",
    "DiscoverRequest",
    "DiscoverSpec",
    "DiscoveredKeys",
    "KeysPlan",
    "KeysSpec",
    "ProposedBounds",
    "build_spec",
    "discover",
    "parse_spec",
    "plan",
    "prepare",
    "save_domain",
]
