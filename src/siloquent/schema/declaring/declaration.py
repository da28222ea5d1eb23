"""Declarations in Python that are asked for from the names and types of a frame or file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypedDict

from siloquent.errors import RequestError
from siloquent.readable import Readable
from siloquent.schema.attribute import Attribute
from siloquent.schema.declaring.answers import GivenAnswers
from siloquent.schema.declaring.columns import RawSource
from siloquent.schema.declaring.compose import compose_table_file
from siloquent.schema.declaring.copying.lists import build_list_finder, list_declared_columns
from siloquent.schema.declaring.declared_table import BUDGET_EXAMPLE, UNIT_EXAMPLE, require_type
from siloquent.schema.declaring.draft import TableDraft, apply_answers, say_columns, set_meanings, start_draft
from siloquent.schema.declaring.questions import DeclarationQuestion, decide_defaults, list_open_questions
from siloquent.schema.declaring.statements import split_statement
from siloquent.schema.declaring.summary import describe_table
from siloquent.schema.files.toml import quote_text
from siloquent.schema.meaning import describe_meaning
from siloquent.schema.table import TableBudget, TableSchema, Unit

if TYPE_CHECKING:
    from siloquent.schema.workspace import Workspace

MAX_SHOWN = 60
Amount = str | int | float | Decimal | Fraction
_AMOUNTS = (str, int, float, Decimal, Fraction)
Meant = str | Sequence[str] | Attribute
"""The meaning of a column in Python: a short text, a list of values, or a declared attribute to copy."""


class DeclarationAnswers(TypedDict, total=False):
    """The answers about a whole table, as keyword arguments."""

    accept: bool
    empty: str
    outside: str
    person: str | None
    max_rows: int | str
    adjacency: str
    accountant: str
    days: str
    decimal: str
    rows: int | str
    epsilon: Amount
    delta: Amount
    delta_events: Amount
    unit: Unit
    budget: TableBudget


@dataclass(frozen=True, slots=True, repr=False)
class DeclarationDraft(Readable):
    """A declaration in the making: it shows what is decided, proposed and open, and ``say`` takes in more answers."""

    draft: TableDraft
    origin: str
    budget: TableBudget | None = None

    def say(
        self,
        columns: Mapping[str, Meant] | None = None,
        *,
        accept: bool | None = None,
        empty: str | None = None,
        person: str | None = None,
        max_rows: int | str | None = None,
        rows: int | str | None = None,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        delta_events: Amount | None = None,
        outside: str | None = None,
        adjacency: str | None = None,
        accountant: str | None = None,
        days: str | None = None,
        decimal: str | None = None,
        unit: Unit | None = None,
        budget: TableBudget | None = None,
    ) -> DeclarationDraft:
        """Return the declaration with more answers.

        Args:
            columns: By names, patterns or ``rest``: ``{"age": "0..120", "sex": ["F", "M"], "BILL_*": "0..10000"}``.
            accept: Whether the proposals from names and types are right.
            empty: What NULL means: ``group``, ``drop``, or ``"age = drop; rest = group"``.
            person: The column that says whose row it is; ``"none"``: each row is another person.
            max_rows: How many rows of one person count.
            rows: How many rows there are, roughly and publicly.
            epsilon, delta: What all answers together may reveal.
            delta_events: The part of delta for discoveries: ``"yes"``, a tenth; ``"no"``; or an amount.
            outside: What becomes of values beyond bounds: ``clamp``, ``drop``, or ``"age = drop; rest = clamp"``. By
                default numbers are clamped, dates dropped.
            adjacency: What stays hidden of a person: ``add-remove`` (the default) or ``replace-one``.
            accountant: How costs add up: ``zcdp`` (the default) or ``pure``.
            days: How the file writes the 31st of December: ``"31.12.2024"``, or a format.
            decimal: How the file writes a number with decimals: ``"12,50"`` or ``"1.234,50"``.
            unit: Instead of ``person`` and ``max_rows``: ``Unit.person("patient", max_rows=4)``.
            budget: Instead of ``epsilon`` and deltas: ``TableBudget.of("1", delta="1e-6")``.
        Raises:
            RequestError: an answer is not understood; all faults are in the message, each with its argument.
        """
        for argument, value, kinds, example in (
            ("columns", columns, (Mapping,), '{"age": "0..120", "sex": ["F", "M"]}'),
            ("accept", accept, (bool,), "True"),
            ("empty", empty, (str,), '"drop"'),
            ("person", person, (str,), '"patient"'),
            ("max_rows", max_rows, (int, str), "4"),
            ("rows", rows, (int, str), "10000"),
            ("epsilon", epsilon, _AMOUNTS, '"1"'),
            ("delta", delta, _AMOUNTS, '"1e-6"'),
            ("delta_events", delta_events, _AMOUNTS, '"1e-7"'),
            ("outside", outside, (str,), '"drop"'),
            ("adjacency", adjacency, (str,), '"replace-one"'),
            ("accountant", accountant, (str,), '"pure"'),
            ("days", days, (str,), '"31.12.2024"'),
            ("decimal", decimal, (str,), '"12,50"'),
            ("unit", unit, (Unit,), UNIT_EXAMPLE),
            ("budget", budget, (TableBudget,), BUDGET_EXAMPLE),
        ):
            require_type(argument, value, (*kinds, type(None)), example)
        if unit is not None:
            _refuse_both("unit", person=person, max_rows=max_rows)
            person, max_rows = ("none", None) if unit.kind == "row" else (unit.column, unit.max_rows)
        if budget is not None:
            _refuse_both("budget", epsilon=epsilon, delta=delta, delta_events=delta_events, accountant=accountant)
        answers: dict[str, object] = {"accept": accept, "empty": empty, "outside": outside, "person": person}
        answers |= {"max_rows": max_rows, "adjacency": adjacency, "rows": rows, "accountant": accountant}
        answers |= {"days": days, "decimal": decimal}
        answers |= {"epsilon": epsilon, "delta": delta, "delta_events": delta_events}
        return self._take(columns or {}, answers, budget)

    def _take(
        self, columns: Mapping[str, Meant], answers: Mapping[str, object], budget: TableBudget | None
    ) -> DeclarationDraft:
        faults: list[tuple[str, RequestError]] = []
        draft = self.draft
        for name, meant in columns.items():
            try:
                draft = _say_meaning(draft, name, meant)
            except RequestError as wrong:
                faults.append(("columns", wrong))
        for argument, value in answers.items():
            if value is not None:
                typed: object = value if isinstance(value, bool) else str(value)
                draft, wrongs = apply_answers(draft, GivenAnswers(**{argument: typed}))  # type: ignore[arg-type]
                faults += [(argument, wrong) for wrong in wrongs]
        if faults:
            if len(faults) == 1:
                argument, fault = faults[0]
                raise RequestError(f"{argument}: {fault.detail}", fix=fault.remedy)
            told = (
                f"{argument}: {one.detail}{f' Fix: {one.fix}.' if one.fix else ''}" for argument, one in faults[:20]
            )
            raise RequestError(" ".join(told), fix="correct these answers; the others are understood")
        return replace(self, draft=draft, budget=budget or self.budget)

    @property
    def questions(self) -> list[DeclarationQuestion]:
        """The questions that need an answer; others take their default."""
        return self._decide()[1]

    def _decide(self) -> tuple[TableDraft, list[DeclarationQuestion]]:
        """Return the draft with defaults where there are some, and the questions that need an answer."""
        draft = self.draft
        while found := list(list_open_questions(draft)):
            needed = [question for question in found if question.default is None or question.key == "accept"]
            if needed:
                return draft, needed
            draft = decide_defaults(draft)
        return draft, []

    def to_toml(self) -> str:
        """Return the commented table file; open questions that have a default take it.

        Raises:
            RequestError: other questions are open.
        """
        draft, needed = self._decide()
        if needed:
            told = " ".join(question.text for question in needed[:20])
            raise RequestError(f"Questions are open: {told}", fix=f"declaration.say({_suggest_call(needed)})")
        return compose_table_file(draft, origin=self.origin, budget=self.budget)

    def to_schema(self) -> TableSchema:
        """Return the declaration as sessions take it.

        Raises:
            RequestError: questions are open.
        """
        from siloquent.schema.build import parse_schema

        return parse_schema(self.to_toml())

    def __str__(self) -> str:
        return "\n".join(self._describe())

    def _describe(self) -> list[str]:
        draft = self.draft
        lines = [f"Declaration of {draft.name}: {len(draft.columns):,} columns of {self.origin}; no row was read"]
        for column in draft.columns[:MAX_SHOWN]:
            if column.name in draft.meanings:
                told = describe_meaning(draft.meanings[column.name])
            elif column.name in draft.proposals and draft.answers.accept is not False:
                told = f"{draft.proposals[column.name].meaning}  (proposed from {draft.proposals[column.name].reason})"
            else:
                told = f"?  ({column.holds})" if column.holds else "?"
            lines.append(f"  {column.shown}: {told}")
        lines += [f"  and {len(draft.columns) - MAX_SHOWN:,} more"] if len(draft.columns) > MAX_SHOWN else []
        needed = self.questions
        lines += [f"Open: {question.text} {question.hint}" for question in needed[:5]]
        lines += [f"Open: {len(needed) - 5:,} more questions"] if len(needed) > 5 else []
        if needed:
            return [*lines, f"Next: declaration.say({_suggest_call(needed)})"]
        decided = self._decide()[0]
        budget = f"{self.budget} (accountant {self.budget.accountant})" if self.budget else ""
        lines += [f"{line[0].upper()}{line[1:]}." for line in describe_table(decided, budget=budget)]
        opens = "add_table(declaration)" if draft.source.address else "add_frame(declaration, frame)"
        return [*lines, f"Complete. Next: session.{opens}, or declaration.to_toml()"]


def begin_declaration(source: RawSource, workspace: Workspace | None, *, name: str, origin: str) -> DeclarationDraft:
    """Return the declaration of ``source`` with nothing answered."""
    finder = build_list_finder(workspace, source.address)
    declared = list_declared_columns(workspace, name)
    return DeclarationDraft(start_draft(source, name=name, find_list=finder, declared=declared), origin)


def _refuse_both(argument: str, **others: object) -> None:
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise RequestError(
            f"{argument}: {' and '.join(given)} would say the same again.", fix=f"leave out {' and '.join(given)}"
        )


def _say_meaning(draft: TableDraft, name: str, meant: Meant) -> TableDraft:
    """Take in the meaning of the columns that ``name`` names."""
    if not isinstance(name, str):
        raise RequestError(f"A column's name must be a string, not {type(name).__name__}.", fix='{"age": "0..120"}')
    subject = quote_text(name) if name in {column.name for column in draft.columns} else name
    if isinstance(meant, str):
        return say_columns(draft, f"{subject} = {meant}")
    if isinstance(meant, Attribute):
        chosen, _ = split_statement(f"{subject} = id", draft.columns, draft.rest_columns)
        copied = meant.to_meaning()
        return set_meanings(draft, {column.name: copied for column in chosen or ()})
    if not isinstance(meant, Sequence):
        raise RequestError(
            f"The meaning of {name!r} must be a string, a list of values or an Attribute, not {type(meant).__name__}.",
            fix='"0..120", or ["F", "M"]',
        )
    if not all(isinstance(value, str) for value in meant):
        raise RequestError(f"The values of {name!r} are texts.", fix='["1", "2"], or "codes 1..2"')
    values = ", ".join('"' + value.replace('"', '""') + '"' for value in meant)
    return say_columns(draft, f"{subject} = values {values}")


def _suggest_call(questions: Sequence[DeclarationQuestion]) -> str:
    """Return the arguments that would answer ``questions``."""
    columns = [question.columns[0].name for question in questions if question.key == "columns"]
    parts = [f"{{{columns[0]!r}: '...'}}"] if columns else []
    parts += ["accept=True"] if any(question.key == "accept" for question in questions) else []
    parts += ["max_rows=4"] if any(question.key == "max_rows" for question in questions) else []
    return ", ".join(parts)
