"""What to ask instead where a question is too dear: what this session, and not only the whole budget, can pay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import AccuracyUnreachable, BudgetExceeded
from siloquent.explore.plan.planner import least_error, plan
from siloquent.explore.plan.steps import errors_text, least_widening
from siloquent.explore.spec.query import Accuracy, Spend
from siloquent.privacy import accountant, digits
from siloquent.session import limit_of_budget

if TYPE_CHECKING:
    from siloquent.explore.spec import Query
    from siloquent.session import Session

NOTHING = "ask the table's owner for budget: what is left pays for no such answer"


@contextmanager
def offering(session: Session, query: Query) -> Iterator[None]:
    """Let a refusal for its price offer what ``session`` can still pay: a wider error, or for a BUDGET a smaller one.

    Raises:
        AccuracyUnreachable, BudgetExceeded: as they came, with a fix that works when it is asked now.
    """
    try:
        yield
    except AccuracyUnreachable as refused:
        if isinstance(query.promise, Accuracy):
            refused.best_alpha, refused.fix = _wider(session, query, refused.best_alpha)
        raise
    except BudgetExceeded as refused:
        if isinstance(query.promise, Spend):
            refused.fix = _smaller(session, query)
        else:
            refused.fix = refused.fix if "ERROR" in refused.fix else NOTHING
        raise


def _wider(session: Session, query: Query, best: float | None) -> tuple[float | None, str]:
    """The smallest error bound that is payable, as ``best_alpha`` and as a fix."""
    schema, left = session.schema(query.table), session.left(query.table)
    if query.is_composite:
        wider = least_widening(query, schema, left=left)
        return None, NOTHING if wider is None else f"ask with ERROR {errors_text(wider)}"
    if best is None:
        return None, NOTHING
    payable = replace(query, promise=replace(_accuracy(query), error=Decimal(digits(best, 6)), percent=False))
    error = least_error(plan(payable, schema, left=limit_of_budget(schema.budget)), left=left)
    return (None, NOTHING) if error is None else (float(error), f"ask with ERROR {digits(error)}")


def _accuracy(query: Query) -> Accuracy:
    assert isinstance(query.promise, Accuracy)
    return query.promise


def _smaller(session: Session, query: Query) -> str:
    """All that is left, in the account's own epsilon or rho."""
    book = accountant(session.schema(query.table).budget.accountant)
    left = Fraction(session.left(query.table).amount, book.scale)
    return f"ask with BUDGET {digits(left, up=False)} {book.symbol.upper()}" if left > 0 else NOTHING
