"""Conditions and expressions in SQL's grammar: OR < AND < NOT < comparison < + - < * // % < sign.

One grammar parses both kinds, and the result shows which it is: ``(`` may open either, and trying one and then the
other would take time exponential in the depth of the parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import cast

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.choices import CHOOSING, is_at_case, read_case, read_choice
from siloquent.explore.spec.language.expressions.functions import (
    add_interval,
    is_at_date_of_today,
    read_cast_type,
    read_date_of_today,
    read_function,
    read_interval_seconds,
)
from siloquent.explore.spec.language.expressions.literals import read_casts, read_literal
from siloquent.explore.spec.language.expressions.truth_tests import (
    MAX_TESTS,
    count_tests,
    is_false,
    is_same,
    is_true,
    is_unknown,
)
from siloquent.explore.spec.language.refusals import AGGREGATES, COMPARISONS, OTHER_AGGREGATES, WHY_NOT, Refusal
from siloquent.explore.spec.language.select.related import is_at_exists, read_exists, read_listed
from siloquent.explore.spec.predicate import (
    CHOICES,
    JOIN,
    And,
    Arithmetic,
    ArithmeticOp,
    Call,
    Case,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Through,
    Value,
    build_truth,
    find_truth,
    negate,
)
from siloquent.explore.spec.rewriting.members import has_more_parts
from siloquent.explore.spec.rewriting.normal_form import MAX_DEPTH

Node = Expression | Predicate
_PATTERNS = {
    **dict.fromkeys(("STARTS_WITH", "STARTSWITH", "PREFIX"), ("", "%")),
    **dict.fromkeys(("ENDS_WITH", "ENDSWITH", "SUFFIX"), ("%", "")),
    "CONTAINS": ("%", "%"),
}
"""Functions of two texts, as the ends of a pattern around the second."""
MAX_PARTS = 2_000
"""Of a condition that is used as a value: attributes, constants and operations."""
_TESTS = ("IN", "LIKE", "ILIKE", "BETWEEN")
_EXPRESSIONS = (Column, Value, Arithmetic, Call, Case, Through)


def read_predicate(cursor: Cursor) -> Predicate:
    """Parse the condition at the cursor: ``age > 30 AND NOT smoker``."""
    return _require_predicate(cursor, cursor.token.start, _read_or(cursor))


def read_expression(cursor: Cursor) -> Expression:
    """Parse the expression at the cursor: ``year(day)``."""
    return _require_expression(cursor, cursor.token.start, _read_or(cursor))


def read_conjunction(cursor: Cursor) -> Predicate:
    """Parse a condition in which an OR must be in parentheses, since it is joined by AND."""
    start = cursor.token.start
    read = _require_predicate(cursor, start, _read_and(cursor))
    if cursor.is_at("OR"):
        raise SyntaxProblem(
            "AND binds more tightly than OR here", position=cursor.token.start, fix="put the OR in parentheses"
        )
    return read


def _require_predicate(cursor: Cursor, start: int, node: Node) -> Predicate:
    if isinstance(node, Case) and (test := find_truth(node)) is not None:
        return test
    if isinstance(node, (Column, Case)) or (isinstance(node, Call) and node.function in CHOICES):
        return Compare(node, "=", Value(True))  # a boolean attribute is a condition by itself
    if isinstance(node, Value) and isinstance(node.value, bool):
        return And(()) if node.value else Or(())
    if isinstance(node, _EXPRESSIONS):
        if cursor.token.word in WHY_NOT or cursor.token.kind == "end":
            raise cursor.build_problem(*COMPARISONS)
        raise SyntaxProblem(
            "This is a value, not a condition", position=start, expected="a comparison such as age > 30"
        )
    return node


def _require_expression(cursor: Cursor, start: int, node: Node) -> Expression:
    if isinstance(node, _EXPRESSIONS):
        return node
    if has_more_parts(node, MAX_PARTS):  # its truth has it twice, and that of a condition about that truth four times
        raise SyntaxProblem(f"A condition that is used as a value has at most {MAX_PARTS:,} parts", position=start)
    return build_truth(node)


def _read_or(cursor: Cursor) -> Node:
    return _read_joined(cursor, "OR", _read_and, Or)


def _read_and(cursor: Cursor) -> Node:
    return _read_joined(cursor, "AND", _read_not, And)


def _read_joined(cursor: Cursor, word: str, read: Callable[[Cursor], Node], join: type[And] | type[Or]) -> Node:
    start = cursor.token.start
    first = read(cursor)
    if not cursor.is_at(word):
        return first
    parts = [_require_predicate(cursor, start, first)]
    while cursor.take(word):
        start = cursor.token.start
        parts.append(_require_predicate(cursor, start, read(cursor)))
    return join(tuple(parts))


def _read_not(cursor: Cursor) -> Node:
    nots = 0
    while cursor.take("NOT"):
        nots += 1
    start = cursor.token.start
    if nots > MAX_DEPTH:
        raise SyntaxProblem(f"Conditions are nested more than {MAX_DEPTH} levels deep", position=start)
    node = _read_comparison(cursor)
    for _ in range(nots):
        node = Not(_require_predicate(cursor, start, node))
    return node


def _read_comparison(cursor: Cursor) -> Node:
    start = cursor.token.start
    node = _read_sum(cursor)
    if op := cursor.take(*COMPARISONS):
        left = _require_expression(cursor, start, node)
        node = _build_comparison(cursor, left, cast(CompareOp, op))
    elif cursor.is_at("IS"):
        node = _read_is(cursor, start, node)
    elif cursor.is_at("ISNULL", "NOTNULL"):
        expression = _require_expression(cursor, start, node)
        node = IsNull(expression) if cursor.advance().word == "ISNULL" else Not(IsNull(expression))
    elif cursor.is_at(*_TESTS) or (cursor.is_at("NOT") and cursor.following.word in _TESTS):
        refuse = cursor.take("NOT")
        test = _read_test(cursor, _require_expression(cursor, start, node))
        node = Not(test) if refuse else test
    else:
        return node
    if cursor.is_at("IS"):
        node = _read_is(cursor, start, node)
    if cursor.is_at(*COMPARISONS, "IS", *_TESTS):
        raise SyntaxProblem(
            "Chained comparisons are not supported", position=cursor.token.start, fix="join two of them with AND"
        )
    return node


def _build_comparison(cursor: Cursor, left: Expression, op: CompareOp) -> Predicate:
    start = cursor.token.start
    if cursor.is_at("NULL"):
        raise cursor.build_refusal(Refusal("A comparison with NULL is never true.", "IS NULL, or IS NOT NULL"))
    if cursor.is_at("INTERVAL") and isinstance(left, Arithmetic) and left.op == "-":
        seconds = read_interval_seconds(cursor)
        return Compare(Call("date_diff", left.right, (left.left, Value("second"))), op, Value(seconds))
    right = _require_expression(cursor, start, _read_sum(cursor))
    if isinstance(left, Value) and isinstance(right, Value) and left.sort == right.sort and op in ("=", "!="):
        return And(()) if (left == right) == (op == "=") else Or(())  # WHERE 1 = 1
    return Compare(left, op, right)


def _read_is(cursor: Cursor, start: int, node: Node) -> Predicate:
    """Parse ``IS [NOT] NULL``, ``TRUE``, ``FALSE``, ``UNKNOWN`` or ``DISTINCT FROM expression`` behind ``node``."""
    cursor.expect("IS")
    negated = bool(cursor.take("NOT"))
    word = cursor.expect("NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT")
    if word == "NULL" and isinstance(node, _EXPRESSIONS):
        test: Predicate = IsNull(node)
    elif word == "DISTINCT":
        cursor.expect("FROM")
        test, negated = _read_same(cursor, _require_expression(cursor, start, node)), not negated
    else:
        condition = _require_predicate(cursor, start, node)
        if count_tests(condition) > MAX_TESTS:
            raise SyntaxProblem(f"IS {word} takes a condition of at most {MAX_TESTS} tests", position=start)
        test = {"TRUE": is_true, "FALSE": is_false}.get(word, is_unknown)(condition)
    return Not(test) if negated else test


def _read_same(cursor: Cursor, left: Expression) -> Predicate:
    if cursor.take("NULL"):
        return IsNull(left)
    start = cursor.token.start
    return is_same(left, _require_expression(cursor, start, _read_sum(cursor)))


def _read_test(cursor: Cursor, expression: Expression) -> Predicate:
    if cursor.take("BETWEEN"):
        start = cursor.token.start
        low = _require_expression(cursor, start, _read_sum(cursor))
        cursor.expect("AND")
        start = cursor.token.start
        high = _require_expression(cursor, start, _read_sum(cursor))
        return And((Compare(expression, ">=", low), Compare(expression, "<=", high)))
    if cursor.is_at("LIKE", "ILIKE"):
        is_folded = cursor.advance().word == "ILIKE"
        if cursor.token.kind != "text":
            raise cursor.build_problem("a pattern in single quotes, such as 'A%'")
        pattern = cursor.advance().text
        return Like(Call("lower", expression), pattern.lower()) if is_folded else Like(expression, pattern)
    cursor.expect("IN")
    cursor.expect("(")
    if cursor.is_at("SELECT"):
        return read_listed(cursor, expression, read_predicate)
    values = [_read_constant(cursor)]
    while cursor.take(","):
        values.append(_read_constant(cursor))
    cursor.expect(")")
    return InList(expression, tuple(values))


def _read_constant(cursor: Cursor) -> Constant:
    if cursor.is_at("NULL"):
        raise cursor.build_refusal(Refusal("IN never matches NULL.", "ward IN ('A', 'B') OR ward IS NULL"))
    if cursor.is_at("SELECT"):
        raise cursor.build_problem()
    is_number = cursor.is_at("-", "+") or cursor.token.kind == "number"
    value = Value(cursor.take_number("A constant")) if is_number else read_literal(cursor)
    if value is None:
        raise cursor.build_problem("a constant")
    return read_casts(cursor, value).value


def _read_sum(cursor: Cursor) -> Node:
    return _read_arithmetic(cursor, ("+", "-", JOIN), _read_product)


def _read_product(cursor: Cursor) -> Node:
    return _read_arithmetic(cursor, ("*", "/", "//", "%"), _read_operand)


def _read_arithmetic(cursor: Cursor, operators: Sequence[str], read: Callable[[Cursor], Node]) -> Node:
    start, steps = cursor.token.start, 0
    node = read(cursor)
    while op := cursor.take(*operators):
        left = _require_expression(cursor, start, node)
        if op in ("+", "-") and cursor.is_at("INTERVAL") and cursor.following.kind in ("number", "text"):
            node = add_interval(cursor, left, -1 if op == "-" else 1)
            continue
        place, steps = cursor.token.start, steps + 1
        if steps > MAX_DEPTH:
            raise SyntaxProblem(f"Expressions are nested more than {MAX_DEPTH} levels deep", position=place)
        right = _require_expression(cursor, place, read(cursor))
        node = Call(JOIN, left, (right,)) if op == JOIN else Arithmetic(left, cast(ArithmeticOp, op), right)
    return node


def _read_operand(cursor: Cursor) -> Node:
    start = cursor.token.start
    node = _read_signed(cursor)
    while cursor.take("::"):
        node = read_cast_type(cursor, _require_expression(cursor, start, node))
    return node


def _read_signed(cursor: Cursor) -> Node:
    minus = False
    signs = cursor.token.start
    while sign := cursor.take("-", "+"):
        minus ^= sign == "-"
    start = cursor.token.start
    node = _read_primary(cursor)
    if start == signs:
        return node
    expression = _require_expression(cursor, start, node)
    if not minus:
        return expression
    if isinstance(expression, Value) and isinstance(expression.value, (int, Decimal)):
        return Value(negate(expression.value))
    return Arithmetic(Value(0), "-", expression)


def _read_primary(cursor: Cursor) -> Node:
    if cursor.is_at("("):
        return _read_nested(cursor)
    if cursor.is_at("NULL"):
        raise cursor.build_refusal(
            Refusal("NULL cannot be used in an expression or comparison.", "IS NULL, or IS NOT NULL")
        )
    if cursor.token.kind == "number":
        return read_casts(cursor, Value(cursor.take_number("A constant")))
    literal = None if cursor.is_at("CAST", "TRY_CAST") else read_literal(cursor)
    if literal is not None:
        return read_casts(cursor, literal)
    if cursor.is_at("INTERVAL") and cursor.following.kind in ("number", "text"):
        raise cursor.build_refusal(WHY_NOT["INTERVAL"])
    return _read_named(cursor)


def _read_pattern(cursor: Cursor) -> Like:
    """Parse ``starts_with(ward, 'A')`` and others as LIKE."""
    word = cursor.advance().word
    cursor.expect("(")
    argument = read_expression(cursor)
    cursor.expect(",")
    if cursor.token.kind != "text":
        raise cursor.build_problem("a text in single quotes, such as 'A'")
    start, text = cursor.token.start, cursor.advance().text
    cursor.expect(")")
    if "%" in text or "_" in text:
        raise SyntaxProblem(
            f"{word} takes a text without % and _", position=start, fix="LIKE, where these are patterns"
        )
    before, after = _PATTERNS[word]
    return Like(argument, f"{before}{text}{after}")


def _read_named(cursor: Cursor) -> Node:
    """Parse CASE, a call, or an attribute."""
    if is_at_date_of_today(cursor):
        return read_date_of_today(cursor)
    if cursor.is_at(*_PATTERNS) and cursor.following.word == "(":
        return _read_pattern(cursor)
    if is_at_exists(cursor):
        return read_exists(cursor, read_predicate)
    if is_at_case(cursor):
        return read_case(cursor, read_expression, read_predicate)
    if cursor.is_at(*CHOOSING) and cursor.following.word == "(":
        return read_choice(cursor, read_expression, read_predicate)
    if cursor.token.kind == "word" and cursor.following.word == "(":
        return _read_call(cursor)
    if cursor.token.kind in ("word", "quoted"):
        name, table = cursor.take_attribute_of()
        column = Column(name)
        cursor.tables.append((column, table))
        return column
    raise cursor.build_problem("an attribute or a value")


def _read_nested(cursor: Cursor) -> Node:
    cursor.expect("(")
    if cursor.is_at("SELECT", "WITH"):
        raise cursor.build_problem()
    cursor.enter_parenthesis()
    node = _read_or(cursor)
    cursor.leave_parenthesis()
    return node


def _read_call(cursor: Cursor) -> Expression:
    word = cursor.token.word
    if word in OTHER_AGGREGATES or word in AGGREGATES:
        why = "A condition on rows cannot contain an aggregate."
        raise cursor.build_refusal(OTHER_AGGREGATES.get(word) or Refusal(why, "HAVING COUNT(*) > 100, after GROUP BY"))
    if word in WHY_NOT and word not in ("CAST", "TRY_CAST"):
        raise cursor.build_problem()
    return read_function(cursor, read_expression)
