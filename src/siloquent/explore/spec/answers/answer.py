"""The answer: a table with intervals, the promise, the guarantee and the receipt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from siloquent.explore.spec.answers.labels import ColumnLabels, label_values
from siloquent.explore.spec.answers.text import (
    AnswerLine,
    build_text_document,
    describe_label,
    format_html,
    format_text,
    order_lines,
)
from siloquent.privacy import Guarantee, format_digits
from siloquent.readable import Readable, Tabular, label_table

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.charts import Chart

Label = Literal["fresh", "independent", "repeated", "simultaneous"]


def find_weakest(labels: Iterable[Label]) -> Label:
    """Return the weakest of several labels, that of a promise that needs all of them."""
    found = set(labels)
    order: tuple[Label, ...] = ("independent", "repeated", "simultaneous")
    return next((label for label in order if label in found), "fresh")


@dataclass(frozen=True, slots=True)
class ItemAccuracy:
    """The accuracy of one of several aggregates; ``alpha`` is None if only the intervals state it."""

    column: str
    alpha: Fraction | None
    unit: str


@dataclass(frozen=True, slots=True)
class AnswerAccuracy:
    """The promise of an answer: bound ``alpha`` (rows or value units), miss probability ``beta``, and ``label``.

    ``fresh``: only noise drawn after the query, so the promise holds whatever was asked before. ``independent``:
    uses earlier answers too, so it holds if the query was not chosen from their noisy numbers.
    ``simultaneous``: uses earlier answers, and holds for any sequence of queries. ``repeated``: an earlier answer to
    the same query is shown again, with its original promise. ``sources``: the seqs of their receipts.
    """

    alpha: Fraction
    beta: Fraction
    label: Label = "fresh"
    unit: str = "rows"
    items: tuple[ItemAccuracy, ...] = ()
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """The exact cost of the answer to its account: epsilon or rho, and the remaining budget afterwards."""

    account: str
    symbol: str
    amount: Fraction
    left: Fraction


@dataclass(frozen=True, slots=True)
class AnswerReceipt:
    """The receipt: the answer's position in the ledger's chain."""

    ledger: str
    seq: int
    hash: str

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as part of a document."""
        return {"ledger": self.ledger, "seq": self.seq, "hash": self.hash}


