"""Parsing of discoveries as text: ``DISCOVER diagnosis FROM visits AT LEAST 20 UNITS BUDGET 0.2 EPSILON``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from siloquent.discover.release import read_discovered
from siloquent.discover.spec import BoundsSpec, DiscoverSpec, build_spec, get_amount
from siloquent.errors import RequestError, SyntaxProblem
from siloquent.fixes import AskWith
from siloquent.privacy.budget import Budget
from siloquent.schema import TableSchema

GRAMMAR = (
    "DISCOVER [BOUNDS OF] column FROM table [AT LEAST n UNITS] [AT MOST k KEYS EACH] "
    "BUDGET x (EPSILON | RHO) [DELTA d] [AS name]"
)
MAX_LENGTH = 2_000
_START = re.compile(r"\s*(?:EXPLAIN\s+PRIVACY\s+)?DISCOVER\b", re.IGNORECASE)
_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"]|"")+")|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?!\w)'
    r"|(?P<word>[^\W\d][\w-]*)|(?P<end>;?\s*\Z))"
)


_WORD = re.compile(r"[^\W\d]\w*")


class _Token(NamedTuple):
    """A word, quoted name or number of the text, or its end."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class DiscoveryText:
    """A parsed discovery; ``bounds``: BOUNDS OF was written; ``explain``: only the price is asked for."""

    table: str
    column: str
    budget: Budget
    bounds: bool
    explain: bool
    at_least: int | None = None
    keys_each: int | None = None
    delta: str | None = None
    name: str | None = None

    def build_spec(self, schema: TableSchema) -> DiscoverSpec:
        """Build the spec for the table of ``schema``.

        Raises:
            UnknownName: the column is not declared. RequestError: it asks for keys of a number, or bounds of a text.
        """
        spec = build_spec(
            schema,
            self.column,
            self.budget,
            at_least=self.at_least,
            keys_each=self.keys_each,
            delta=self.delta,
            name=self.name,
        )
        if isinstance(spec, BoundsSpec) != self.bounds:
            kind = schema.domain[self.column].kind
            of = "BOUNDS OF " if isinstance(spec, BoundsSpec) else ""
            has = "bounds" if of else "values, not bounds"
            raise RequestError(
                f"{self.column!r} is of type {kind}: it has {has} to discover.",
                fix=AskWith(format_discovery(spec), verb="explain" if self.explain else "ask"),
            )
        return spec


def format_discovery(spec: DiscoverSpec) -> str:
    """Return ``spec`` as text that ``parse_discovery`` reads; the delta at which its epsilon holds is left out.

    >>> format_discovery(BoundsSpec("visits", "a b", Budget(rho="0.1")))
    'DISCOVER BOUNDS OF "a b" FROM visits BUDGET 0.1 RHO'
    """
    symbol, amount = get_amount(spec.budget)
    budget = f"{amount} {symbol.upper()}"
    table, column = _quote(spec.table), _quote(spec.column)
    if isinstance(spec, BoundsSpec):
        return f"DISCOVER BOUNDS OF {column} FROM {table} BUDGET {budget}"
    parts = [f"DISCOVER {column} FROM {table}"]
    parts += [f"AT LEAST {spec.at_least} UNITS"] if spec.at_least != 1 else []
    parts += [f"AT MOST {spec.keys_each} KEYS EACH"] if spec.keys_each != 1 else []
    parts += [f"BUDGET {budget}"]
    parts += [f"DELTA {spec.delta}"] if spec.delta is not None else []
    parts += [f"AS {_quote(spec.name)}"] if spec.name else []
    return " ".join(parts)


def describe_discovery(payload: bytes) -> str | None:
    """Return the request of a stored discovery as text, without its budget; None for other releases."""
    found = read_discovered(payload)
    if found is None:
        return None
    kind, table, column = found
    return f"DISCOVER {'BOUNDS OF ' if kind == 'bounds' else ''}{_quote(column)} FROM {_quote(table)}"


