"""Declarations, questions and answers; this code sees neither rows nor reports."""

from siloquent.collect.spec.answer import AggregateEstimate, CollectAnswer
from siloquent.collect.spec.collection import Collection, read_collection
from siloquent.collect.spec.collection_spec import CollectionSpec, Service, parse_spec
from siloquent.collect.spec.counters import REASONS, Counters
from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.query import Aggregate, AggregateQuery, Box, ServiceColumn
from siloquent.collect.spec.role import AttributeRole
from siloquent.collect.spec.sql import parse_query

__all__ = [
    "REASONS",
    "Aggregate",
    "AggregateEstimate",
    "AggregateQuery",
    "AttributeRole",
    "Box",
    "CollectAnswer",
    "Collection",
    "CollectionSpec",
    "Counters",
    "Dimension",
    "Service",
    "ServiceColumn",
    "parse_query",
    "parse_spec",
    "read_collection",
]
