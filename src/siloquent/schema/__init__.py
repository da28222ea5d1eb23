"""Declarations: attributes, domains, constraints, units, budgets. Nothing here has ever seen a row."""

from siloquent.schema.attribute import OTHER, OUTSIDE, Attribute
from siloquent.schema.bins import TOP_ALONE, is_top_alone, rules_of_bins
from siloquent.schema.constraints import (
    Comparison,
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    Place,
    parse_comparisons,
)
from siloquent.schema.domain import MOST_CELLS, Block, Classes, ClassRuns, Domain
from siloquent.schema.table import Adjacency, Budget, TableSchema, Unit

__all__ = [
    "MOST_CELLS",
    "OTHER",
    "OUTSIDE",
    "TOP_ALONE",
    "Adjacency",
    "Attribute",
    "Block",
    "Budget",
    "ClassRuns",
    "Classes",
    "Comparison",
    "Constraint",
    "DenialConstraint",
    "Domain",
    "ForeignKey",
    "FunctionalDependency",
    "Key",
    "Place",
    "TableSchema",
    "Unit",
    "is_top_alone",
    "parse_comparisons",
    "rules_of_bins",
]