@dataclass(frozen=True, slots=True, repr=False)
class Answer(Readable, Tabular):
    """One answered query: a pure function of the query, the declaration and the ledger contents.

    ``columns`` and ``rows``: the groups in declared order, each with its value and interval [low, high] (wcq), or the
    reported groups (icq), or the top groups in order (tcq), or one or three columns per aggregate (composite).
    ``grid``: the step of the values. ``earlier``: receipts of steps before the last one. ``labels``: declared words for
    the groups' values, shown beside them. ``left_out``: which rows of a person do not count; a release says it in
    its guarantee. ``about_rows``: which rows it is about, if they were ever replaced.
    """

    task: str
    table_name: str
    request: str
    schema_digest: str
    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    promise: str
    accuracy: AnswerAccuracy
    cost: AnswerCost
    guarantee: Guarantee
    receipt: AnswerReceipt
    mechanism: str
    grid: Fraction = Fraction(1)
    replayed: bool = field(default=False, compare=False)
    notes: tuple[str, ...] = ()
    earlier: tuple[AnswerReceipt, ...] = ()
    labels: tuple[ColumnLabels, ...] = field(default=(), compare=False)
    left_out: str = field(default="", compare=False)
    about_rows: Mapping[str, str] | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """The release's name: its position in the ledger."""
        return f"r-{self.receipt.seq:06d}"

    @property
    def table(self) -> pa.Table:
        """The rows as an Arrow table; column types follow from the declaration, not from the rows."""
        import pyarrow as pa

        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        arrays = {name: pa.array(list(values)) for name, values in zip(self.columns, columns, strict=True)}
        if self.kind == "composite":  # values that no group was asked for are numbers, too
            arrays = {name: one.cast(pa.float64()) if one.type == pa.null() else one for name, one in arrays.items()}
        return pa.table(arrays)

    def to_arrow(self) -> pa.Table:
        """Return ``table`` with each column's unit in its field's metadata, and the promise and guarantee in its own.

        Columns of an interval have the unit of its value: rows, or units of the attribute that was summed.
        """
        facts = {"promise": self.promise, "guarantee": self.guarantee.describe(), "release": self.id}
        return label_table(self.table, units=self._find_units(), **facts)

    def _find_units(self) -> dict[str, str]:
        """Return the units of values with intervals and of the ends of these, by column."""
        if not self.accuracy.items:
            return dict.fromkeys(self.columns[-3:], self.accuracy.unit) if self.columns[-1] == "high" else {}
        return {
            f"{one.column}{end}": one.unit
            for one in self.accuracy.items
            if f"{one.column}_low" in self.columns
            for end in ("", "_low", "_high")
        }

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return an Arrow stream: pandas, polars and DuckDB accept an answer directly."""
        return self.table.__arrow_c_stream__(requested_schema)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a document of kind ``siloquent/answer/1``; amounts are decimal text, rounded up.

        ``rows`` hold all digits, for computing; ``shown`` is the text that other interfaces print.
        """
        cost: dict[str, str] = {"account": self.cost.account, self.cost.symbol: format_digits(self.cost.amount, 6)}
        if self.guarantee.definition == "zcdp":
            cost["epsilon"] = format_digits(self.guarantee.compute_epsilon())
            cost["delta"] = format_digits(self.guarantee.told_delta)
        return {
            "schema": "siloquent/answer/1",
            "id": self.id,
            "task": self.task,
            "table": self.table_name,
            "kind": self.kind,
            "columns": list(self.columns),
            "rows": [[_convert_to_plain(value) for value in row] for row in self.rows],
            "promise": self.promise,
            "accuracy": {
                "alpha": str(self.accuracy.alpha),
                "beta": str(self.accuracy.beta),
                "label": self.accuracy.label,
                "unit": self.accuracy.unit,
                "sources": list(self.accuracy.sources),
                **self._list_items(),
            },
            "cost": {**cost, "left": format_digits(self.cost.left, 6, up=False)},
            "guarantee": self.guarantee.describe(),
            "receipt": self.receipt.to_json(),
            **({"earlier_receipts": [one.to_json() for one in self.earlier]} if self.earlier else {}),
            "mechanism": self.mechanism,
            "replayed": self.replayed,
            "notes": list(self.public_notes),
            "labels": [one.to_json() for one in self.labels],
            "shown": build_text_document(self.columns, self.rows, self._list_own_lines(), self.labels),
            **({} if self.about_rows is None else {"about_rows": dict(self.about_rows)}),
        }

    def _list_items(self) -> dict[str, Any]:
        items = self.accuracy.items
        plain = [
            {"column": one.column, "alpha": None if one.alpha is None else str(one.alpha), "unit": one.unit}
            for one in items
        ]
        return {"items": plain} if items else {}

    def pictures(self) -> tuple[Chart, ...]:
        """Return one picture per aggregate with its intervals: ``.svg()`` for files, ``.lines()`` for terminals.

        Empty for answers that only name groups, or have more than 10,000 rows.
        """
        from siloquent.explore.spec.answers.charts import draw_pictures

        rows = list(label_values(self.columns, self.rows, self.labels)) if self.labels else self.rows
        return draw_pictures(self.columns, rows, table=self.table_name, promise=self.promise)

    def list_lines(self) -> list[AnswerLine]:
        """Return the lines shown besides the values: the rows, the promise, when it holds, its privacy, and notes."""
        rows = [] if self.about_rows is None else [AnswerLine("rows", self.about_rows["text"])]
        return [*rows, *self._list_own_lines()]

    def _list_own_lines(self) -> list[AnswerLine]:
        """Return the lines that stay the same whenever it is asked again."""
        holds = describe_label(self.accuracy.label, self.accuracy.sources)
        return order_lines(self.promise, holds, self.guarantee.describe(), self.public_notes)

    @property
    def public_notes(self) -> tuple[str, ...]:
        """The notes, and which rows of a person do not count."""
        return (*self.notes, *([self.left_out] if self.left_out else []))

    def _repr_html_(self) -> str:
        """Return the answer for notebooks, with its pictures; every text is escaped."""
        pictures = (picture.svg() for picture in self.pictures())
        return format_html(self.columns, self.rows, self.list_lines(), pictures, self.labels)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return HTML, the first picture as SVG, and plain text, from which a notebook chooses."""
        pictures = self.pictures()
        bundle = {"text/html": self._repr_html_(), "text/plain": str(self)}
        return bundle | ({"image/svg+xml": pictures[0].svg()} if pictures else {})

    def __str__(self) -> str:
        """Return the answer for readers: a table with no more digits than the noise allows, promise and guarantee."""
        receipt = f"Entry {self.receipt.seq} of ledger {self.receipt.ledger[:12]}."
        return format_text(self.columns, self.rows, self.list_lines(), receipt, self.labels)


def _convert_to_plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _convert_to_plain(inner) for key, inner in value.items()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
