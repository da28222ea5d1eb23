"""The walk through the sketch's rooms: plan, reserve, measure, settle. Asking touches neither rows nor ledger."""

from __future__ import annotations

import hashlib
import json
import secrets  # allowed: a public seed of hash functions, no noise
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import TYPE_CHECKING, overload

from siloquent.errors import KeyReused, RequestError
from siloquent.ledger import Account, Permit, Stored
from siloquent.privacy import Guarantee, accountant, digits, exact
from siloquent.sketch import estimate
from siloquent.sketch.measure import measure
from siloquent.sketch.plan import SketchPlan, plan, variance_of
from siloquent.sketch.sketch import Part, Sketch, sketch_from_bytes
from siloquent.sketch.spec import (
    Anomaly,
    Classify,
    Density,
    Difference,
    Drawn,
    Estimate,
    Flags,
    Modes,
    Peaks,
    Question,
    Sample,
    SketchSpec,
    Verdicts,
)

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.session import Session


def build(session: Session, spec: SketchSpec, *, key: str | None = None, max_cost: str | None = None) -> Sketch:
    """Build the sketch that ``spec`` describes, in one pass over the table.

    Args:
        key: The idempotency key: the same key and spec give the same sketch for nothing.
        max_cost: Refuse, before anything is spent, if the price in the account's epsilon or rho is higher.
    Returns:
        The sketch, which can be asked without end.
    Raises:
        SchemaError, RequestError, AccuracyUnreachable: The sketch cannot be built so; nothing is spent.
        BudgetExceeded: What is left does not pay for it; nothing is spent.
        DataError: The source failed after the reservation; the charge stands, a retry with ``key`` costs no more.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read. Everything that is asked of the sketch is post-processing and free.
    """
    schema, account = session.schema(spec.table), session.account(spec.table)
    asked = _Asked(key, account.name, _digest(session, spec, account, schema))
    chosen = plan(spec, schema, seed=asked.seed(session.ledger.id))
    permit = asked.held(session)
    if permit is None:
        _check_price(chosen, account, max_cost)
        session.table_of(schema)  # what is wrong with a source is found before it costs anything
        permit = session.ledger.reserve(account.name, chosen.event, key=asked.own_key, digest=asked.digest)
    stored = permit if isinstance(permit, Stored) else _measured(session, chosen, permit)
    return assemble(schema, stored)


def explain(session: Session, spec: SketchSpec) -> SketchPlan:
    """What ``spec`` would cost and how it would be built: the plan of ``build``, without touching data.

    Raises:
        As ``build``, but for a budget that is too small.
    """
    schema = session.schema(spec.table)
    session.account(spec.table)
    return plan(spec, schema, seed=public_seed())


def public_seed() -> int:
    """256 fresh bits for hash functions. They hide nothing and are published with the sketch."""
    return secrets.randbits(256)  # allowed: a public seed of hash functions, no noise


@overload
def ask(sketch: Sketch, question: Density | Difference) -> Estimate: ...
@overload
def ask(sketch: Sketch, question: Classify) -> Verdicts: ...
@overload
def ask(sketch: Sketch, question: Anomaly) -> Flags: ...
@overload
def ask(sketch: Sketch, question: Modes) -> Peaks: ...
@overload
def ask(sketch: Sketch, question: Sample) -> Drawn: ...
def ask(sketch: Sketch, question: Question) -> Estimate | Verdicts | Flags | Peaks | Drawn:
    """Answer ``question`` from the sketch alone.

    Raises:
        RequestError: The question does not fit the sketch.
    Privacy:
        Post-processing of what was released: free, however often.
    """
    return _ask(question, sketch)


@singledispatch
def _ask(question: object, sketch: Sketch) -> Estimate | Verdicts | Flags | Peaks | Drawn:
    raise RequestError(f"A sketch cannot be asked {type(question).__name__}.", fix="ask(sketch, Density(points))")


_ask.register(Density)(lambda question, sketch: estimate.density(sketch, question))
_ask.register(Difference)(lambda question, sketch: estimate.difference(sketch, question))
_ask.register(Classify)(lambda question, sketch: estimate.classify(sketch, question))
_ask.register(Anomaly)(lambda question, sketch: estimate.anomaly(sketch, question))
_ask.register(Modes)(lambda question, sketch: estimate.modes(sketch, question))
_ask.register(Sample)(lambda question, sketch: estimate.sample(sketch, question))


