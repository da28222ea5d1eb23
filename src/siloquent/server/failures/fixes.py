"""Fixes for clients of the API and for readers of its pages."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from types import MappingProxyType

from siloquent.fixes import AskWith, FixLanguage, RunCommand, UseOption

_REQUESTS: Mapping[str, str] = MappingProxyType(
    {
        "tables": "GET /v1/tables",
        "show": "GET /v1/tables/{0}",
        "history": "GET /v1/tables/{0}/history",
        "ledger show": "GET /v1/accounts",
        "ledger verify": "POST /v1/ledger/verify, with a token of the role owner or auditor",
        "release list": "GET /v1/releases",
        "release verify": "POST /v1/releases/{0}/verify",
        "verify": "POST /v1/releases/{0}/verify",
        "check": "POST /v1/tables/{0}/check, with a token of the role owner",
        "epoch open": 'PUT /v1/tables/{0} with "new_epoch" and If-Match, with a token of the role owner',
        "token create": "POST /v1/tokens, with a token of the role owner",
        "token list": "GET /v1/tokens, with a token of the role owner",
    }
)
_PAGES: Mapping[str, str] = MappingProxyType(
    {
        "tables": "the page /tables",
        "show": "the page /tables/{0}",
        "history": "the page /tables/{0}",
        "ledger show": "the page /budget",
        "ledger verify": "the page /ledger, as owner or auditor",
        "release list": "the page /releases",
        "release verify": "the page /releases/{0}",
        "verify": "the page /releases/{0}",
        "check": "the page /tables/{0}, as its owner",
        "epoch open": "the page /tables/{0}/edit, as its owner",
        "refresh": "the page /tables/{0}, as its owner",
    }
)
_PLACEHOLDERS = {"verify": "RELEASE", "release verify": "RELEASE"}


def _fill(template: str, action: RunCommand) -> str:
    names = [one for one in action.args if not one.startswith("-")]
    return template.replace("{0}", names[0] if names else _PLACEHOLDERS.get(action.verb, "TABLE"))


def _read_spec(action: RunCommand) -> dict[str, object]:
    """Return the arguments of a discovery as the spec of its job."""
    words = [one for one in action.args if one != "--"]
    named = words[-2:] if "--" in action.args else words[:2]
    options = words[:-2] if "--" in action.args else words[2:]
    told = {name[2:].replace("-", "_"): value for name, value in zip(options[::2], options[1::2], strict=True)}
    amounts = {name: told.pop(name) for name in ("epsilon", "rho") if name in told}
    whole = {key: int(value) if key in ("at_least", "keys_each") else value for key, value in told.items()}
    return {"table": named[0], "column": named[1], "budget": amounts, **whole}


def _read_refresh(action: RunCommand) -> dict[str, object]:
    """Return the arguments of a refresh as the body of its request."""
    named = [one for one in action.args if not one.startswith("--")]
    told: dict[str, object] = {"source": named[1]} if named[1:] else {}
    return told | ({"despite_findings": True} if "--despite-findings" in action.args else {})


def _name_owner(action: RunCommand) -> str:
    """Return a command that only runs on the machine of the workspace, with the role that runs it."""
    return f"the workspace's owner runs: {shlex.join(['siloquent', *action.verb.split(), *action.args])}"


class HttpLanguage(FixLanguage):
    """Requests of the API."""

    def format_command(self, action: RunCommand) -> str:
        """Return the request that does it, or the owner's command.

        >>> HTTP.format_command(RunCommand("show", ("visits",)))
        'GET /v1/tables/visits'
        """
        if "--help" in action.args:
            return "GET /openapi.json, which says what a spec holds"
        if action.verb == "discover":
            return f"POST /v1/jobs with {json.dumps({'task': 'discover', 'spec': _read_spec(action)})}"
        if action.verb == "refresh" and not action.by_owner:
            return f"POST /v1/tables/{action.args[0]}/refresh with {json.dumps(_read_refresh(action))}"
        if action.verb in _REQUESTS and not action.by_owner:
            return _fill(_REQUESTS[action.verb], action)
        return _name_owner(action)

    def format_question(self, action: AskWith) -> str:
        """Return the change, or the request with the question."""
        if action.change:
            return f"ask with {action.priced_change}"
        path = "explanations" if action.verb == "explain" else "answers"
        return f"POST /v1/{path} with {json.dumps({'sql': action.priced_question})}"

    def format_option(self, action: UseOption) -> str:
        """Return the field of the request's body; a key is a header."""
        if action.name == "key":
            return f"Idempotency-Key: {action.value}"
        return f"{json.dumps(action.name)}: {json.dumps(action.value, ensure_ascii=False)}"

    def format_owner(self) -> str:
        """Return the token to send."""
        return "send a token of the role owner"


class PageLanguage(FixLanguage):
    """The pages of the server, and questions as typed into their form."""

    def format_command(self, action: RunCommand) -> str:
        """Return the page that shows it, or the owner's command."""
        if "--help" in action.args:
            return "the page /help"
        if action.verb in _PAGES and not action.by_owner:
            return _fill(_PAGES[action.verb], action)
        return _name_owner(action)

    def format_question(self, action: AskWith) -> str:
        """Return the change, or the question's text."""
        return f"ask with {action.priced_change}" if action.change else action.question

    def format_option(self, action: UseOption) -> str:
        """Return the field of the spec."""
        return f"{json.dumps(action.name)}: {json.dumps(action.value, ensure_ascii=False)}"

    def format_owner(self) -> str:
        """Return the role to log in with."""
        return "log in as the owner"


HTTP = HttpLanguage()
PAGE = PageLanguage()
