"""The steps of a collection: design, perturb on the device, estimate. They touch no ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from siloquent.collect import estimate as estimates
from siloquent.collect import plan
from siloquent.collect.measure import Client, Device, ReportStore, join_dimensions
from siloquent.collect.spec import AggregateQuery, CollectAnswer, Collection, CollectionSpec, parse_query
from siloquent.errors import RequestError, SchemaError
from siloquent.maths.blas import limit_to_one_thread


def design(spec: CollectionSpec) -> Collection:
    """Return the public document for ``spec``: layers, oracles, thresholds, report layout, digest.

    Raises:
        SchemaError: a joint table is too large, nothing is left to report, or no device would accept the document.
    Privacy:
        Does not read data: there are no reports yet.
    """
    made = plan.design(spec)
    try:
        _load_client(made.to_json())  # as checked by devices, which refuse what they cannot prove
    except ValueError as wrong:
        raise SchemaError(f"Devices would reject this design: {wrong}.") from None
    return made


def perturb(
    collection: Collection,
    service: str,
    rows: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Mapping[str, Any]]],
    device: Device,
    *,
    tables: Mapping[str, Mapping[Any, Mapping[str, Any]]] | None = None,
) -> bytes:
    """Return one user's report, as made by the device that has ``rows``; the same bytes each time.

    Args:
        tables: Public tables that the collection's dimensions name: rows by their keys.
    Raises:
        UnknownName: the collection has no such service.
        RequestError: the client reports for all services at once, and rows of only one were given.
    Privacy:
        Local: with the user's reports to all services, pure epsilon-DP for all of their rows, in this epoch.
    """
    name = collection.spec.get_service(service).name
    try:
        client, document = _load_client(collection.to_json())
        return client.report(name, join_dimensions(document, name, rows, tables or {}), device)
    except ValueError as wrong:
        raise RequestError(f"{str(wrong).capitalize()}.") from None


@lru_cache(maxsize=8)
def _load_client(text: str) -> tuple[Client, Mapping[str, Any]]:
    document = json.loads(text)
    return Client(document), document


def estimate(store: ReportStore, question: str | AggregateQuery) -> CollectAnswer:
    """Answer ``question`` from the reports in ``store``.

    Raises:
        SyntaxProblem, UnknownName, RequestError: the question is invalid; nothing is read.
        TooFewReports: fewer reports than the collection's ``min_reports``.
    Privacy:
        Post-processing of private reports: free, any number of times.
    """
    collection = store.collection
    query = parse_query(question, collection.spec) if isinstance(question, str) else question
    channels = estimates.find_channels(collection, query)
    counted = store.tally(channels)
    with limit_to_one_thread():  # many small products, for which threads cost more than they save
        return estimates.answer(collection, query, counted)
