"""Tokens: the owner's accounts for people and machines."""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.remote.api_document import read_list
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import NewToken, TokenLine
from siloquent.remote.exchange import Steps
from siloquent.remote.verbs.asking import require_key


class PeopleVerbs(ApiClient):
    """The verbs for tokens: create, list and revoke them. For owners."""

    @verb
    def create_token(
        self, name: str, role: str, *, tables: Sequence[str] = (), days: int = 90, key: str | None = None
    ) -> Steps[NewToken]:
        """Create a token. Its text is in ``token`` of the result and nowhere else.

        Args:
            key: A request repeated with its key creates one token; without one a fresh key is made.
            role: owner, analyst, auditor, collector or operator.
            tables: Only these tables; none: all.
        Raises:
            RequestError, UnknownName: the token is invalid; ``code`` is ``already_made`` if the answer with its text
                was lost: revoke that token.
        """
        body = {"name": name, "role": role, "tables": list(tables), "days": days}
        return (yield from self._fetch_as(NewToken, build_call("create_token", body=body, key=require_key(key))))

    @verb
    def list_tokens(self, *, limit: int | None = None, after: str | None = None) -> Steps[list[TokenLine]]:
        """Return up to ``limit`` (1,000) tokens without secrets, oldest first, created after the token ``after``."""
        document = yield from self._fetch_document(build_call("list_tokens", query={"limit": limit, "after": after}))
        return read_list(TokenLine, document, "tokens")

    @verb
    def revoke_token(self, token: str) -> Steps[None]:
        """Revoke a token, by its id, and the browser sessions that it opened, at once."""
        yield from self._send(build_call("revoke_token", {"token": token}))
