"""A position in the tokens: the current token, the expected ones, and the error for any other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice, pairwise

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.language.example_names import find_names
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import (
    CLAUSES,
    COMPARISONS,
    LIMITS,
    RESERVED,
    TAIL,
    WHY_NOT,
    Refusal,
    replace_names,
)
from siloquent.explore.spec.language.tokens import Token, split_tokens
from siloquent.explore.spec.numbers import check_number
from siloquent.explore.spec.related import Related
from siloquent.explore.spec.rewriting.normal_form import MAX_DEPTH
from siloquent.fixes import Fix, FixLike, build_fix
from siloquent.schema.table import PLUS

_MAX_WORD_LENGTH = 40
MAX_PAIR = 2
"""Tables whose columns need no table in front to be told apart: private ones, and one public table."""


class Cursor:
    """A reader of one text from left to right that never goes back, so that parsing is linear in its length."""

    def __init__(self, text: str, *, takes_unstated: bool = False, linked: Collection[str] = ()) -> None:
        self.takes_unstated = takes_unstated  # whether the accuracy may be left out
        self.linked = {name.casefold() for name in linked}  # tables that share a unit, which may be joined
        self._tokens = split_tokens(text)
        self._place = 0
        self._depth = 0
        self.takes_extremes = False  # whether MIN and MAX may stand here: of one unit's rows, in a subquery
        self.tables: list[tuple[object, str]] = []  # attributes of conditions, with the names in front of them
        self.aliases: dict[str, str] = {}  # tables by their newest names, in lower case
        self.qualifiers: list[Token] = []  # names such as visits.age: checked once the table is known
        self.related: list[Related] = []  # the conditions with a subquery, in order
        self.called: dict[str, str] = {}  # tables that may be public, by their names in FROM, if it has several
        self.keeps_qualifiers = False  # whether attributes are named with their tables: within such a subquery

    @property
    def token(self) -> Token:
        """The current token."""
        return self._tokens[self._place]

    @property
    def following(self) -> Token:
        """The next token."""
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    def peek(self, places: int) -> Token:
        """Return the token so many places ahead."""
        return self._tokens[min(self._place + places, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """Return the current token and move past it."""
        token = self.token
        if token.kind != "end":
            self._place += 1
        return token

    def is_at(self, *words: str) -> bool:
        """Return whether one of these words or symbols is the current token."""
        return self.token.word in words and self.token.word != ""

    def take(self, *words: str) -> str:
        """Return one of these words or symbols and move past it; if none is the current token, return an empty text."""
        return self.advance().word if self.is_at(*words) else ""

    def expect(self, *words: str) -> str:
        """Do the same as ``take``, but raise an error if none is the current token."""
        if not self.is_at(*words):
            raise self.build_problem(*words)
        return self.advance().word

    def take_name(self, what: str) -> str:
        """Parse the name at the cursor, quoted or not."""
        token = self.token
        if token.word in RESERVED:
            raise SyntaxProblem(
                f"{token.word} is a reserved word",
                position=token.start,
                expected=f"the name of {what}",
                fix=f'write "{token.text}" in double quotes to use it as a name',
            )
        if token.kind not in ("word", "quoted"):
            raise self.build_problem(f"the name of {what}")
        return self.advance().text

    def take_attribute(self) -> str:
        """Parse an attribute's name, with its table in front or not; the table is checked once it is known."""
        return self.take_attribute_of()[0]

    def take_attribute_of(self) -> tuple[str, str]:
        """Parse as ``take_attribute``; return the name, and its table's, empty without one."""
        before, token = None, self.token
        name = self.take_name("an attribute")
        while self.take("."):
            before, token = token, self.token
            name = self.take_name("an attribute")
        if before is not None:
            self.qualifiers.append(before)
        called = "" if before is None else self.called.get(before.text.casefold(), "")
        is_marked = before is not None and (self.keeps_qualifiers or bool(called))
        marked = f"{called or before.text}{MARK}{name}" if before is not None and is_marked else name
        return marked, "" if before is None else before.text

    def call_tables(self, views: Collection[str]) -> dict[str, str]:
        """Note the names of the tables of the query that begins here, if it joins several that may be public.

        Args:
            views: The queries of WITH, which are not tables.
        Returns:
            The names noted before, of the query around this one.
        """
        before, self.called = self.called, {}
        found = list_called(self._tokens[self._place :])
        if any(table in views for table, _ in found):
            return before
        tables = [table.casefold() for table, _ in found]
        is_relation = len(found) > 1 and any(PLUS in table for table in tables)  # of joined tables
        is_mixed = sum(table in self.linked for table in tables) == 1 and not self._names_keys()
        if len(found) > MAX_PAIR or len(set(tables)) < len(tables) or is_relation or (len(found) == 2 and is_mixed):
            self.called = {name.casefold(): name for table, name in found if table.casefold() not in self.linked}
        elif not self._depth and len(found) == MAX_PAIR and self.linked.issuperset(tables) and self._has_outer_join():
            self.called = {name.casefold(): table for table, name in found[1:]}  # whose columns may be NULL
        return before

    def _names_keys(self) -> bool:
        """Return whether the text names the keys of joins by USING."""
        return any(token.word == "USING" for token in self._tokens[self._place :])

    def _has_outer_join(self) -> bool:
        """Return whether the query that begins here has a LEFT JOIN in its own FROM."""
        depth = 0
        for token in islice(self._tokens, self._place, None):
            depth += (token.word == "(") - (token.word == ")")
            if depth < 0 or token.kind == "end":
                return False
            if not depth and token.word == "LEFT":
                return True
        return False

    def has_in_item(self, words: Collection[str]) -> bool:
        """Return whether a function named by one of ``words`` is called in the item of a list that begins here."""
        depth = 0
        for token, behind in pairwise(islice(self._tokens, self._place, None)):
            if depth == 0 and token.word in (",", "FROM"):
                return False
            depth += (token.word == "(") - (token.word == ")")
            if token.word in words and behind.word == "(":
                return True
        return False

    def holds_groups(self, functions: Collection[str]) -> bool:
        """Return whether the query in the parenthesis that begins here groups rows, or calls one of ``functions``."""
        nested: list[bool] = []  # of each open parenthesis: whether it is within a further query
        for token, behind in pairwise(islice(self._tokens, self._place, None)):
            if token.word == "(":
                nested.append(bool(nested) and (nested[-1] or behind.word in ("SELECT", "WITH")))
            elif token.word == ")":
                nested.pop()
            elif not nested[-1] and (token.word == "GROUP" or (token.word in functions and behind.word == "(")):
                return True
            if not nested:
                return False
        return False

    def begins_distinct(self) -> bool:
        """Return whether ``(SELECT DISTINCT`` begins here."""
        return [one.word for one in self._tokens[self._place : self._place + 3]] == ["(", "SELECT", "DISTINCT"]

    def is_nested_call(self, functions: Collection[str]) -> bool:
        """Return whether the call here has a call of one of ``functions`` within its parentheses."""
        depth = 0
        for token, behind in pairwise(islice(self._tokens, self._place + 1, None)):
            depth += (token.word == "(") - (token.word == ")")
            if not depth:
                return False
            if token.word in functions and behind.word == "(":
                return True
        return False

    def is_call_of_text(self) -> bool:
        """Return whether the word here is followed by a single text in parentheses."""
        behind = self._tokens[self._place + 1 : self._place + 4]
        return [token.word or token.kind for token in behind] == ["(", "text", ")"]

    def begins_condition(self) -> bool:
        """Return whether the parenthesis that begins here holds a comparison, outside of functions."""
        bare: list[bool] = []  # of each open parenthesis: whether it is not that of a function
        before = ""
        for token in islice(self._tokens, self._place, None):
            if token.word == "(":
                bare.append(not bare or before in ("(", "AND", "OR"))
            elif token.word == ")":
                bare.pop()
            elif all(bare) and token.word in (*COMPARISONS, "BETWEEN"):
                return True
            if not bare:
                return False
            before = token.word or token.text
        return False

    def take_number(self, what: str) -> Decimal:
        """Parse the number at the cursor, with its sign."""
        start = self.token.start
        sign = self.take("-", "+")
        token = self.token
        if token.word in ("NAN", "INF", "INFINITY"):
            raise self.build_refusal(
                Refusal(f"{what} must be a finite number, not {token.text}.", "write it in digits")
            )
        if token.kind != "number":
            raise self.build_problem("a number")
        self.advance()
        try:
            number = Decimal(f"{sign}{token.text}")
            check_number(number, what)
        except (ArithmeticError, RequestError):
            raise SyntaxProblem(f"{what} is too large or has too many digits", position=start) from None
        return number

    def enter_parenthesis(self) -> None:
        """Enter a parenthesis."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SyntaxProblem(f"Parentheses nest more than {MAX_DEPTH} deep", position=self.token.start)

    def leave_parenthesis(self, closing: str = ")") -> None:
        """Leave a parenthesis, by its ``closing`` sign if there is one to take."""
        if closing:
            self.expect(closing)
        self._depth -= 1

    @property
    def is_over(self) -> bool:
        """Whether only one semicolon or nothing is left."""
        return self.token.kind == "end" or (self.is_at(";") and self.following.kind == "end")

    def finish(self) -> None:
        """Refuse anything but one semicolon after the query."""
        if not self.is_over:
            raise self.build_problem("the end")

    def build_problem(self, *expected: str) -> RequestError:
        """Build the error to raise because none of ``expected`` is the current token."""
        token = self.token
        if token.word in WHY_NOT:
            return self.build_refusal(WHY_NOT[token.word])
        fix = ""
        if token.kind == "end":
            detail = "The text ends unexpectedly"
        elif token.word in [clause.split()[0] for clause in CLAUSES]:
            detail = f"{token.word} is in the wrong place: the order is {', '.join(CLAUSES[:-1])}"
        elif near := _find_near(token, expected):
            detail, fix = f"Did you mean {near} instead of {token.text!r}?", f"write {near}"
        else:
            detail = f"{_format_token(token)} is not valid here"
        return SyntaxProblem(detail, position=token.start, expected=" or ".join(expected), fix=fix)

    def build_refusal(self, why: Refusal) -> RequestError:
        """Build the error to raise because the current token is understood but not supported."""
        place = f"{_format_token(self.token)} at character {self.token.start}"
        return RequestError(f"{why.reason.removesuffix('.')} ({place}).", fix=self.format_example(why.fix))

    def format_example(self, fix: FixLike) -> Fix:
        """Return ``fix`` with visits, ward and cost replaced by this query's table, key and attribute."""
        own = find_names(self._tokens)
        return build_fix(fix).map_texts(lambda text: replace_names(text, own))


