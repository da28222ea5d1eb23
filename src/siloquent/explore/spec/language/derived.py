"""Arithmetic and functions over aggregates in SELECT, HAVING and ORDER BY."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import (
    AnyOf,
    Derived,
    DerivedOp,
    Function,
    Kept,
    Measured,
    Number,
    Operation,
    OverGroups,
    ShownCondition,
)
from siloquent.explore.spec.language.clauses import NESTED, is_at_aggregate, read_aggregate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.literals import EXACT_TYPES, WHOLE_TYPES, read_type
from siloquent.explore.spec.language.refusals import AGGREGATES, COMPARISONS, OTHER_AGGREGATES, Refusal
from siloquent.explore.spec.predicate import CompareOp
from siloquent.explore.spec.rewriting.normal_form import FLIPPED, MAX_DEPTH

_OUTSIDE = Refusal(
    "An expression of aggregates cannot contain an attribute outside them.",
    "select the key by itself: SELECT ward, 100 * COUNT(*)",
)
_PARTITION = Refusal("A window covers all groups.", "OVER (), or GROUP BY fewer keys in another query")
_RANKS = ("RANK", "DENSE_RANK", "ROW_NUMBER")
_WHOLE = Refusal("// and % are not available for aggregates.", "use /, with FLOOR for whole numbers")
FUNCTIONS = (
    *("ROUND", "FLOOR", "CEIL", "CEILING", "ABS", "COALESCE", "IFNULL", "NULLIF", "CAST", "TRY_CAST"),
    *("SQRT", "LN", "LOG", "LOG10", "EXP", "SIGN", "POWER", "POW", "GREATEST", "LEAST", "SAFE_DIVIDE"),
)
_SEVERAL = ("COALESCE", "IFNULL", "NULLIF", "POWER", "POW", "GREATEST", "LEAST", "SAFE_DIVIDE")
_PAIRS = ("NULLIF", "IFNULL", "POWER", "POW", "SAFE_DIVIDE")
_SPELLINGS = {"CEILING": "ceil", "IFNULL": "coalesce", "LOG": "log10", "POW": "power"}


@dataclass(slots=True)
class ValueReader:
    """A reader of expressions; ``measured`` collects their aggregates, each once; ``names``: columns named before."""

    cursor: Cursor
    measured: list[Aggregate] = field(default_factory=list)
    names: Mapping[str, Derived] = field(default_factory=dict)
    unknown: Refusal = _OUTSIDE

    def read(self) -> Derived:
        """Parse an expression: ``100.0 * SUM(cost) / COUNT(*)``."""
        return self._read_chain(("+", "-"), self._read_product)

    def read_conditions(self) -> list[Kept]:
        """Parse comparisons joined by AND and OR, in parentheses or not; the result is joined by AND."""
        parts = [self._read_together()]
        while self.cursor.take("OR"):
            parts.append(self._read_together())
        return parts[0] if len(parts) == 1 else [AnyOf(tuple(map(tuple, parts)))]

    def _read_together(self) -> list[Kept]:
        found = self._read_condition()
        while self.cursor.take("AND"):
            found += self._read_condition()
        return found

    def _read_condition(self) -> list[Kept]:
        """Parse a comparison of two expressions, BETWEEN as two of them, or conditions in parentheses."""
        if self.cursor.is_at("(") and self.cursor.begins_condition():
            self.cursor.advance()
            self.cursor.enter_parenthesis()
            found = self.read_conditions()
            self.cursor.leave_parenthesis()
            return found
        left = self.read()
        if self.cursor.take("BETWEEN"):
            low = self.read()
            self.cursor.expect("AND")
            return [ShownCondition(left, ">=", low), ShownCondition(left, "<=", self.read())]
        op = cast(CompareOp, self.cursor.expect(*COMPARISONS))
        right = self.read()
        return [
            ShownCondition(right, FLIPPED[op], left) if isinstance(left, Number) else ShownCondition(left, op, right)
        ]

    def _read_product(self) -> Derived:
        found = self._read_chain(("*", "/"), self._read_signed)
        if self.cursor.is_at("//", "%"):
            raise self.cursor.build_refusal(_WHOLE)
        return found

    def _read_chain(self, operators: tuple[str, ...], read: Callable[[], Derived]) -> Derived:
        found, steps = read(), 0
        while op := self.cursor.take(*operators):
            steps += 1
            if steps > MAX_DEPTH:
                place = self.cursor.token.start
                raise SyntaxProblem(f"Expressions are nested more than {MAX_DEPTH} levels deep", position=place)
            found = Operation(found, cast(DerivedOp, op), read())
        return found

    def _read_signed(self) -> Derived:
        minus = False
        while sign := self.cursor.take("-", "+"):
            minus ^= sign == "-"
        found = self._read_primary()
        while self.cursor.take("::"):
            found = self._cast(found)
        if not minus:
            return found
        if isinstance(found, Number):
            return Number(found.number.copy_negate() if found.number else found.number)
        return Operation(Number(Decimal(0)), "-", found)

    def _read_primary(self) -> Derived:
        cursor = self.cursor
        if cursor.token.kind == "number":
            return Number(cursor.take_number("A constant"))
        if cursor.is_at(*_RANKS) and cursor.following.word == "(":
            return self._read_rank()
        if cursor.is_at("SUM") and cursor.is_nested_call(AGGREGATES):
            return self._read_total()
        if is_at_aggregate(cursor):
            return self._find(read_aggregate(cursor))
        if cursor.is_at("("):
            cursor.advance()
            return self._read_nested()
        if cursor.is_at(*FUNCTIONS) and cursor.following.word == "(":
            return self._read_function()
        if cursor.token.kind in ("word", "quoted") and cursor.following.word != "(":
            named = self.names.get(cursor.token.text.casefold())
            if named is None:
                raise cursor.build_refusal(self.unknown)
            cursor.advance()
            return named
        raise cursor.build_problem("an aggregate, a number, or one of " + ", ".join(FUNCTIONS))

    def _read_total(self) -> Derived:
        """Parse ``SUM(COUNT(*)) OVER ()``: the total of all groups."""
        cursor = self.cursor
        nested = cursor.build_refusal(NESTED)
        cursor.advance()
        cursor.advance()
        value = self._read_nested()
        if not cursor.is_at("OVER"):
            raise nested
        cursor.advance()
        self._open_window()
        cursor.expect(")")
        return OverGroups("sum", value)

    def _read_rank(self) -> Derived:
        """Parse ``RANK() OVER (ORDER BY COUNT(*) DESC)``."""
        cursor = self.cursor
        refusal = cursor.build_refusal(OTHER_AGGREGATES[cursor.token.word])
        name = cursor.advance().word.lower()
        for word in ("(", ")", "OVER"):
            cursor.expect(word)
        self._open_window()
        if not cursor.take("ORDER"):
            raise refusal
        cursor.expect("BY")
        value, direction = self.read(), cursor.take("ASC", "DESC")
        cursor.expect(")")
        return OverGroups(name, value, direction == "DESC")  # type: ignore[arg-type]

    def _open_window(self) -> None:
        self.cursor.expect("(")
        if self.cursor.is_at("PARTITION"):
            raise self.cursor.build_refusal(_PARTITION)

    def _find(self, aggregate: Aggregate) -> Measured:
        if aggregate not in self.measured:
            self.measured.append(aggregate)
        return Measured(self.measured.index(aggregate))

    def _read_nested(self) -> Derived:
        self.cursor.enter_parenthesis()
        found = self.read()
        self.cursor.leave_parenthesis()
        return found

    def _read_function(self) -> Derived:
        cursor = self.cursor
        word = cursor.advance().word
        cursor.expect("(")
        cursor.enter_parenthesis()
        arguments, decimals = [self.read()], 0
        if word in ("CAST", "TRY_CAST"):
            cursor.expect("AS")
            found = self._cast(arguments[0])
            cursor.leave_parenthesis()
            return found
        if word == "ROUND" and cursor.take(","):
            decimals = int(cursor.take_number("The decimal places of ROUND"))
        while word in _SEVERAL and cursor.take(","):
            arguments.append(self.read())
        if word in _PAIRS and len(arguments) != 2:
            raise cursor.build_problem(f"two arguments of {word}")
        cursor.leave_parenthesis()
        if word == "SAFE_DIVIDE":
            return Operation(arguments[0], "/", arguments[1])
        name = _SPELLINGS.get(word, word.lower())
        return Function(name, tuple(arguments), decimals)  # type: ignore[arg-type]

    def _cast(self, value: Derived) -> Derived:
        """Parse a type: whole numbers are rounded to, decimals with a scale too; all others are exact already."""
        word, scale = read_type(self.cursor, *EXACT_TYPES, *WHOLE_TYPES)
        if word in WHOLE_TYPES:
            return Function("round", (value,))
        return value if scale is None else Function("round", (value,), scale)
