"""What is declared, asked and answered; nothing here sees a row or a report."""

from siloquent.collect.spec.answer import Answer, Estimate
from siloquent.collect.spec.collection import Collection, read_collection
from siloquent.collect.spec.counters import REASONS, Counters
from siloquent.collect.spec.declared import CollectionSpec, Service, parse_spec
from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.query import Aggregate, AggregateQuery, Box, Column
from siloquent.collect.spec.role import Role
from siloquent.collect.spec.sql import parse_query

__all__ = [
    "REASONS",
    "Aggregate",
    "AggregateQuery",
    "Answer",
    "Box",
    "Collection",
    "CollectionSpec",
    "Column",
    "Counters",
    "Dimension",
    "Estimate",
    "Role",
    "Service",
    "parse_query",
    "parse_spec",
    "read_collection",
]
