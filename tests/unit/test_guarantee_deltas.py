"""The delta of events is part of what is promised: in each release, in its total, in prices, and in `check`."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.api import Session
from siloquent.documents.prices.plans import price_words
from siloquent.ledger import MemoryLedger, Permit, SettledAnswer
from siloquent.privacy import (
    ATTO,
    Composed,
    DiscreteGaussian,
    Event,
    SampledGaussian,
    convert_zcdp_to_epsilon,
    format_digits,
)
from siloquent.releases import guarantee_to_dict
from siloquent.releases.guarantees import build_guarantee, build_provenance
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace
from siloquent.session import compute_budget_limit
from unit.synth.test_chain import CHAIN, SCHEMA, SPEC, table

F = Fraction
PROMISE = re.compile(r"epsilon ([0-9]+(?:[.][0-9]+)?) at delta ([0-9]+(?:[.][0-9]+)?)")


def told(sentence: str) -> list[tuple[Fraction, Fraction]]:
    """The (epsilon, delta) of this release and of the whole account."""
    return [(F(epsilon), F(delta)) for epsilon, delta in PROMISE.findall(sentence)]


def declared(delta: str, events: str) -> TableSchema:
    return replace(SCHEMA, budget=replace(SCHEMA.budget, delta=F(delta), delta_events=F(events)))


def ledger_of(schema: TableSchema) -> MemoryLedger:
    ledger = MemoryLedger()
    limit = compute_budget_limit(schema.budget)
    ledger.open_account(schema.account, limit=limit, accountant="zcdp", unit="row", adjacency="add-remove")
    return ledger


def settled(ledger: MemoryLedger, account: str, event: Event) -> SettledAnswer:
    permit = ledger.reserve(account, event, key=None, digest="0" * 64)
    assert isinstance(permit, Permit)
    return ledger.settle(permit, event, b"")


def steps(delta: Fraction) -> SampledGaussian:
    return SampledGaussian(F(1, 10), F(5), steps=3, epsilon=F(1, 2), delta=delta)


EVENTS = st.one_of(
    st.builds(DiscreteGaussian, variance=st.integers(10, 1000).map(F), l2_squared=st.integers(1, 5)),
    st.integers(1, 900_000).map(lambda billionths: steps(F(billionths, 10**12))),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=1, max_size=4))
def test_what_is_told_is_what_the_account_was_charged(releases: list[list[Event]]) -> None:
    schema = declared("1e-5", "9e-6")
    ledger = ledger_of(schema)
    conversion, rho, delta = F("1e-6"), F(0), F(0)
    for events in releases:
        stored = settled(ledger, schema.account, events[0] if len(events) == 1 else Composed(tuple(events)))
        spent = ledger.get_account(schema.account).spent
        own = [F(spent.amount, 10**12) - rho, F(spent.delta, ATTO) - delta]
        rho, delta = rho + own[0], delta + own[1]
        guarantee = build_guarantee(schema, stored)
        assert (guarantee.told_delta, guarantee.total_delta) == (conversion + own[1], conversion + delta)
        this, total = told(guarantee.describe())
        assert this == (
            F(format_digits(convert_zcdp_to_epsilon(float(own[0]), 1e-6))),
            F(format_digits(conversion + own[1])),
        )
        assert total == (
            F(format_digits(convert_zcdp_to_epsilon(float(rho), 1e-6))),
            F(format_digits(conversion + delta)),
        )
        assert total[1] <= F("1e-5")  # never more than what was declared
        assert build_provenance(schema, stored).guarantee == guarantee.describe()
        assert ("spent_delta" in guarantee_to_dict(guarantee)) == bool(delta)


def test_steps_of_one_request_add_up_their_deltas() -> None:
    schema = declared("1e-5", "9e-6")
    ledger = ledger_of(schema)
    stored = [settled(ledger, schema.account, steps(F(n, 10**6))) for n in (1, 3)]
    assert build_guarantee(schema, *stored).told_delta == F("5e-6")


def test_a_chain_synthesis_tells_the_delta_of_its_steps(tmp_path: Path) -> None:
    """A delta of 0.00001 of which 0.000009 is for events: all of it is spent by one synthesis."""
    schema = declared("1e-5", "9e-6")
    with Session(Workspace(tmp_path), MemoryLedger()) as session:
        session.add_frame(schema, table())
        spec = replace(SPEC, chain=CHAIN)
        said = price_words(session.synth.explain(spec))
        made = session.synth.synthesize(spec)
        answer = session.ask("SELECT COUNT(*) FROM visits ERROR 50")
        spent = session.ledger.get_account(schema.account).spent
    assert spent.delta == 9 * 10**12
    this, total = told(made.guarantee.describe())
    assert this[1] == total[1] == F("1e-5")
    assert f"epsilon {format_digits(this[0])} at delta 0.00001 on its own" in said
    assert made.report.guarantee == made.guarantee.describe()
    this, total = told(answer.guarantee.describe())
    assert (this[1], total[1]) == (F("1e-6"), F("1e-5"))  # the question has no delta of its own, the account has
    assert answer.to_json()["cost"]["delta"] == "0.000001"


def test_a_total_without_the_events_deltas_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from siloquent.privacy import Guarantee

    monkeypatch.setattr(Guarantee, "total_delta", property(lambda self: self.report_delta))
    with pytest.raises(AssertionError):
        test_what_is_told_is_what_the_account_was_charged.hypothesis.inner_test([[steps(F("1e-6"))]])  # type: ignore[attr-defined]


BUDGETS = [
    ("zcdp", "1e-6", "0", False),
    ("zcdp", "1e-3", "0", False),
    ("zcdp", "0.001000001", "0", True),
    ("zcdp", "0.01", "0.0099", True),
    ("pure", "", "", False),
]


@pytest.mark.parametrize(("accountant", "delta", "events", "warned"), BUDGETS)
def test_check_warns_of_a_delta_that_promises_little(
    accountant: str, delta: str, events: str, warned: bool, tmp_path: Path
) -> None:
    budget = f'accountant = "{accountant}"\nepsilon = "1"\n'
    budget += f'delta = "{delta}"\ndelta_events = "{events}"\n' if delta else ""
    schema = parse_schema(
        'format = 1\nattribute = [{ name = "x", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }]\n'
        f'[table]\nname = "t"\nadjacency = "add-remove"\nunit = {{ kind = "row" }}\n[budget]\n{budget}'
    )
    with Session(Workspace(tmp_path), MemoryLedger()) as session:
        session.add_frame(schema, pa.table({"x": [1, 2]}))
        report = session.check("t")
    found = [one for one in report.findings if one.kind == "large_delta"]
    assert bool(found) == warned
    assert report.is_clean  # a warning, and not a contradiction between rows and declaration
    assert all("as they are" in one.sentence and "delta = " in one.fix for one in found)
