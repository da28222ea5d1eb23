"""Requests that schemathesis generates from the API's description, good and bad, and what must hold of each answer.

Words that random text never hits, such as a table's name or a question, are put in place of some of it, so that
requests come as far as charges, jobs and deletions. Making a case costs ten times what sending it does, so each is sent
several times, its good parts (path, query, body) exchanged for those of other cases of its operation.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi import checks

from siloquent.server.access.roles import ROUTES

NOBODY = "nobody"
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
]
FEW = 0.1
"""How many of all cases a role sends that may not."""
OFTEN: Mapping[str, int] = {"answer": 25, "explain": 4, "create_job": 2}
MIXES = 6
"""How often a case is sent, each time with other good parts."""
PARTS = MappingProxyType(
    {
        "path_parameters": ParameterLocation.PATH,
        "query": ParameterLocation.QUERY,
        "body": ParameterLocation.BODY,
    }
)
REAL_JOBS = 0.05
"""How many jobs can be done: each takes as long as a thousand requests."""
STREAMS = ("job_events",)
"""Operations whose answer need not end."""
QUESTIONS = (
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR {error}",
    "SELECT COUNT(*) FROM visits WHERE age < {low} ERROR {error} REUSE NONE",
    "SELECT SUM(cost) FROM visits WHERE ward = 'B' ERROR {error}000 REUSE NONE",
    "SELECT MEDIAN(age) FROM visits ERROR {error} ROWS REUSE NONE",
    "SELECT AVG(age) FROM visits ERROR 2 FOR AT LEAST {error} ROWS REUSE NONE",
)
"""Those that are answered; half of them cost nothing once they were asked."""
REFUSED = (
    "SELECT COUNT(*) FROM visits WHERE doctor = 'x' ERROR {error}",
    "SELECT COUNT(*) FROM visits ERROR 0.000001 REUSE NONE",
    "SELECT COUNT(*) FROM none ERROR {error}",
    "SELECT age FROM visits",
    "SELECT",
)
SPECS: Mapping[str, dict[str, Any]] = {
    "sketch": {
        "table": "visits",
        "features": ["age", "cost"],
        "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3},
        "budget": {"epsilon": "1"},
    },
    "synth": {"table": "visits", "columns": ["age", "ward"], "budget": {"epsilon": "1"}},
}


@dataclass(slots=True)
class Sent:
    """What the clients remember: who was answered what, for the comparison with the ledger and the store."""

    count: int = 0
    cases: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    answers: dict[str, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: dict[str, set[str]] = field(default_factory=lambda: {"job": set(), "upload": set(), "token": set()})
    gone: set[str] = field(default_factory=set)
    by_mode: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """What became of the requests for answers: charged, free, or a refusal's code."""


