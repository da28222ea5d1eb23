"""The API keeps its own description: whatever fits it or not is answered, never with an error of ours."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from journeys.served import Served

EXAMPLES = 12
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture)


def operations(served: Served) -> list[schemathesis.APIOperation]:
    """Every operation of the API."""
    schema = schemathesis.openapi.from_dict(served.app.openapi())
    schema.config.update(base_url=served.address)
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("who", ["ana", "owner"])
def test_generated_requests_are_answered_as_described_or_refused_as_problems(served: Served, who: str) -> None:
    served.ask("ana", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200", "described")
    headers = {"Authorization": f"Bearer {served.texts[who]}", "Idempotency-Key": "fuzz"}
    reached = 0
    for operation in operations(served):
        if (operation.method, operation.path) == ("get", "/v1/jobs/{job}/events"):
            continue

        @hypothesis.given(case=operation.as_strategy())
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET, database=None, derandomize=True)
        def sent(case: schemathesis.Case) -> None:
            nonlocal reached
            response = case.call(headers=headers)
            reached += 1
            case.validate_response(response, checks=CHECKS)

        sent()
    assert reached >= 10 * EXAMPLES
