"""Denial constraints in the grammar of Kamino's and HoloClean's ``.ic`` files, as constraints of a table file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from siloquent.errors import SyntaxProblem
from siloquent.schema.constraints import (
    MAX_COMPARISONS,
    AttributeRef,
    Comparison,
    DenialConstraint,
    FunctionalDependency,
)
from siloquent.synth.spec.compiled import Operator

OPERATORS: dict[str, Operator] = {"EQ": "=", "IQ": "!=", "LT": "<", "GT": ">", "LTE": "<=", "GTE": ">="}
_PREDICATE = re.compile(r"([A-Z]+)\((t[12])\.([^,()]+),(?:(t[12])\.([^,()]+)|\"([^\"]*)\"|'([^']*)'|([-+]?[0-9.]+))\)")


def parse_ic(text: str, *, hard: bool = True) -> tuple[DenialConstraint | FunctionalDependency, ...]:
    """Parse the constraints of an ``.ic`` file, one a line; those in the form of an FD become FDs.

    Args:
        text: Lines ``t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)``; empty lines and comment lines (``#``) are skipped.
    Raises:
        SyntaxProblem: A line is invalid; the message gives its position.

    >>> [str(one.lhs) for one in parse_ic("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)")]
    ["('zip',)"]
    """
    found = []
    offset = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            found.append(_parse_constraint(stripped, offset + line.index(stripped), hard))
        offset += len(line)
    return tuple(found)


def _parse_constraint(line: str, offset: int, hard: bool) -> DenialConstraint | FunctionalDependency:
    comparisons = []
    at = 0
    for part in line.split("&"):
        if part.strip() not in ("t1", "t2"):
            comparisons.append(_parse_comparison(part.strip(), offset + at))
        at += len(part) + 1
    if not 1 <= len(comparisons) <= MAX_COMPARISONS:
        raise SyntaxProblem(
            f"A constraint takes 1 to {MAX_COMPARISONS} predicates, not {len(comparisons)}", position=offset
        )
    dependency = _match_dependency(comparisons, hard)
    return dependency or DenialConstraint(tuple(comparisons), hard, None, " and ".join(map(str, comparisons)))


def _parse_comparison(text: str, at: int) -> Comparison:
    read = _PREDICATE.fullmatch(text)
    if read is None or read[1] not in OPERATORS:
        raise SyntaxProblem(
            f"Syntax error in the predicate {text[:60]!r}",
            position=at,
            expected="EQ(t1.a,t2.a), IQ, LT, GT, LTE or GTE",
        )
    left = AttributeRef(int(read[2][1]), read[3].strip())
    if read[4]:
        return Comparison(left, OPERATORS[read[1]], AttributeRef(int(read[4][1]), read[5].strip()))
    constant = next(part for part in (read[6], read[7], read[8]) if part is not None)
    return Comparison(left, OPERATORS[read[1]], _parse_constant(constant))


def _parse_constant(text: str) -> Decimal | str:
    """Return a number if the text parses as one; the files quote numbers and texts alike."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _match_dependency(comparisons: list[Comparison], hard: bool) -> FunctionalDependency | None:
    """Return the FD that the comparisons express, if any: equal on some attributes, different on one."""
    lhs: list[str] = []
    rhs: list[str] = []
    for one in comparisons:
        right = one.right
        other_row = isinstance(right, AttributeRef) and right.tuple_variable != one.left.tuple_variable
        if not other_row or not isinstance(right, AttributeRef) or right.attribute != one.left.attribute:
            return None
        if one.op not in ("=", "!="):
            return None
        (lhs if one.op == "=" else rhs).append(one.left.attribute)
    return FunctionalDependency(tuple(lhs), rhs[0], (), hard) if lhs and len(rhs) == 1 else None


def render_constraints_toml(constraints: Iterable[DenialConstraint | FunctionalDependency]) -> str:
    """Render the constraints as the ``constraint = [...]`` entry of a table file."""
    lines = []
    for one in constraints:
        if isinstance(one, FunctionalDependency):
            said = f'kind = "fd", lhs = {json.dumps(list(one.lhs))}, rhs = {json.dumps(one.rhs)}'
        else:
            said = f'kind = "denial", not = {json.dumps(one.text)}'
        # JSON's strings are valid TOML basic strings.
        lines.append(f"  {{ {said}, hard = {str(one.hard).lower()} }},\n")
    return f"constraint = [\n{''.join(lines)}]\n"