def _quote(name: str) -> str:
    is_plain = _WORD.fullmatch(name) and name.upper() not in ("BOUNDS", "FROM")
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def is_discovery(text: str) -> bool:
    """Return whether ``text`` is meant as a discovery.

    >>> is_discovery("discover diagnosis from visits budget 1 epsilon"), is_discovery("SELECT 1")
    (True, False)
    """
    return _START.match(text[:MAX_LENGTH]) is not None


def parse_discovery(text: str) -> DiscoveryText:
    """Parse a discovery.

    Raises:
        SyntaxProblem: the syntax is invalid; ``position`` and ``expected`` say where and why.

    >>> parse_discovery("DISCOVER diagnosis FROM visits AT LEAST 20 UNITS BUDGET 0.2 EPSILON").at_least
    20
    """
    if len(text) > MAX_LENGTH:
        raise SyntaxProblem(f"A discovery takes at most {MAX_LENGTH:,} characters", position=MAX_LENGTH)
    reader = _Reader(text)
    explain = reader.take("EXPLAIN")
    if explain:
        reader.expect("PRIVACY")
    reader.expect("DISCOVER")
    bounds = reader.is_at("BOUNDS") and reader.is_followed_by("OF")
    if bounds:
        reader.expect("BOUNDS")
        reader.expect("OF")
    column = reader.read_name("a column")
    reader.expect("FROM")
    table = reader.read_name("a table")
    at_least = keys_each = None
    if reader.is_at("AT") and reader.is_followed_by("LEAST"):
        reader.expect("AT", "LEAST")
        at_least = reader.read_whole()
        reader.expect("UNITS")
    if reader.is_at("AT"):
        reader.expect("AT", "MOST")
        keys_each = reader.read_whole()
        reader.expect("KEYS", "EACH")
    reader.expect("BUDGET")
    amount = reader.read_number()
    is_rho = reader.take("RHO")
    if not is_rho:
        reader.expect("EPSILON")
    delta = reader.read_number() if reader.take("DELTA") else None
    name = reader.read_name("a released domain") if reader.take("AS") else None
    reader.finish()
    budget = Budget(rho=amount) if is_rho else Budget(epsilon=amount)
    return DiscoveryText(table, column, budget, bounds, explain, at_least, keys_each, delta, name)


class _Reader:
    """A reader of the text's tokens from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._place = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._place]

    def is_at(self, word: str) -> bool:
        return self.token.kind == "word" and self.token.text.upper() == word

    def is_followed_by(self, word: str) -> bool:
        following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        return following.kind == "word" and following.text.upper() == word

    def take(self, word: str) -> bool:
        found = self.is_at(word)
        self._place += found
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self._build_problem(word)

    def read_name(self, what: str) -> str:
        token = self.token
        if token.kind not in ("word", "quoted"):
            raise self._build_problem(f"the name of {what}")
        self._place += 1
        return token.text if token.kind == "word" else token.text[1:-1].replace('""', '"')

    def read_number(self) -> str:
        token = self.token
        if token.kind != "number":
            raise self._build_problem("a number")
        self._place += 1
        return token.text

    def read_whole(self) -> int:
        token = self.token
        if token.kind != "number" or not token.text.isdigit() or len(token.text) > 12:
            raise self._build_problem("a whole number")
        self._place += 1
        return int(token.text)

    def finish(self) -> None:
        if self.token.kind != "end":
            raise self._build_problem("the end")

    def _build_problem(self, expected: str) -> SyntaxProblem:
        shown = self.token.text.strip() or "the end"
        return SyntaxProblem(
            f"{shown[:40]!r} is not expected", position=self.token.start, expected=expected, fix=GRAMMAR
        )


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, place)
        if found is None:
            raise SyntaxProblem("A character is not expected", position=place, expected="a word or number", fix=GRAMMAR)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        place = found.end()
    return tokens