def _find_near(token: Token, expected: Sequence[str]) -> str:
    """Return the one of the ``expected`` words that was probably meant; empty if none is similar."""
    # Comparing a word of 64 kB with others takes seconds, and such a word is never a typing error.
    if not 2 <= len(token.word) <= _MAX_WORD_LENGTH:
        return ""
    near = get_close_matches(token.word, [word for word in expected if word.isupper()], n=1, cutoff=0.7)
    return near[0] if near else ""


def _format_token(token: Token) -> str:
    text = token.text if len(token.text) <= _MAX_WORD_LENGTH else f"{token.text[:_MAX_WORD_LENGTH]}..."
    return "the end" if token.kind == "end" else repr(text)


_JOINS = ("JOIN", "INNER", "LEFT", "OUTER")


def list_called(tokens: Sequence[Token]) -> list[tuple[str, str]]:
    """List the tables in the FROM of the query whose SELECT list ``tokens`` begin with, each with its name there.

    Empty if a subquery is among them.
    """
    place, depth = 0, 0
    while place < len(tokens) and not (depth == 0 and tokens[place].word == "FROM"):
        depth += (tokens[place].word == "(") - (tokens[place].word == ")")
        if depth < 0 or tokens[place].kind == "end":
            return []
        place += 1
    found: list[tuple[str, str]] = []
    is_table = True
    for one, token in enumerate(tokens[place + 1 :], place + 1):
        depth += (token.word == "(") - (token.word == ")")
        if depth < 0 or token.kind == "end" or (depth == 0 and token.word in _ENDS):
            break
        if is_table and token.word == "(":
            return []
        if depth or token.word in _JOINS[1:]:
            continue
        if token.word in (",", "JOIN"):
            is_table = True
        elif is_table and token.kind in ("word", "quoted") and tokens[one + 1].word != ".":
            name = tokens[one + 2] if tokens[one + 1].word == "AS" else tokens[one + 1]
            is_alias = name.kind in ("word", "quoted") and name.word not in (*_ENDS, *_JOINS, "ON", "USING")
            found.append((token.text, name.text if is_alias else token.text))
            is_table = False
    return found


_ENDS = (*(clause.split()[0] for clause in (*CLAUSES[1:], *LIMITS, *TAIL)), "UNION", ";")
