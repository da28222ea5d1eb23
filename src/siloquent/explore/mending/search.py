"""The search for a question that can be asked: candidates are planned, without data, until one is not refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from siloquent.errors import AccuracyUnreachable, SiloquentError, SyntaxProblem, UnknownName
from siloquent.explore.mending.clauses import list_clauses, split_items
from siloquent.explore.mending.conditions import tell_lost_conditions
from siloquent.explore.mending.slips import list_slips
from siloquent.explore.mending.words import list_words
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.render import render_offer
from siloquent.explore.spec.rewriting.name_resolution import correct_name, resolve_names
from siloquent.fixes import AskWith
from siloquent.schema import TableSchema
from siloquent.session import compute_budget_limit

MAX_TEXT, MAX_WORDS = 2_000, 16
MAX_DEPTH, MAX_STATES = 4, 8
MAX_PARSED, MAX_PLANNED, MAX_CHARACTERS = 600, 25, 60_000
"""The attempts of a search, and the characters of all of them: a long text has fewer."""
_CLAUSE = re.compile(
    r"\b(?:SELECT|FROM|WHERE|GROUP|HAVING|ORDER|ERROR|BUDGET|JOIN|WITH|UNION|COUNT|SUM|CASE)\b|[(\[{'\"`]",
    re.IGNORECASE,
)
_OF_COLUMN = re.compile(r"\b(?!COUNT\b)[A-Za-z_]+\s*\(\s*[^*()\s][^()]*\)", re.IGNORECASE)
_GROUPED = re.compile(r"\bGROUP\s+BY\b(.*?)(?=\bHAVING\b|\bORDER\b|\bERROR\b|\bBUDGET\b|$)", re.IGNORECASE | re.DOTALL)
_GROUPS_EACH = re.compile(r"\bAT\s+MOST\s+\S+\s+GROUPS?\s+EACH\b", re.IGNORECASE)
_PRICE = re.compile("ERROR|BUDGET")
_ERROR = re.compile(r"ERROR [\d.]+(?: PERCENT| ROWS)?(?:, [\d.]+(?: PERCENT| ROWS)?)*")


def mend(
    text: str, schemas: Sequence[TableSchema], *, wrong: SiloquentError | None = None, may_lose: bool = False
) -> str:
    """Return a question like ``text`` that is not refused but for its price, by the fewest corrections; "" if none.

    The search ends after a number of attempts, so that it finds the same on every machine. A condition that the
    question lacks is named in a comment at its end.

    Args:
        schemas: The tables that the asker may see.
        wrong: The refusal of ``text``, if known.
        may_lose: Whether what names an unknown column may be left out.
    Privacy:
        Reads no data; a function of the text and the declarations.
    """
    # The patterns look for clauses in any place, which takes long in a text that is nothing but such words.
    if (
        len(text) > MAX_TEXT
        or not schemas
        or len(_CLAUSE.findall(text)) > 4 * MAX_WORDS
        or max_repeated(text) > MAX_WORDS
    ):
        return ""
    found = _Search(tuple(schemas), may_lose=may_lose).run(text, wrong)
    return tell_lost_conditions(text, found) if found else ""


def max_repeated(text: str) -> int:
    """Return how often the most frequent word of clauses stands in ``text``.

    >>> max_repeated("SELECT COUNT(*) FROM a, COUNT(*)")
    2
    """
    words = Counter(found[0].upper() for found in _CLAUSE.finditer(text) if found[0].isalpha())
    return max(words.values(), default=0)


@dataclass(slots=True)
class _Search:
    """One search: the texts tried so far, and how many of them were planned.

    ``whole``: a question of which nothing may be left out.
    """

    schemas: tuple[TableSchema, ...]
    may_lose: bool = False
    seen: set[str] = field(default_factory=set)
    planned: int = 0
    characters: int = 0
    whole: str = ""

    def run(self, text: str, wrong: SiloquentError | None) -> str:
        found = self._refuse(text)
        if found is None:  # it can be planned, so it was not refused for its text
            return "" if wrong else text
        first = wrong or found
        if isinstance(first, UnknownName) and first.near is None and first.kind.startswith("value of "):
            return ""  # another value would be another question
        self.whole = text if _names_nothing(first) and not self.may_lose else ""
        spare = ""  # counts rows in place of another aggregate, so it is taken only if nothing nearer is found
        states: list[tuple[str, SiloquentError]] = [(text, first)]
        self.seen.add(_squeeze(text))
        for _ in range(MAX_DEPTH):
            following: list[tuple[int, int, str, SiloquentError]] = []
            for state, refused in states:
                for candidate in self._list_candidates(state, refused):
                    again = self._refuse(candidate)
                    if again is None and not _gives_up_an_aggregate(text, candidate):
                        return candidate
                    if again is None:
                        spare = spare or candidate
                    elif _describe(again) != _describe(refused):
                        following.append((-_rank(again), len(following), candidate, again))
                    if self._is_over():
                        return spare
            states = [
                (candidate, again) for _, _, candidate, again in sorted(following, key=lambda one: one[:2])[:MAX_STATES]
            ]
        return spare

    def _is_over(self) -> bool:
        is_long = self.characters > MAX_CHARACTERS
        return is_long or len(self.seen) > MAX_PARSED or self.planned > MAX_PLANNED

    def _list_candidates(self, text: str, refused: SiloquentError) -> Iterator[str]:
        sources: list[Callable[[], Iterator[str]]] = [
            lambda: _list_by_refusal(text, refused),
            lambda: list_words(text, self._get_mentioned(text)),
            lambda: list_slips(text, position=refused.position if isinstance(refused, SyntaxProblem) else None),
            lambda: list_clauses(text, self.schemas),
        ]
        if _is_valid(text):
            sources = [sources[0], sources[1], sources[3], sources[2]]
        for source in sources:
            for one in source():
                candidate = _squeeze(one)
                is_less = self.whole and _asks_less(self.whole, candidate)  # another column is another question
                if candidate and candidate not in self.seen and not is_less:
                    self.seen.add(candidate)
                    self.characters += len(candidate)
                    yield candidate

    def _get_mentioned(self, text: str) -> Sequence[TableSchema]:
        folded = text.casefold()
        named = [
            schema for schema in self.schemas if re.search(rf"(?<!\w){re.escape(schema.name.casefold())}(?!\w)", folded)
        ]
        return named or self.schemas

    def _refuse(self, text: str) -> SiloquentError | None:
        """Return the refusal of ``text``; None if it can be answered, be it for more than the budget.

        A price is not a fault of a text: its offer finds an accuracy that can be paid.
        """
        try:
            query = parse(text)
            schema = next((one for one in self.schemas if one.name == query.table), None)
            if schema is None:
                return UnknownName("table", query.table, [one.name for one in self.schemas])
            known = [one.name for one in self.schemas] + [one.name for each in self.schemas for one in each.public]
            for joined in (one.partition(MARK)[0] for one in query.joins):
                if joined.casefold() not in map(str.casefold, known):
                    return UnknownName("table", joined, known)
            self.planned += 1
            plan_query(
                resolve_names(replace(query, explain=False), schema), schema, left=compute_budget_limit(schema.budget)
            )
        except AccuracyUnreachable:
            return None
        except SiloquentError as refused:
            return refused
        return None


def _names_nothing(refused: SiloquentError) -> bool:
    """Return whether a text names a column, and no column is called nearly so."""
    return isinstance(refused, UnknownName) and refused.kind == "attribute" and refused.near is None


def _asks_less(text: str, candidate: str) -> bool:
    """Return whether ``candidate`` lacks a condition, the groups or an aggregate of a column that ``text`` has."""
    was, now = (len(_OF_COLUMN.findall(one)) for one in (text, candidate))
    keys = [len(split_items(found[1])) if (found := _GROUPED.search(one)) else 0 for one in (text, candidate)]
    return now < was or keys[1] < keys[0] or tell_lost_conditions(text, candidate) != candidate


def _gives_up_an_aggregate(text: str, candidate: str) -> bool:
    """Return whether ``candidate`` has fewer aggregates of a column than ``text``, and counts rows in their place."""
    was, now = (len(_OF_COLUMN.findall(one)) for one in (text, candidate))
    return now < was and candidate.count("COUNT(*)") > text.count("COUNT(*)")


def _is_valid(text: str) -> bool:
    try:
        parse(text)
    except SiloquentError:
        return False
    return True


def _squeeze(text: str) -> str:
    """Return ``text`` with single blanks between words, outside quotes as they are."""
    parts = re.split(r"('[^']*'|\"[^\"]*\")", text.strip())
    return "".join(part if at % 2 else re.sub(r"\s+", " ", part) for at, part in enumerate(parts))


def _describe(refused: SiloquentError) -> tuple[str, str]:
    return refused.code, re.sub(r"\d+", "", refused.detail)


def _rank(refused: SiloquentError) -> int:
    """Return how far a text came: a price over a plan over a parsed text, and among these the later place."""
    if isinstance(refused, AccuracyUnreachable):
        return 10**9
    return refused.position if isinstance(refused, SyntaxProblem) else 10**6


def _list_by_refusal(text: str, refused: SiloquentError) -> Iterator[str]:
    """Yield what the refusal itself names: a nearer name, a payable error, or the constant to write."""
    if isinstance(refused, UnknownName) and refused.near is not None:
        try:
            meant = correct_name(parse(text), refused)
        except SiloquentError:
            meant = None
        if meant is not None:
            yield render_offer(meant)
        yield re.sub(rf"(?<!\w){re.escape(refused.name)}(?!\w)", lambda _: str(refused.near), text)
    if refused.detail.startswith("AT MOST"):
        yield _GROUPS_EACH.sub("AT MOST 1 GROUPS EACH", text)
        yield _GROUPS_EACH.sub("", text)
    offered = refused.remedy.find(AskWith)
    if offered is not None and offered.question and offered.change and not _PRICE.match(offered.change):
        yield offered.question
    elif offered is not None and offered.change:
        yield (
            _ERROR.sub(lambda _: offered.change, text)
            if offered.change.startswith("ERROR")
            else re.sub(r"BUDGET\s+\S+\s+(?:EPSILON|RHO)(?:\s+DELTA\s+\S+)?", lambda _: offered.change, text)
        )
