"""Answers and prices from a server: the same names as in ``siloquent.explore``, read from their documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.documents.ledger import parse_amount
from siloquent.explore import Answer
from siloquent.readable import Readable

if TYPE_CHECKING:
    from siloquent.privacy import Guarantee


@dataclass(frozen=True, slots=True)
class ServedGuarantee:
    """A guarantee in the server's words; its numbers are in the server's ledger."""

    words: str

    def describe(self) -> str:
        """Return the guarantee."""
        return self.words


@dataclass(frozen=True, slots=True, repr=False)
class RemoteAnswer(Answer):
    """An answer from a server. Its amounts have six digits: the cost is rounded up, the remainder down."""

    document: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the document as received."""
        return dict(self.document)


def parse_answer(document: dict[str, Any], *, replayed: bool) -> RemoteAnswer:
    """Return the answer in a document of kind ``siloquent/answer/1``.

    Args:
        replayed: Whether the answer had been given before, so that this request was not charged.
    """
    from typing import cast

    from siloquent.explore.spec.answers.answer import AnswerAccuracy, AnswerCost, AnswerReceipt, ItemAccuracy
    from siloquent.explore.spec.answers.labels import parse_labels

    kept, cost = document["accuracy"], document["cost"]
    symbol = "rho" if "rho" in cost else "epsilon"
    items = tuple(
        ItemAccuracy(one["column"], None if one["alpha"] is None else parse_amount(one["alpha"]), one["unit"])
        for one in kept.get("items", ())
    )
    placed = [AnswerReceipt(one["ledger"], one["seq"], one["hash"]) for one in document.get("earlier_receipts", ())]
    receipt, rows = document["receipt"], document.get("about_rows")
    document = {**document, "replayed": replayed}
    return RemoteAnswer(
        task=document["task"],
        table_name=document["table"],
        request="",
        schema_digest="",
        kind=document["kind"],
        columns=tuple(document["columns"]),
        rows=tuple(tuple(row) for row in document["rows"]),
        promise=document["promise"],
        accuracy=AnswerAccuracy(
            parse_amount(kept["alpha"]),
            parse_amount(kept["beta"]),
            kept["label"],
            kept["unit"],
            items,
            tuple(kept["sources"]),
        ),
        cost=AnswerCost(cost["account"], symbol, parse_amount(cost[symbol]), parse_amount(cost["left"])),
        guarantee=cast("Guarantee", ServedGuarantee(document["guarantee"])),  # only its sentence is used
        receipt=AnswerReceipt(receipt["ledger"], receipt["seq"], receipt["hash"]),
        mechanism=document["mechanism"],
        replayed=replayed,
        notes=tuple(document["notes"]),
        earlier=tuple(placed),
        labels=parse_labels(document.get("labels", ())),
        about_rows=rows,
        document=document,
    )


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation(Readable):
    """The price of a question, from a server; the names are those of ``siloquent.explore.Explanation``."""

    document: Mapping[str, Any]

    @property
    def symbol(self) -> str:
        """The account's unit: epsilon or rho."""
        return "rho" if "rho" in self.document["cost"] else "epsilon"

    @property
    def price(self) -> Fraction:
        """The price in the account's epsilon or rho, rounded up."""
        return parse_amount(self.document["cost"][self.symbol])

    @property
    def epsilon(self) -> float | None:
        """The price's meaning in epsilon, if the account counts in rho."""
        told = self.document["cost"].get("epsilon")
        return float(parse_amount(told)) if self.symbol == "rho" and told is not None else None

    @property
    def account(self) -> str:
        """The account that would pay."""
        return str(self.document["account"])

    @property
    def left_before(self) -> Fraction:
        """The remaining budget, rounded down."""
        return parse_amount(self.document["left_before"])

    @property
    def left_after(self) -> Fraction | None:
        """The budget that would remain; None if the price exceeds it."""
        told = self.document["left_after"]
        return None if told is None else parse_amount(told)

    @property
    def promise(self) -> str:
        """The guarantee of the answer."""
        return str(self.document["promise"])

    @property
    def chosen(self) -> str:
        """The mechanism's name; empty if a question takes several."""
        return str(self.document.get("chosen", ""))

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes."""
        return tuple(self.document["notes"])

    def __str__(self) -> str:
        from siloquent.explore.plan.explain import describe_explanation

        return describe_explanation(self)

    def to_json(self) -> dict[str, Any]:
        """Return the document as received."""
        return dict(self.document)
