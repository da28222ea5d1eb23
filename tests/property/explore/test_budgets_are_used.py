"""``BUDGET x`` uses x but for a thousandth, and never more: whatever is asked of whatever account."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import siloquent as sq
from property.explore.test_rehearsals import ROWS, declared
from siloquent.api import Session
from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.plan.mechanisms import base, direct_noise, strategy
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event, convert_epsilon_to_rho, convert_zcdp_to_epsilon

WITHIN = Fraction(999, 1_000)
ACCOUNTS = ('accountant = "pure"\nepsilon = "900"', 'accountant = "zcdp"\nrho = "900"\ndelta = "1e-6"')
UNITS = ('{ kind = "row" }', '{ kind = "user", column = "who", max_rows = 3 }')
AGGREGATES = (
    "COUNT(*)", "SUM(m)", "AVG(m)", "VAR(m)", "STDDEV(m)", "MEDIAN(m)", "QUANTILE(m, 0.9)", "COUNT(*), AVG(m)",
    "QUANTILE(m, 0.25), MEDIAN(m), QUANTILE(m, 0.75)", "SUM(m), MEDIAN(m)", "AVG(m), MEDIAN(m)",
)  # fmt: skip
GROUPS = ("", "ward", "ill", "ward, ill")
WORKLOADS = (
    "BIN {} ON COUNT(*) WHERE W = PREFIX(m, 0, 10, 1)",
    "BIN {} ON SUM(m) WHERE W = {{m < 3, m < 7, ill}}",
    "BIN {} ON COUNT(*) WHERE W = CUBE(ward, ill)",
    "SELECT ward FROM {} GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1",
    "BIN {} ON COUNT(*) WHERE W = {{m < 3, m < 7, m > 1}} ORDER BY COUNT(*) DESC LIMIT 2",
)


def table(chance: random.Random, name: str) -> str:
    budget = chance.choice(ACCOUNTS)
    adjacency = chance.choice(("add-remove", "replace-one"))
    text = declared(name, '"drop"', chance.choice(('"clamp"', '"drop"')), adjacency, budget)
    return text.replace("attribute = [", 'attribute = [\n  { name = "who", type = "id" },').replace(
        UNITS[0], chance.choice(UNITS)
    )


def budget_of(chance: random.Random, *, zcdp: bool) -> str:
    amount = 10 ** chance.uniform(-1.5, 0.7)
    kind = chance.choice(("{} EPSILON", "{} EPSILON DELTA 1e-7", "{} RHO") if zcdp else ("{} EPSILON",))
    return "BUDGET " + kind.format(f"{amount / (10 if 'RHO' in kind else 1):.5g}")


def question(chance: random.Random, name: str, *, zcdp: bool) -> str:
    if chance.random() < 0.4:
        return chance.choice(WORKLOADS[: 5 if zcdp else 4]).format(name)  # overlapping lists take long in pure accounts
    aggregates, group = chance.choice(AGGREGATES), chance.choice(GROUPS)
    where = chance.choice(("", " WHERE ill", " WHERE m > 2"))
    asked = f"SELECT {group + ', ' if group else ''}{aggregates} FROM {name}{where}"
    return f"{asked}{f' GROUP BY {group}' if group else ''}"


def allowed(budget: str, *, zcdp: bool) -> Fraction:
    """What ``budget`` says, in the account's epsilon or rho."""
    _, amount, currency, *delta = budget.split()
    if zcdp and currency == "EPSILON":
        return Fraction(convert_epsilon_to_rho(float(amount), float(delta[1]) if delta else 1e-6))
    return Fraction(amount)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        yield session


def faults(session: Session, chance: random.Random, number: int) -> Iterator[str]:
    """What is wrong with the price of one question; nothing for one that cannot be asked."""
    name = f"visits{number}"
    rows = ROWS.append_column("who", [[str(i % 9) for i in range(len(ROWS))]])
    session.add_frame(sq.read_schema(table(chance, name)), rows)
    zcdp = session.schema(name).budget.accountant == "zcdp"
    budget = budget_of(chance, zcdp=zcdp)
    text = f"{question(chance, name, zcdp=zcdp)} {budget}"
    price = session.explain(text).price
    asked = allowed(budget, zcdp=zcdp)
    if not asked * WITHIN <= price <= asked:
        yield f"{text} is charged {float(price):.6g} of {float(asked):.6g}"
    if zcdp and "EPSILON" in budget:
        words = budget.split()
        epsilon = convert_zcdp_to_epsilon(float(price), float(words[-1]) if "DELTA" in words else 1e-6)
        if not float(words[1]) * 0.999 <= epsilon <= float(words[1]) * (1 + 1e-9):
            yield f"{text} is epsilon {epsilon}"
    if number % 6 == 0:
        paid = session.ask(text)
        if paid.cost.amount != price:
            yield f"{text} was charged {paid.cost.amount}, and {price} was said"


@pytest.mark.parametrize("part", range(4))
def test_a_budget_is_used_but_for_a_thousandth(session: Session, part: int) -> None:
    chance, asked = random.Random(part), 0
    for number in range(24):
        try:
            found = list(faults(session, chance, number))
        except (AccuracyUnreachable, RequestError):
            continue
        assert not found, found
        asked += 1
    assert asked > 15


def test_a_budget_of_a_tenth_is_a_tenth(session: Session) -> None:
    session.add_frame(sq.read_schema(declared("visits", '"drop"')), ROWS)
    assert (
        Fraction("0.0999")
        <= session.ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward BUDGET 0.1 EPSILON").cost.amount
        <= Fraction("0.1")
    )


def test_whole_steps_of_the_error_alone_would_be_seen(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def stays(largest: Fraction, *_: object, **__: object) -> Fraction:
        return largest

    for module in (strategy, direct_noise):
        monkeypatch.setattr(module, "sharpen_noise", stays)
    chance, wrong = random.Random(9), 0
    for number in range(20):
        try:
            wrong += bool(list(faults(session, chance, number)))
        except (AccuracyUnreachable, RequestError):
            continue
    assert wrong > 4


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_less_noise_is_found_as_near_as_samplers_draw_it(kind: str) -> None:
    chance = random.Random(3)
    bits = base.SCALE_BITS if kind == "laplace" else base.VARIANCE_BITS

    def event_of(size: Fraction) -> Event:
        return DiscreteLaplace(size, 3) if kind == "laplace" else DiscreteGaussian(size, 5)

    for _ in range(400):
        best = Fraction(chance.randint(1, 10**6), chance.choice((1, 1_000, 10**6 if kind == "laplace" else 10_000)))
        largest = best * chance.randint(1_024, 9_000) / 1_024
        found = base.sharpen_noise(largest, event_of, lambda event, at=best: _size(event) >= at, bits=bits)  # type: ignore[misc]
        assert best <= found <= largest
        assert found <= best * (1 + Fraction(1, 2**12)) or found == largest
        assert found == largest or found.denominator <= 2**bits
    assert base.sharpen_noise(Fraction(7, 3), event_of, None) == Fraction(7, 3)
    assert base.sharpen_noise(Fraction(7, 3), event_of, lambda _: False) == Fraction(7, 3)
    assert base.sharpen_noise(Fraction(100), event_of, lambda _: True, least=Fraction(9)) >= 9


def _size(event: Event) -> Fraction:
    assert isinstance(event, (DiscreteLaplace, DiscreteGaussian))
    return event.scale if isinstance(event, DiscreteLaplace) else event.variance
