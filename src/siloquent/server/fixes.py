"""Fixes for clients of the API: a request in place of a command, or the role that must run the command."""

from __future__ import annotations

import json
import re
import shlex

_COMMAND = re.compile(r"siloquent (?:--(?:workspace|analyst) \S+ )*([a-z-]+)(?: ([a-z-]+))?(?: (\S+))?")
_OPTIONS = (
    (re.compile(r"--max-cost ([^\s,]+)"), r'"max_cost": "\1"'),
    (re.compile(r"--key ([^\s,]+)"), r"Idempotency-Key: \1"),
    (re.compile(r"--key\b"), "Idempotency-Key"),
)
_REQUESTS = {
    "tables": "GET /v1/tables",
    "show": "GET /v1/tables/{0}",
    "history": "GET /v1/tables/{0}/history",
    "ledger show": "GET /v1/accounts",
    "ledger verify": "POST /v1/ledger/verify, with a token of the role owner or auditor",
    "release list": "GET /v1/releases",
    "token create": "POST /v1/tokens, with a token of the role owner",
    "token list": "GET /v1/tokens, with a token of the role owner",
}
_OWNER = "the workspace's owner runs"
_QUESTIONS = ("explain", "ask")


def over_http(fix: str) -> str:
    """Return ``fix`` with commands that can run only on the server replaced.

    >>> over_http("siloquent show visits")
    'GET /v1/tables/visits'
    >>> over_http("siloquent budget set visits")
    "the workspace's owner runs: siloquent budget set visits"
    """
    for option, field in _OPTIONS:
        fix = option.sub(field, fix)
    found = _COMMAND.search(fix)
    if found is None or _OWNER in fix or "owner runs" in fix[: found.start()]:
        return fix
    verb, second, third = found.groups()
    if fix[found.start() :].endswith("--help"):
        return f"{fix[: found.start()]}GET /openapi.json, which says what a spec holds"
    if verb in _QUESTIONS:
        return fix[: found.start()] + _question(verb, fix[found.start() :])
    if request := _REQUESTS.get(f"{verb} {second}"):
        return fix[: found.start()] + request.format(third or "TABLE") + _rest(fix, found.end())
    if request := _REQUESTS.get(verb):
        end = found.end(2) if second else found.end(1)
        return fix[: found.start()] + request.format(second or "TABLE") + _rest(fix, end)
    return f"{fix[: found.start()]}{_OWNER}: {fix[found.start() :]}"


def _rest(fix: str, end: int) -> str:
    """Return the text after a command, without the command's further arguments."""
    behind = re.search(r"[,;:](?: .+)?$", fix[end:])
    return behind[0] if behind else ""


def _question(verb: str, command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    text = next((word for word in words if word.startswith(("SELECT", "BIN", "EXPLAIN"))), "")
    path = "explanations" if verb == "explain" else "answers"
    return f"POST /v1/{path} with {json.dumps({'sql': text})}" if text else f"POST /v1/{path}"
