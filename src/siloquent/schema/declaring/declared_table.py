"""A table declared by classes instead of TOML; what is written and read again is the same declaration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from siloquent.errors import RequestError, SchemaError
from siloquent.readable import Readable
from siloquent.schema.attribute import Attribute
from siloquent.schema.constraints import (
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    describe_constraint,
)
from siloquent.schema.files.toml import quote_text
from siloquent.schema.meaning import compose_entry
from siloquent.schema.table import Adjacency, TableBudget, TableSchema, Unit, format_fraction

if TYPE_CHECKING:
    from fractions import Fraction

UNIT_EXAMPLE = 'Unit.person("patient", max_rows=4), or Unit() for rows'
BUDGET_EXAMPLE = 'TableBudget.of("1", delta="1e-6")'


@dataclass(frozen=True, repr=False)
class Declaration(Readable):
    """A table declared by classes instead of TOML; an existing value is consistent.

    Args:
        name: The table's name.
        attributes: Its columns: ``siloquent.declare_attribute("age", "0..120")``.
        unit: What stays hidden: ``Unit()`` for a row, ``Unit.person("patient", max_rows=4)`` for a person.
        budget: ``TableBudget.of("1", delta="1e-6")``.
        rows: How many rows there are, roughly and publicly.
        constraints: Public statements about form, such as ``siloquent.schema.Key(("patient", "day"))``.
    Raises:
        SchemaError, RequestError: an argument is of the wrong type, or the declaration contradicts itself.
    """

    name: str
    attributes: Sequence[Attribute]
    unit: Unit = field(default_factory=Unit)
    budget: TableBudget = field(default_factory=lambda: TableBudget.of("1", delta="1e-6"))
    source: str = ""
    rows: int | None = None
    adjacency: Adjacency = "add-remove"
    version: int = 1
    constraints: Sequence[Constraint] = ()

    def __post_init__(self) -> None:
        self._check_types()
        given = tuple(self.attributes)
        object.__setattr__(self, "attributes", given)
        object.__setattr__(self, "constraints", tuple(self.constraints))
        schema = self.to_schema()
        for attribute in given:
            if schema.domain[attribute.name] != attribute:
                raise SchemaError(
                    f"attributes: no table file can say {attribute.name!r} as it is given: {attribute}.",
                    fix=f'declare_attribute("{attribute.name}", "0..120")',
                )
        # From here on all is as a reader of the file gets it: derived attributes last, columns as they are spelled.
        parsed = {"attributes": tuple(schema.domain), "unit": schema.unit, "budget": schema.budget}
        for name, value in {**parsed, "constraints": schema.constraints}.items():
            object.__setattr__(self, name, value)

    def _check_types(self) -> None:
        require_type("name", self.name, str, '"visits"')
        require_type("unit", self.unit, Unit, UNIT_EXAMPLE)
        require_type("budget", self.budget, TableBudget, BUDGET_EXAMPLE)
        require_type("source", self.source, str, '"csv:data/visits.csv"')
        require_type("rows", self.rows, (int, type(None)), "10000")
        require_type("version", self.version, int, "1")
        require_type("adjacency", self.adjacency, str, '"add-remove"')
        for name, values, kind, example in (
            ("attributes", self.attributes, Attribute, 'declare_attribute("age", "0..120")'),
            ("constraints", self.constraints, Constraint, 'siloquent.schema.Key(("patient",))'),
        ):
            require_type(name, values, (list, tuple), f"[{example}]")
            for value in values:
                require_type(f"each of {name}", value, kind, example)

    @classmethod
    def from_toml(cls, text: str) -> Declaration:
        """Return what a table file declares; ``to_toml`` says the same again, without comments.

        Raises:
            SchemaError: it is not a valid table file.
        """
        from siloquent.schema.build import parse_schema

        return cls.from_schema(parse_schema(text))

    @classmethod
    def from_schema(cls, schema: TableSchema) -> Declaration:
        """Return the declaration of ``schema``, such as ``session.schema("visits")``, to change it and to write it."""
        return cls(
            schema.name,
            tuple(schema.domain),
            unit=schema.unit,
            budget=schema.budget,
            source=schema.source,
            rows=schema.size_hint,
            adjacency=schema.adjacency,
            version=schema.version,
            constraints=schema.constraints,
        )

    def to_toml(self) -> str:
        """Return the table file that says the same."""
        columns = [one for one in self.attributes if not one.function]
        derived = [one for one in self.attributes if one.function]
        lines = ["format = 1", *_compose_list("attribute", map(_compose_attribute, columns))]
        lines += _compose_list("derived", map(_compose_attribute, derived)) if derived else []
        lines += _compose_list("constraint", map(_compose_constraint, self.constraints)) if self.constraints else []
        return "\n".join([*lines, *self._compose_table(), "[budget]", *compose_budget(self.budget)]) + "\n"

    def _compose_table(self) -> Iterator[str]:
        yield "[table]"
        yield f"name = {quote_text(self.name)}"
        if self.source:
            yield f"source = {quote_text(self.source)}"
        yield f"adjacency = {quote_text(self.adjacency)}"
        if self.version != 1:
            yield f"version = {self.version}"
        if self.rows is not None:
            yield f"size_hint = {self.rows}"
        unit = f"column = {quote_text(self.unit.column)}, max_rows = {self.unit.max_rows}"
        yield 'unit = { kind = "row" }' if self.unit.kind == "row" else f'unit = {{ kind = "user", {unit} }}'

    def to_schema(self) -> TableSchema:
        """Return the declaration as sessions take it.

        Raises:
            SchemaError: it contradicts itself.
        """
        from siloquent.schema.build import parse_schema

        return parse_schema(self.to_toml())

    def __str__(self) -> str:
        return str(self.to_schema())


def require_type(argument: str, value: object, kind: object, example: str) -> None:
    """Refuse the value of an argument that is not of ``kind``, a type, a union or a tuple of types.

    Raises:
        RequestError: it is not; the message names the argument. A boolean is not a number.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    fits = isinstance(value, kind)  # type: ignore[arg-type]
    if not fits or (isinstance(value, bool) and bool not in kinds):
        raise RequestError(f"{argument}: expected {example}, not {type(value).__name__}.", fix=example)