class Trial:
    """Requests to one server.

    Args:
        document: The API's description.
        texts: The text of a token by its role.
        words: What stands in place of random text, by parameter.
    """

    def __init__(
        self, address: str, document: dict[str, Any], texts: Mapping[str, str], words: Mapping[str, Sequence[str]]
    ) -> None:
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=address)
        every: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
        self.operations = [one for one in every if one.definition.raw["operationId"] not in STREAMS]
        self.sent, self._texts, self._words = Sent(), texts, words
        self._session, self._seed = requests.Session(), 0
        self._session.trust_env = False  # looking for proxies takes a third of a request

    def send(self, each: int, *, seed: int, until: float = math.inf) -> None:
        """Requests of ``each`` good and bad cases to every operation by all roles that may; some by the others.

        Args:
            until: Of ``time.monotonic()``; no operation is begun later.
        """
        for operation in random.Random(seed).sample(self.operations, len(self.operations)):
            name = operation.definition.raw["operationId"]
            for mode in MODES:
                if time.monotonic() > until:
                    return
                often = OFTEN.get(name, 1) if mode is GenerationMode.POSITIVE else 1
                self._seed += 1
                self._send(operation, mode, each * often, seed * 100_003 + self._seed)

    def _send(self, operation: Any, mode: GenerationMode, each: int, seed: int) -> None:
        """Generate cases and send each in several mixes, by one role that may and sometimes by one that may not."""
        chance, key = random.Random(seed), f"{seed}"
        may = [who for who in self._texts if who in ROUTES[operation.definition.raw["operationId"]]]
        others = [who for who in (*self._texts, NOBODY) if who not in may]
        cases = self._make_cases(operation, mode, each, seed)
        self.sent.cases += len(cases)
        good = [_copy_parts(case) for case in cases]
        for _ in range(MIXES):
            for case in cases:
                _mix(case, good, chance)
                if mode is GenerationMode.POSITIVE and chance.random() < 0.9:
                    self._with_words(case, chance)
                for who in (*may, *(other for other in others if chance.random() < FEW)):
                    self._one(case, who, mode, f"{key}-{self.sent.count}")

    def _make_cases(self, operation: Any, mode: GenerationMode, count: int, seed: int) -> list[Any]:
        made: list[Any] = []

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=count, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def make(case: Any) -> None:
            made.append(case)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make()
        except hypothesis.errors.Unsatisfiable:
            pass  # no bad request can be made: the operation takes nothing
        return made

    def _one(self, case: Any, who: str, mode: GenerationMode, key: str) -> None:
        name = case.operation.definition.raw["operationId"]
        own = {header.lower() for header in case.headers or {}}
        is_bad_key = mode is GenerationMode.NEGATIVE and "idempotency-key" in own
        headers = {} if is_bad_key else {"Idempotency-Key": key}
        if who != NOBODY:
            headers["Authorization"] = f"Bearer {self._texts[who]}"
        self.sent.count += 1
        self.sent.by_mode[mode.value] += 1
        try:
            response = case.call(headers=headers, session=self._session, timeout=120)
        except (requests.exceptions.InvalidHeader, UnicodeError):
            return  # what no client can send
        self.sent.statuses[str(response.status_code)] += 1
        # Nothing bad may be left where our header Authorization takes a bad one's place, or of an empty list or object.
        is_empty = any(value in ([], {}) for value in (case.query or {}).values())
        is_sent = "authorization" not in own and not is_empty
        self._check(case, name, response, CHECKS if is_sent else CHECKS[:-1])
        if who == NOBODY and response.status_code not in (401, 404, 405, 413, 415, 431):
            self.sent.wrong[f"{name}: {response.status_code} without a token"] += 1
        self._remember(case, name, key if headers.get("Idempotency-Key") == key else "", response)

    def _check(self, case: Any, name: str, response: Any, wanted: Sequence[Any]) -> None:
        try:
            case.validate_response(response, checks=list(wanted))
        except (Failure, FailureGroup) as failed:
            for one in getattr(failed, "exceptions", [failed]):
                first = " ".join(str(one).split())[:200]
                self.sent.wrong[f"{name}: {type(one).__name__}: {first}: {_shown(case)}"] += 1

    def _with_words(self, case: Any, chance: random.Random) -> None:
        for parameter in case.path_parameters or {}:
            if words := self._words.get(parameter, ()):
                case.path_parameters[parameter] = chance.choice(words)
        body = case.body if isinstance(case.body, dict) else {}
        if "sql" in body:
            asked = chance.choice(QUESTIONS if chance.random() < 0.8 else REFUSED)
            body["sql"] = asked.format(error=chance.randrange(200, 900), low=chance.randrange(20, 90))
            body.pop("defaults", None)
            body.pop("max_cost", None)
            if chance.random() < 0.1:
                body["max_cost"] = "0.000001"
        if "spec" in body and chance.random() < REAL_JOBS:
            body["task"] = chance.choice(list(SPECS))
            body["spec"] = dict(SPECS[body["task"]])
            body.pop("max_cost", None)
        if "toml" in body and "toml" in self._words:
            body["toml"] = chance.choice(self._words["toml"])
        if case.query and "wait" in case.query:
            case.query["wait"] = 0

    def _remember(self, case: Any, name: str, key: str, response: Any) -> None:
        sent = self.sent
        if name == "answer":
            sent.outcomes[_read_outcome(response)] += 1
        if name == "answer" and key:
            if response.status_code == 200:
                sent.answers[key] = (dict(case.body), response.content)
            elif isinstance(case.body, dict):
                sent.refused[key] = dict(case.body)
        kind = {"create_job": "job", "upload": "upload", "create_token": "token"}.get(name)
        if kind and response.status_code in (201, 202):
            sent.made[kind].add(response.json()["id"])
        if response.status_code == 204 or (name == "cancel_job" and response.status_code == 200):
            sent.gone |= {str(one) for one in (case.path_parameters or {}).values()}


def _copy_parts(case: Any) -> dict[str, Any]:
    """A case's good parts, by name."""
    return {name: deepcopy(getattr(case, name)) for name, place in PARTS.items() if _is_good(case, place)}


def _is_good(case: Any, place: ParameterLocation) -> bool:
    part = case.meta.components.get(place)
    return part is not None and part.mode is GenerationMode.POSITIVE


def _mix(case: Any, good: Sequence[Mapping[str, Any]], chance: random.Random) -> None:
    """Exchange a case's good parts for those of other cases; what is bad in it stays."""
    for name, place in PARTS.items():
        if _is_good(case, place):
            parts = [one[name] for one in good if name in one]
            if parts:
                setattr(case, name, deepcopy(chance.choice(parts)))


def _read_outcome(response: Any) -> str:
    document = response.json()
    if response.status_code != 200:
        return str(document["code"])
    cost = document["cost"]
    return "charged" if float(cost.get("epsilon", cost.get("rho", "0"))) > 0 else "free"


def _shown(case: Any) -> str:
    """A request in short: where a check failed, this is what was sent."""
    parts = {"path": case.path_parameters, "query": case.query, "body": case.body, "headers": dict(case.headers or {})}
    return str({name: value for name, value in parts.items() if value})[:400]
