"""CASE, IF, COALESCE and other expressions that return one of several values of a row."""

from __future__ import annotations

from collections.abc import Callable

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import RESERVED
from siloquent.explore.spec.predicate import Branch, Call, Case, Compare, Expression, Predicate, Value
from siloquent.explore.spec.rewriting.members import has_more_parts

ReadValue = Callable[[Cursor], Expression]
ReadTest = Callable[[Cursor], Predicate]
MAX_CHOICES = 64
MAX_SUBJECT = 200
"""The most parts of what CASE compares, which each WHEN repeats."""
CHOOSING = ("IF", "IIF", "COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST")
_STARTS = ("word", "quoted", "number", "text")


def is_at_case(cursor: Cursor) -> bool:
    """Return whether CASE begins here, and not an attribute of that name."""
    following = cursor.following
    is_operand = following.kind in _STARTS and following.word not in RESERVED - {"NOT"}
    return cursor.is_at("CASE") and (is_operand or following.word in ("(", "-"))


def read_case(cursor: Cursor, read_value: ReadValue, read_test: ReadTest) -> Case:
    """Parse ``CASE WHEN test THEN value ... ELSE value END``, or ``CASE expression WHEN value THEN value ... END``."""
    cursor.expect("CASE")
    cursor.enter_parenthesis()
    start = cursor.token.start
    subject = None if cursor.is_at("WHEN") else read_value(cursor)
    if has_more_parts(subject, MAX_SUBJECT):
        raise SyntaxProblem(f"What CASE compares has at most {MAX_SUBJECT} parts", position=start)
    branches: list[Branch] = []
    while cursor.is_at("WHEN") or not branches:
        cursor.expect("WHEN")
        test = read_test(cursor) if subject is None else Compare(subject, "=", read_value(cursor))
        cursor.expect("THEN")
        branches.append(Branch(test, _read_value(cursor, read_value)))
        if len(branches) > MAX_CHOICES:
            raise SyntaxProblem(f"CASE takes at most {MAX_CHOICES} WHEN", position=cursor.token.start)
    otherwise = _read_value(cursor, read_value) if cursor.take("ELSE") else Value(None)
    cursor.leave_parenthesis("END")
    return Case(tuple(branches), otherwise)


def read_choice(cursor: Cursor, read_value: ReadValue, read_test: ReadTest) -> Expression:
    """Parse a call of one of ``CHOOSING``."""
    start, word = cursor.token.start, cursor.advance().word
    cursor.expect("(")
    cursor.enter_parenthesis()
    if word in ("IF", "IIF"):
        test = read_test(cursor)
        cursor.expect(",")
        value = _read_value(cursor, read_value)
        otherwise = _read_value(cursor, read_value) if cursor.take(",") else Value(None)
        cursor.leave_parenthesis()
        return Case((Branch(test, value),), otherwise)
    arguments = [read_value(cursor)]
    while cursor.take(","):
        arguments.append(read_value(cursor))
    cursor.leave_parenthesis()
    wanted = 2 if word in ("NULLIF", "IFNULL") else len(arguments)
    if not 2 <= len(arguments) <= MAX_CHOICES or len(arguments) != wanted:
        raise SyntaxProblem(f"{word} takes {'2' if word in ('NULLIF', 'IFNULL') else 'several'} values", position=start)
    name = "coalesce" if word == "IFNULL" else word.lower()
    return Call(name, arguments[0], tuple(arguments[1:]))


def _read_value(cursor: Cursor, read_value: ReadValue) -> Expression:
    """Parse a value, or NULL."""
    return Value(None) if cursor.take("NULL") else read_value(cursor)