def compose_budget(budget: TableBudget) -> list[str]:
    """Return the lines of the section ``[budget]``."""
    lines = [f"accountant = {quote_text(budget.accountant)}"]
    amounts = {"epsilon": budget.epsilon, "rho": budget.rho, "delta": budget.delta, "delta_events": budget.delta_events}
    lines += [f"{key} = {quote_text(format_fraction(amount))}" for key, amount in amounts.items() if amount]
    shares = ", ".join(f"{quote_text(name)} = {quote_text(format_fraction(share))}" for name, share in budget.shares)
    lines += [f"analysts = {{ {shares} }}"] if shares else []
    lines += [f"sharing = {quote_text(budget.sharing)}", f"reuse = {quote_text(budget.reuse)}"]
    return [*lines, f"epoch = {budget.epoch}", f"disclosures = {str(budget.disclosures).lower()}"]


def _compose_list(key: str, entries: Iterator[str]) -> list[str]:
    return [f"{key} = [", *(f"  {entry}," for entry in entries), "]"]


def _compose_attribute(attribute: Attribute) -> str:
    meaning = attribute.to_meaning()
    if attribute.kind == "text" and not attribute.max_bytes:
        meaning = replace(meaning, max_bytes=0)
    entry = compose_entry(attribute.name, meaning)
    if not attribute.function:
        return entry
    derived = f"from = [{quote_text(attribute.argument)}], function = {quote_text(attribute.function)}"
    return f"{entry.removesuffix(' }')}, {derived} }}"


def _compose_constraint(constraint: Constraint) -> str:
    parts = list(_list_keys(constraint))
    if isinstance(constraint, FunctionalDependency | DenialConstraint | Key) and not constraint.hard:
        parts.append("hard = false")
    return f"{{ {', '.join(parts)} }}"


def _list_keys(constraint: Constraint) -> Iterator[str]:
    if isinstance(constraint, FunctionalDependency):
        yield f'kind = "fd", lhs = {_quote_list(constraint.lhs)}, rhs = {quote_text(constraint.rhs)}'
        if constraint.when:
            yield f"when = {quote_text(' and '.join(map(str, constraint.when)))}"
        if constraint.source:
            yield f"source = {quote_text(constraint.source)}"
    elif isinstance(constraint, DenialConstraint):
        text = constraint.text or " and ".join(map(str, constraint.comparisons))
        yield f'kind = "denial", not = {quote_text(text)}'
    elif isinstance(constraint, Key):
        yield f'kind = "key", columns = {_quote_list(constraint.columns)}'
    elif isinstance(constraint, ForeignKey):
        references = quote_text(f"{constraint.table}({', '.join(constraint.referenced)})")
        yield f'kind = "foreign_key", columns = {_quote_list(constraint.columns)}, references = {references}'
    if isinstance(constraint, FunctionalDependency | DenialConstraint) and constraint.weight is not None:
        yield f"weight = {_format_weight(constraint.weight, constraint)}"


def _quote_list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(quote_text, names))}]"


def _format_weight(weight: Fraction, constraint: Constraint) -> str:
    text = format_fraction(weight)
    if "/" in text:
        raise SchemaError(f"constraints: the weight {text} of {describe_constraint(constraint)} has no decimal number.")
    return text
