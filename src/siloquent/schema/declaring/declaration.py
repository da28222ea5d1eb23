"""Declarations in Python: written from classes, or asked for from a frame's names and types."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from siloquent.errors import RequestError
from siloquent.schema.attribute import Attribute
from siloquent.schema.declaring.answers import GivenAnswers
from siloquent.schema.declaring.columns import Source
from siloquent.schema.declaring.compose import compose_table_file
from siloquent.schema.declaring.draft import TableDraft, apply_answers, say_columns, set_meanings, start_draft
from siloquent.schema.declaring.lists import build_list_finder, list_declared_columns
from siloquent.schema.declaring.questions import DeclarationQuestion, decide_defaults, list_open_questions
from siloquent.schema.declaring.statements import split_statement
from siloquent.schema.files.toml import quote_text
from siloquent.schema.meaning import compose_entry, describe_meaning
from siloquent.schema.table import Adjacency, TableBudget, TableSchema, Unit, format_fraction

if TYPE_CHECKING:
    from siloquent.schema.workspace import Workspace

MAX_SHOWN = 60
Meant = str | Sequence[str] | Attribute
"""The meaning of a column in Python: a short text, a list of values, or a declared attribute to copy."""


class DeclarationAnswers(TypedDict, total=False):
    """The answers about a whole table, as keyword arguments."""

    accept: bool
    empty: str
    person: str | None
    max_rows: int | str
    rows: int | str
    epsilon: str | int
    delta: str


@dataclass(frozen=True, repr=False)
class Declaration:
    """A table declared by classes instead of TOML; an existing value is consistent.

    Args:
        name: The table's name.
        attributes: Its columns: ``siloquent.declare_attribute("age", "0..120")``.
        unit: What stays hidden: ``Unit()`` for a row, ``Unit.person("patient", max_rows=4)`` for a person.
        budget: ``TableBudget.of("1", delta="1e-6")``.
        rows: How many rows there are, roughly and publicly.
    """

    name: str
    attributes: Sequence[Attribute]
    unit: Unit = field(default_factory=Unit)
    budget: TableBudget = field(default_factory=lambda: TableBudget.of("1", delta="1e-6"))
    source: str = ""
    rows: int | None = None
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        self.to_schema()

    def to_toml(self) -> str:
        """Return the table file that says the same."""
        unit = '{ kind = "row" }'
        if self.unit.kind == "user":
            unit = f'{{ kind = "user", column = {quote_text(self.unit.column)}, max_rows = {self.unit.max_rows} }}'
        lines = [
            "format = 1",
            "attribute = [",
            *(f"  {compose_entry(one.name, one.to_meaning())}," for one in self.attributes),
            "]",
            "[table]",
            f"name = {quote_text(self.name)}",
            *([f"source = {quote_text(self.source)}"] if self.source else []),
            f"adjacency = {quote_text(self.adjacency)}",
            *([f"size_hint = {self.rows}"] if self.rows is not None else []),
            f"unit = {unit}",
            "[budget]",
            *_compose_budget(self.budget),
        ]
        return "\n".join(lines) + "\n"

    def to_schema(self) -> TableSchema:
        """Return the declaration as sessions take it.

        Raises:
            SchemaError: it contradicts itself.
        """
        from siloquent.schema.build import parse_schema

        return parse_schema(self.to_toml())

    def __repr__(self) -> str:
        return str(self.to_schema())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _compose_budget(budget: TableBudget) -> list[str]:
    lines = [f"accountant = {quote_text(budget.accountant)}"]
    amounts = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta, "delta_events": budget.delta_events}
    lines += [f"{key} = {quote_text(format_fraction(amount))}" for key, amount in amounts.items() if amount]
    shares = ", ".join(f"{quote_text(name)} = {quote_text(format_fraction(share))}" for name, share in budget.shares)
    lines += [f"analysts = {{ {shares} }}"] if shares else []
    lines += [f"sharing = {quote_text(budget.sharing)}", f"reuse = {quote_text(budget.reuse)}"]
    return [*lines, f"epoch = {budget.epoch}", f"disclosures = {str(budget.disclosures).lower()}"]


@dataclass(frozen=True, slots=True, repr=False)
class DeclarationDraft:
    """A declaration in the making: it shows what is decided, proposed and open, and ``say`` takes in more answers."""

    draft: TableDraft
    origin: str

    def say(
        self,
        columns: Mapping[str, Meant] | None = None,
        *,
        accept: bool | None = None,
        empty: str | None = None,
        person: str | None = None,
        max_rows: int | str | None = None,
        rows: int | str | None = None,
        epsilon: str | int | None = None,
        delta: str | None = None,
    ) -> DeclarationDraft:
        """Return the declaration with more answers.

        Args:
            columns: By names, patterns or ``rest``: ``{"age": "0..120", "sex": ["F", "M"], "BILL_*": "0..10000"}``.
            accept: Whether the proposals from names and types are right.
            empty: What NULL means: ``group``, ``drop``, or ``"age = drop; rest = group"``.
            person: The column that says whose row it is; ``"none"``: each row is another person.
            max_rows: How many rows of one person count.
            rows: How many rows there are, roughly and publicly.
            epsilon: What all answers together may reveal.
        Raises:
            RequestError: an answer is not understood; all faults are in the message.
        """
        faults: list[RequestError] = []
        draft = self.draft
        for name, meant in (columns or {}).items():
            try:
                draft = _say_meaning(draft, name, meant)
            except RequestError as wrong:
                faults.append(wrong)
        texts = {key: None if value is None else str(value) for key, value in (("max_rows", max_rows), ("rows", rows))}
        amounts = {"epsilon": None if epsilon is None else str(epsilon), "delta": delta}
        draft, wrongs = apply_answers(draft, GivenAnswers((), accept, empty, person, **texts, **amounts))
        faults += wrongs
        if faults:
            told = " ".join(f"{one.detail}{f' Fix: {one.fix}.' if one.fix else ''}" for one in faults[:20])
            raise RequestError(told, fix='columns={"age": "0..120", "sex": ["F", "M"]}')
        return replace(self, draft=draft)

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
        return compose_table_file(draft, origin=self.origin)

    def to_schema(self) -> TableSchema:
        """Return the declaration as sessions take it.

        Raises:
            RequestError: questions are open.
        """
        from siloquent.schema.build import parse_schema

        return parse_schema(self.to_toml())

    def __repr__(self) -> str:
        return "\n".join(self._describe())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _describe(self) -> list[str]:
        draft = self.draft
        lines = [f"Declaration of {draft.name}: {len(draft.columns):,} columns of {self.origin}; no row was read"]
        for column in draft.columns[:MAX_SHOWN]:
            name = (
                column.name[:40].encode("unicode_escape").decode()
                if not column.name.isprintable()
                else column.name[:40]
            )
            if column.name in draft.meanings:
                told = describe_meaning(draft.meanings[column.name])
            elif column.name in draft.proposals and draft.answers.accept is not False:
                told = f"{draft.proposals[column.name].meaning}  (proposed from {draft.proposals[column.name].reason})"
            else:
                told = f"?  ({column.holds})" if column.holds else "?"
            lines.append(f"  {name}: {told}")
        lines += [f"  and {len(draft.columns) - MAX_SHOWN:,} more"] if len(draft.columns) > MAX_SHOWN else []
        needed = self.questions
        lines += [f"Open: {question.text} {question.hint}" for question in needed[:5]]
        lines += [f"Open: {len(needed) - 5:,} more questions"] if len(needed) > 5 else []
        if needed:
            return [*lines, f"Next: declaration.say({_suggest_call(needed)})"]
        decided = self._decide()[0]
        unit = "one row" if decided.person is None else f"all rows of one {decided.person.name}"
        lines.append(f"Hidden: {unit}. Budget: epsilon {decided.answers.epsilon}.")
        return [*lines, "Complete. Next: session.add_frame(declaration, frame), or declaration.to_toml()"]


def begin_declaration(source: Source, workspace: Workspace | None, *, name: str, origin: str) -> DeclarationDraft:
    """Return the declaration of ``source`` with nothing answered."""
    finder = build_list_finder(workspace, source.address)
    declared = list_declared_columns(workspace, name)
    return DeclarationDraft(start_draft(source, name=name, find_list=finder, declared=declared), origin)


def _say_meaning(draft: TableDraft, name: str, meant: Meant) -> TableDraft:
    """Take in the meaning of the columns that ``name`` names."""
    subject = quote_text(name) if name in {column.name for column in draft.columns} else name
    if isinstance(meant, str):
        return say_columns(draft, f"{subject} = {meant}")
    if isinstance(meant, Attribute):
        chosen, _ = split_statement(f"{subject} = id", draft.columns, draft.rest_columns)
        copied = meant.to_meaning()
        return set_meanings(draft, {column.name: copied for column in chosen or ()})
    if not all(isinstance(value, str) for value in meant):
        raise RequestError(f"The values of {name!r} are texts.", fix='["1", "2"], or "codes 1..2"')
    values = ", ".join('"' + value.replace('"', '""') + '"' for value in meant)
    return say_columns(draft, f"{subject} = values {values}")


def _suggest_call(questions: Sequence[DeclarationQuestion]) -> str:
    """Return the arguments that would answer ``questions``."""
    columns = [question.columns[0].name for question in questions if question.key == "columns"]
    parts = [f"{{{columns[0]!r}: '..'}}"] if columns else []
    parts += ["accept=True"] if any(question.key == "accept" for question in questions) else []
    parts += ["max_rows=4"] if any(question.key == "max_rows" for question in questions) else []
    return ", ".join(parts)