def assemble(schema: TableSchema, stored: Stored) -> Sketch:
    """The sketch that the ledger keeps, with its guarantee and receipt: the same at every replay."""
    sketch = sketch_from_bytes(stored.payload)
    part = Part(
        account=stored.account,
        ledger=stored.receipt.ledger,
        seq=stored.receipt.seq,
        hash=stored.receipt.hash,
        guarantee=guarantee_of(schema, stored).sentence(),
        unit=schema.unit.words,
        adjacency=schema.adjacency,
    )
    return replace(sketch, parts=(part,))


def guarantee_of(schema: TableSchema, stored: Stored) -> Guarantee:
    """The guarantee of a settled sketch: what was charged for it, and what the whole table has spent with it."""
    book = accountant(schema.budget.accountant)
    price, zcdp = book.price(stored.event), book.name == "zcdp"
    charged = Fraction(book.cost(stored.event).amount, book.scale)
    return Guarantee(
        definition=book.name,
        unit=schema.unit.words,
        adjacency=schema.adjacency,
        account=schema.account,
        spent_before=Fraction(stored.table_before.amount, book.scale),
        spent_after=Fraction(stored.table_after.amount, book.scale),
        epsilon=Fraction(0) if zcdp else charged,
        rho=charged if zcdp else Fraction(0),
        delta=price.delta,
        report_delta=schema.budget.delta - schema.budget.delta_events if zcdp else Fraction(1, 10**6),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as the ledger knows it."""

    key: str | None
    account: str
    digest: str

    def __post_init__(self) -> None:
        if self.key is not None and not (1 <= len(self.key) <= 64 and self.key.isascii() and self.key.isprintable()):
            raise RequestError("A key is 1 to 64 printable ASCII characters.", fix="--key skin-map")

    @property
    def own_key(self) -> str | None:
        """The key in the ledger: each account has its own."""
        return None if self.key is None else f"{self.account}:{self.key}"

    def seed(self, ledger: str) -> int:
        """The hash functions' public seed: with a key, the same one at every retry, so that the same permit fits."""
        if self.own_key is None:
            return public_seed()
        return int.from_bytes(hashlib.sha256(f"{ledger}|{self.own_key}|{self.digest}".encode()).digest())

    def held(self, session: Session) -> Permit | Stored | None:
        """What was asked under this key before."""
        if self.own_key is None:
            return None
        try:
            return session.ledger.held(self.account, key=self.own_key, digest=self.digest)
        except KeyReused:
            raise KeyReused(
                f"The key {self.key!r} belongs to another request.", fix="use a new key, or repeat that request"
            ) from None


def _digest(session: Session, spec: SketchSpec, account: Account, schema: TableSchema) -> str:
    """SHA-256 of who builds what of which account under which declaration: what an idempotency key is bound to."""
    file = "" if spec.plan_file is None else _file_digest(spec)
    parts = [session.analyst or "", account.name, spec.canonical(), schema.digest, schema.version, file]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def _file_digest(spec: SketchSpec) -> str:
    from siloquent.sketch.plan import read_hash_plan

    assert spec.plan_file is not None
    return read_hash_plan(spec.plan_file).digest


def _check_price(chosen: SketchPlan, account: Account, max_cost: str | None) -> None:
    if max_cost is not None and chosen.price > exact(max_cost):
        symbol, price = accountant(account.accountant).symbol, digits(chosen.price)
        raise RequestError(
            f"The sketch costs {symbol} {price}, more than the {max_cost} that you allow.",
            fix=f"--max-cost {price}, or a smaller budget",
        )


def _measured(session: Session, chosen: SketchPlan, permit: Permit) -> Stored:
    if permit.event != chosen.event:
        raise RequestError(
            "This key holds a charge that another version of siloquent planned differently; the charge stands.",
            fix="build again with a new key",
        )
    measured = measure(chosen, session.table_of(chosen.schema, spent="what was reserved"), permit)
    size = chosen.size_parameter
    sketch = Sketch(
        plan=chosen.hash_plan,
        counters=measured.counters,
        sizes=measured.sizes,
        noise=chosen.noise,
        parameter=chosen.parameter,
        variance=variance_of(chosen.noise, chosen.parameter),
        size_variance=Fraction(0) if size is None else variance_of(chosen.noise, size),
        hits=chosen.hits,
        event=permit.event,
        table=chosen.schema.name,
        request=chosen.spec.canonical(),
        schema_digest=chosen.schema.digest,
        notes=chosen.notes,
    )
    return session.ledger.settle(permit, permit.event, sketch.to_bytes())
