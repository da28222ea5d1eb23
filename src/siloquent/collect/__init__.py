"""collect: SQL over the users of several mutually distrusting services; true values never leave a device.

    collection = design(parse_spec(text))                       # a public document that devices pin
    report = perturb(collection, "orders", rows, device)        # on the device: bytes of one length
    store = ReportStore(collection); store.ingest(report)       # the collector
    estimate(store, "SELECT AVG(amount) FROM orders JOIN profile USING (user) WHERE age < 40")

A user's reports to all services together are epsilon-DP for all of their rows; ``check`` proves it for a document.
"""

from typing import TYPE_CHECKING

from siloquent.collect.estimate import ClientAnomaly, find_client_anomalies
from siloquent.collect.measure import (
    AnotherDesign,
    Client,
    Device,
    FileMemory,
    ReportStore,
    Rows,
    UserMemory,
    build_single_row_users,
    encode_batch,
    join_dimensions,
    lock_memories,
    perturb_all,
)
from siloquent.collect.plan import DesignFinding, Prediction, check, predict
from siloquent.collect.spec import (
    REASONS,
    Aggregate,
    AggregateEstimate,
    AggregateQuery,
    AttributeRole,
    Box,
    CollectAnswer,
    Collection,
    CollectionSpec,
    Counters,
    Dimension,
    Service,
    ServiceColumn,
    parse_query,
    parse_spec,
    read_collection,
)
from siloquent.collect.task import design, estimate, perturb
from siloquent.deprecation import keep_old_methods, keep_old_names

__all__ = [
    "REASONS",
    "Aggregate",
    "AggregateEstimate",
    "AggregateQuery",
    "AnotherDesign",
    "AttributeRole",
    "Box",
    "Client",
    "ClientAnomaly",
    "CollectAnswer",
    "Collection",
    "CollectionSpec",
    "Counters",
    "DesignFinding",
    "Device",
    "Dimension",
    "FileMemory",
    "Prediction",
    "ReportStore",
    "Rows",
    "Service",
    "ServiceColumn",
    "UserMemory",
    "build_single_row_users",
    "check",
    "design",
    "encode_batch",
    "estimate",
    "find_client_anomalies",
    "join_dimensions",
    "lock_memories",
    "parse_query",
    "parse_spec",
    "perturb",
    "perturb_all",
    "predict",
    "read_collection",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Answer": "CollectAnswer",
            "Column": "ServiceColumn",
            "Estimate": "AggregateEstimate",
            "Finding": "DesignFinding",
            "Held": "UserMemory",
            "Oddity": "ClientAnomaly",
            "Role": "AttributeRole",
            "attached": "join_dimensions",
            "held": "lock_memories",
            "oddities": "find_client_anomalies",
            "one_row_each": "build_single_row_users",
            "to_bytes": "encode_batch",
        },
    )
    keep_old_methods(
        Collection,
        {
            "attributes": "list_sensitive_attributes",
            "public": "list_public_attributes",
            "channel_of": "find_channel",
            "length": "get_report_length",
        },
    )
    keep_old_methods(CollectionSpec, {"dimension": "find_dimension", "service": "get_service"})
    keep_old_methods(ReportStore, {"sizes": "count_reports"})
