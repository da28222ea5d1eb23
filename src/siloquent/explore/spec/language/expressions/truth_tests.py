"""IS TRUE, IS FALSE, IS UNKNOWN and IS DISTINCT FROM, as conditions that are never UNKNOWN themselves."""

from __future__ import annotations

from siloquent.explore.spec.predicate import (
    And,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)

MAX_TESTS = 64
"""Of a condition that is tested as a whole: each test may be around another, and takes time for every part."""


def count_tests(predicate: Predicate) -> int:
    """Count the single tests in ``predicate``, up to one more than ``MAX_TESTS``."""
    left, found = [predicate], 0
    while left and found <= MAX_TESTS:
        one = left.pop()
        if isinstance(one, Not):
            left.append(one.part)
        elif isinstance(one, (And, Or)) and one.parts:
            left += one.parts[: MAX_TESTS + 1]
        else:
            found += 1
    return found


def is_true(predicate: Predicate) -> Predicate:
    """Return the condition that holds where ``predicate`` is TRUE, and is FALSE where it is UNKNOWN."""
    if isinstance(predicate, Not):
        return is_false(predicate.part)
    if _is_settled(predicate):
        return predicate
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(map(is_true, predicate.parts)))
    return And((predicate, *_list_known(predicate)))


def is_false(predicate: Predicate) -> Predicate:
    """Return the condition that holds where ``predicate`` is FALSE, and is FALSE where it is UNKNOWN."""
    if isinstance(predicate, Not):
        return is_true(predicate.part)
    if _is_settled(predicate):
        return Not(predicate)
    if isinstance(predicate, (And, Or)):
        return (Or if isinstance(predicate, And) else And)(tuple(map(is_false, predicate.parts)))
    return And((Not(predicate), *_list_known(predicate)))


def is_unknown(predicate: Predicate) -> Predicate:
    """Return the condition that holds where ``predicate`` is UNKNOWN."""
    if isinstance(predicate, Not):
        return is_unknown(predicate.part)
    if _is_settled(predicate):
        return Or(())
    if isinstance(predicate, (And, Or)):
        return And((Not(is_true(predicate)), Not(is_false(predicate))))
    return Or(tuple(IsNull(one) for one in _list_expressions(predicate)))


def is_same(left: Expression, right: Expression) -> Predicate:
    """Return the condition that holds where both are equal or both NULL, and is never UNKNOWN."""
    equal = Compare(left, "=", right)
    if isinstance(left, Value) or isinstance(right, Value):
        return is_true(equal)
    # Inside NOT, since IS NULL of an attribute that is declared without NULL is refused where it is asked for itself.
    both_null = And((Not(Not(IsNull(left))), Not(Not(IsNull(right)))))
    return Or((is_true(equal), both_null))


def _list_expressions(test: Compare | InList | Like | IsNull) -> list[Expression]:
    """List the expressions that make ``test`` UNKNOWN where they are NULL."""
    if isinstance(test, IsNull):
        return []
    sides = [test.left, test.right] if isinstance(test, Compare) else [test.expression]
    return [side for side in sides if not isinstance(side, Value)]


def _list_known(test: Compare | InList | Like | IsNull) -> list[Predicate]:
    return [Not(IsNull(side)) for side in _list_expressions(test)]


def _is_settled(predicate: Predicate) -> bool:
    """Return whether ``predicate`` is never UNKNOWN: without this, each IS TRUE around it would make it longer."""
    if isinstance(predicate, Not):
        return _is_settled(predicate.part)
    if not isinstance(predicate, (And, Or)):
        return not _list_expressions(predicate)
    if isinstance(predicate, And) and predicate.parts:
        test = predicate.parts[0].part if isinstance(predicate.parts[0], Not) else predicate.parts[0]
        if not isinstance(test, (And, Or, Not)) and list(predicate.parts[1:]) == _list_known(test):
            return True
    return all(map(_is_settled, predicate.parts))
