"""One release twice: drawn on a table, then with the same noise on its neighbour; loss against charge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import pyarrow as pa

from benchmarks.replay import losses
from benchmarks.replay.steps import step_ratios
from benchmarks.replay.tape import Differs, Tape, recorded
from siloquent.api import Session
from siloquent.errors import SiloquentError
from siloquent.explore.plan.cache import ByteLRU
from siloquent.ledger import MemoryLedger
from siloquent.privacy import ATTO, Composed, Event, NoiseReduction, get_accountant
from siloquent.schema import TableSchema
from siloquent.schema.workspace import Workspace

Release = Callable[[Session], object]
LEDGER_ID = "ab" * 16
_memories: WeakKeyDictionary[Any, ByteLRU[Any]] = WeakKeyDictionary()


@dataclass(slots=True, eq=False)
class Played:
    """The outcome of one run of a release, and its charge."""

    tape: Tape
    status: str = "answered"
    shown: list[object] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    amount: int = 0
    delta: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """One audited release: the calls that told anything, the loss and the charge in the account's own amount.

    ``most``: the part of the charge that any neighbours of this declaration can use up, where it was worked out.
    ``events``: what was charged.
    ``steps``: of a synthesis, the part of its own price that each kind of step used up.
    """

    name: str
    account: str
    unit: str
    adjacency: str
    status: str
    calls: tuple[str, ...]
    loss: Fraction
    charge: Fraction
    faults: tuple[str, ...]
    most: float = 1.0
    steps: Mapping[str, float] = field(default_factory=dict)
    events: tuple[Event, ...] = field(default=(), repr=False)

    @property
    def ratio(self) -> float:
        """Loss over charge; above 1 is an undercharge."""
        return float(self.loss / self.charge) if self.charge else 0.0 if not self.loss else float("inf")


@contextmanager
def opened(schema: TableSchema, frame: pa.Table) -> Iterator[Session]:
    """A session over ``frame`` whose ledger has always the same name, so that the same rows of a user count."""
    with patch("secrets.token_hex", lambda _=32: LEDGER_ID):
        ledger = MemoryLedger()
    # A folder of its own: steps that a run left behind would be read by the next one.
    with tempfile.TemporaryDirectory() as folder, Session(Workspace(Path(folder)), ledger) as session:
        session.add_frame(schema, frame)
        yield session


def play(session: Session, schema: TableSchema, release: Release, tape: Tape) -> Played:
    """Run ``release`` with ``tape`` at the noise floor, and keep all that leaves the product."""
    played, ledger = Played(tape), session.ledger
    before = session.get_account(schema.name).spent
    settle = ledger.settle

    def settled(permit: Any, event: Event, payload: bytes, **more: Any) -> Any:
        played.events.append(event)
        played.shown.append(payload)
        return settle(permit, event, payload, **more)

    with ExitStack() as stack:
        stack.enter_context(patch.object(ledger, "settle", settled))
        stack.enter_context(recorded(tape))
        # What was read of a ledger's answers is remembered by its name, which both sides share.
        memories = _memories.setdefault(ledger, ByteLRU(64, lambda _: 1))
        stack.enter_context(patch("siloquent.explore.plan.reuse.earlier_answers._memories", memories))
        try:
            played.shown.append(release(session))
        except SiloquentError as refused:
            played.status = f"{refused.code}: {refused}"
        except Differs:
            raise
        except Exception as broken:  # allowed: that an error is unforeseen must not depend on rows either
            played.status = f"unforeseen: {broken!r}"
    spent = session.get_account(schema.name).spent
    played.amount, played.delta = spent.amount - before.amount, spent.delta - before.delta
    return played


def audit(
    schema: TableSchema, one: pa.Table, other: pa.Table, releases: Sequence[tuple[str, Release, int]]
) -> Iterator[Found]:
    """Each release on ``one``, and replayed on ``other``; releases of one sequence share a ledger.

    Args:
        releases: A name, what to run, and how many ids it shows of noisy counts.
    """
    with opened(schema, one) as first, opened(schema, other) as second:
        for name, release, k in releases:
            drawn = play(first, schema, release, Tape())
            found = judged(schema, second, name, release, drawn, k)
            yield found
            if found.faults:
                return  # from here on the two ledgers differ


def judged(schema: TableSchema, session: Session, name: str, release: Release, drawn: Played, k: int) -> Found:
    """``release`` in ``session``, on a neighbour of the table on which it was ``drawn``, with the same noise."""
    stops = [stop for event in drawn.events for stop in stops_of(event)]
    # Looks that were not paid for would report everything, or nothing: not what was reported.
    nothing = any(b'"values":[]' in shown for shown in drawn.shown if isinstance(shown, bytes))
    faults, again = _replayed(session, schema, release, drawn, stops, 1 if nothing else -1)
    if drawn.status.startswith("unforeseen"):
        faults.append(drawn.status)
    loss = Fraction(0) if again is None else _loss(schema, drawn, again, k, stops, faults)
    charge = Fraction(drawn.amount, get_accountant(schema.budget.accountant).scale)
    if loss > charge:
        faults.append(f"undercharged: {float(loss)} for {float(charge)}")
    calls = tuple(dict.fromkeys(call.name for call in drawn.tape.calls))
    unit = schema.unit.kind if schema.unit.max_rows == 1 else f"{schema.unit.kind} x{schema.unit.max_rows}"
    settings = schema.budget.accountant, unit, schema.adjacency
    steps: dict[str, float] = {}
    if name.startswith("synth") and again is not None and drawn.status == "answered":
        zcdp, delta = schema.budget.accountant == "zcdp", drawn.delta / ATTO
        steps = step_ratios(drawn.tape, again.tape, drawn.events, zcdp=zcdp, delta=delta)
    status = drawn.status.partition(":")[0]
    return Found(name, *settings, status, calls, loss, charge, tuple(faults), steps=steps, events=tuple(drawn.events))


def stops_of(event: Event) -> list[int]:
    """The looks at which noise chains were stopped, in order; the last one where the event says none."""
    if isinstance(event, Composed):
        return [stop for part in event.parts for stop in stops_of(part)]
    if isinstance(event, NoiseReduction):
        return [len(event.scales) - 1 if event.stop is None else event.stop]
    return []


def _replayed(
    session: Session, schema: TableSchema, release: Release, drawn: Played, stops: list[int], side: int
) -> tuple[list[str], Played | None]:
    """The differences that the neighbour shows."""
    chains = sum(call.name == "draw_noise_chain" for call in drawn.tape.calls)
    if chains != len(stops):
        return [f"{chains} noise chains, {len(stops)} stops in the ledger"], None
    try:
        again = play(session, schema, release, Tape(first=drawn.tape, stops=stops, side=side))
    except Differs as differs:
        return [f"calls differ: {differs}"[:400]], None
    pairs = {
        "status": (drawn.status, again.status),
        "reads": (drawn.tape.reads, again.tape.reads),
        "charge": ((drawn.amount, drawn.delta), (again.amount, again.delta)),
        "events": (drawn.events, again.events),
        "released": (drawn.shown, again.shown),
    }
    return [f"{name} differs: {_where(one, two)}" for name, (one, two) in pairs.items() if one != two], again


def _where(one: object, two: object) -> str:
    """The first place in which two texts differ, and what stands around it."""
    first, second = str(one), str(two)
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    return f"{first[max(at - 60, 0) : at + 60]!r} / {second[max(at - 60, 0) : at + 60]!r}"


def _loss(schema: TableSchema, one: Played, two: Played, k: int, stops: list[int], faults: list[str]) -> Fraction:
    """All calls together; a call that drew what is less likely than its bound allows is a fault of the audit itself."""
    zcdp, total, left = schema.budget.accountant == "zcdp", Fraction(0), iter(stops)
    for call, other in zip(one.tape.calls, two.tape.calls, strict=True):
        stop = next(left) if call.name == "draw_noise_chain" else None
        if call.name == "sampled_gaussian":
            continue
        if call.name == "add_gaussian" and not zcdp:
            faults.append("Gaussian noise in a pure account")
            continue
        honest = one.tape.honest
        total += losses.loss(call, other, zcdp=zcdp, k=k, stop=None if zcdp else stop, honest=honest)
        told = losses.told(call, other)
        if told > 1e-6 and told > float(losses.loss(call, other, zcdp=False, k=k, stop=stop, honest=honest)) * (
            1 + 1e-6
        ):
            faults.append(f"{call.name} told more than its bound")
    if one.delta:
        epsilon = losses.sampled_epsilon(one.tape, two.tape, delta=one.delta / ATTO)
        total += Fraction(epsilon**2 / 2) if zcdp else Fraction(epsilon)
    elif any(call.name == "sampled_gaussian" for call in one.tape.calls):
        faults.append("sampled Gaussian steps without a delta")
    return total
