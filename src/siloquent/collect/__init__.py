"""collect: SQL over several services' users who trust none of them; nothing true ever leaves a device.

    collection = design(parse_spec(text))                       # a public document that devices pin
    report = perturb(collection, "orders", rows, device)        # on the device: bytes of one length
    store = ReportStore(collection); store.ingest(report)       # the collector
    estimate(store, "SELECT AVG(amount) FROM orders JOIN profile USING (user) WHERE age < 40")

A user's reports to all services together are epsilon-DP for all of their rows; ``check`` proves it for a document.
"""

from siloquent.collect.estimate import Oddity, oddities
from siloquent.collect.measure import (
    AnotherDesign,
    Client,
    Device,
    FileMemory,
    Held,
    ReportStore,
    Rows,
    attached,
    held,
    one_row_each,
    perturb_all,
    to_bytes,
)
from siloquent.collect.plan import Finding, Prediction, check, predict
from siloquent.collect.spec import (
    REASONS,
    Aggregate,
    AggregateQuery,
    Answer,
    Box,
    Collection,
    CollectionSpec,
    Column,
    Counters,
    Dimension,
    Estimate,
    Role,
    Service,
    parse_query,
    parse_spec,
    read_collection,
)
from siloquent.collect.task import design, estimate, perturb

__all__ = [
    "REASONS",
    "Aggregate",
    "AggregateQuery",
    "AnotherDesign",
    "Answer",
    "Box",
    "Client",
    "Collection",
    "CollectionSpec",
    "Column",
    "Counters",
    "Device",
    "Dimension",
    "Estimate",
    "FileMemory",
    "Finding",
    "Held",
    "Oddity",
    "Prediction",
    "ReportStore",
    "Role",
    "Rows",
    "Service",
    "attached",
    "check",
    "design",
    "estimate",
    "held",
    "oddities",
    "one_row_each",
    "parse_query",
    "parse_spec",
    "perturb",
    "perturb_all",
    "predict",
    "read_collection",
    "to_bytes",
]
