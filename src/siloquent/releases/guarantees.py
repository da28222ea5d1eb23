"""The guarantee of settled measurements: what their charge was, and what it promises."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.ledger import SettledAnswer
from siloquent.privacy import ATTO, Guarantee, get_accountant
from siloquent.releases.provenance import Provenance

if TYPE_CHECKING:
    from siloquent.schema import TableSchema


def compute_charged_amount(schema: TableSchema, *stored: SettledAnswer) -> Fraction:
    """Return the amount charged to the account for ``stored``, in epsilon or rho; never less than the exact price."""
    scale = get_accountant(schema.budget.accountant).scale
    return sum((Fraction(one.spent_after.amount - one.spent_before.amount, scale) for one in stored), Fraction(0))


def build_guarantee(schema: TableSchema, *stored: SettledAnswer) -> Guarantee:
    """Build the guarantee of settled measurements (one request's steps in order) from their total charge."""
    budget = schema.declared.budget  # the delta of today, whatever the request was planned by
    book = get_accountant(budget.accountant)
    charged, zcdp = compute_charged_amount(schema, *stored), book.name == "zcdp"
    return Guarantee(
        definition=book.name,
        unit=schema.declared.unit.description,
        adjacency=schema.adjacency,
        account=schema.account,
        spent_before=Fraction(stored[0].table_before.amount, book.scale),
        spent_after=Fraction(stored[-1].table_after.amount, book.scale),
        epsilon=Fraction(0) if zcdp else charged,
        rho=charged if zcdp else Fraction(0),
        delta=Fraction(sum(one.spent_after.delta - one.spent_before.delta for one in stored), ATTO),
        report_delta=budget.delta - budget.delta_events if zcdp else Fraction(1, 10**6),
        spent_delta=Fraction(stored[-1].table_after.delta, ATTO),
    )


def build_provenance(schema: TableSchema, stored: SettledAnswer) -> Provenance:
    """Build the provenance of a settled measurement for its release file: its ledger position and its guarantee."""
    return Provenance(
        account=stored.account,
        ledger=stored.receipt.ledger,
        seq=stored.receipt.seq,
        hash=stored.receipt.hash,
        guarantee=build_guarantee(schema, stored).describe(),
        unit=schema.declared.unit.description,
        adjacency=schema.adjacency,
    )
