"""Questions and their prices."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.remote.answers import RemoteAnswer, RemoteExplanation, parse_answer
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.exchange import Steps
from siloquent.remote.replies import UNKNOWN, UPGRADE

if TYPE_CHECKING:
    from siloquent.api import SupportsQuery
    from siloquent.explore import Answer, Query
    from siloquent.schema import AccuracyDefaults

MAX_TEXT = 2**16
"""A longer text is not searched for names of tables."""


class AskingVerbs(ApiClient):
    """The verbs ask, explain and save.

    ``defaults``: the accuracy of questions that state none; without it, the server's.
    """

    defaults: AccuracyDefaults | None

    def _build_body(self, question: str | Query | SupportsQuery) -> dict[str, Any]:
        told = {} if self.defaults is None else {"defaults": self.defaults.to_dict()}
        return {"sql": render_question(question), **told}

    @verb
    def ask(
        self, question: str | Query | SupportsQuery, *, key: str | None = None, max_cost: str | None = None
    ) -> Steps[RemoteAnswer]:
        """Answer a question; see ``siloquent.Session.ask``.

        Args:
            question: Text, a ``Query``, or a builder that produces one.
            key: An idempotency key of 1 to 64 printable characters: repeating the question with it is free. Without one
                a fresh key is made, under which the request is repeated if the connection breaks.
            max_cost: The highest price, in the account's epsilon or rho, as text.
        Raises:
            SiloquentError: as ``siloquent.Session.ask`` does.
            Unanswered: no server answered; ``spent`` says whether a charge may exist, ``key`` is the key to repeat it.
        Privacy:
            As declared for the table: charged to the token's account, once for a key, before a row is read.
        """
        body = self._build_body(question)
        if max_cost is not None:
            body["max_cost"] = max_cost
        key = require_key(key)
        reply = yield from self._send(build_call("answer", body=body, key=key))
        try:
            return parse_answer(reply.require_document(), replayed=reply.replayed)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RequestError):
            raise RequestError(
                "The server's answer cannot be read.", fix=f"{UPGRADE}, then ask with the key {key!r}", spent=UNKNOWN
            ) from None

    @verb
    def explain(self, question: str | Query | SupportsQuery) -> Steps[RemoteExplanation]:
        """Return the price of ``question``, its plan and the remaining budget. Does not read data; free.

        Raises:
            SiloquentError: as ``siloquent.Session.explain`` does.
        """
        document = yield from self._fetch_document(build_call("explain", body=self._build_body(question)))
        return RemoteExplanation(document)

    @verb
    def save(self, answer: Answer) -> Steps[str]:
        """Return the id of the release of ``answer``: the server keeps every answer as a release. Sends nothing."""
        self._require_open()
        yield from ()
        return answer.id

    def parse(self, text: str) -> Query:
        """Parse a query here; nothing is sent, so a refusal does not know the server's tables.

        An accuracy that is left out stays so: the server has the defaults.
        """
        from siloquent.explore.spec import parse_unstated

        try:
            return parse_unstated(text)
        except RequestError:
            with suppress(RequestError):  # which tables are linked is known at the server
                query = parse_unstated(text, linked=re.findall(r"\w+", text[:MAX_TEXT]))
                if query.joins:
                    return query
            raise


def render_question(question: str | Query | SupportsQuery) -> str:
    """Return a question as text."""
    from siloquent.explore import Query
    from siloquent.explore.spec import render

    if isinstance(question, str):
        return question
    return render(question if isinstance(question, Query) else question.query())


def require_key(key: str | None) -> str:
    """Return ``key``, or a fresh one; an invalid key is refused before it is sent.

    Raises:
        RequestError: the key is invalid.
    """
    if key is None:
        return f"py-{uuid.uuid4().hex[:20]}"
    if not isinstance(key, str) or not 1 <= len(key) <= 64 or not key.isascii() or not key.isprintable():
        raise RequestError("A key must have 1 to 64 printable characters.", fix=UseOption("key", str(key)[:40]))
    return key
