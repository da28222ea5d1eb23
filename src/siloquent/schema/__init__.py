"""Declarations: attributes, domains, constraints, units and budgets. This package never reads rows."""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_names
from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.attribute import OTHER, OUTSIDE, Attribute
from siloquent.schema.bins import TOP_ALONE, is_top_alone, list_bin_rules
from siloquent.schema.constraints import (
    AttributeRef,
    Comparison,
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    parse_comparisons,
)
from siloquent.schema.domain import MAX_CELLS, Block, Classes, ClassRuns, Domain, TooManyCells
from siloquent.schema.table import Adjacency, TableBudget, TableSchema, Unit

__all__ = [
    "MAX_CELLS",
    "OTHER",
    "OUTSIDE",
    "TOP_ALONE",
    "AccuracyDefaults",
    "Adjacency",
    "Attribute",
    "AttributeRef",
    "Block",
    "ClassRuns",
    "Classes",
    "Comparison",
    "Constraint",
    "DenialConstraint",
    "Domain",
    "ForeignKey",
    "FunctionalDependency",
    "Key",
    "TableBudget",
    "TableSchema",
    "TooManyCells",
    "Unit",
    "is_top_alone",
    "list_bin_rules",
    "parse_comparisons",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {"Budget": "TableBudget", "Place": "AttributeRef", "rules_of_bins": "list_bin_rules"},
    )
