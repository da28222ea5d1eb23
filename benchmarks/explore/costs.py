"""What the twelve questions of the APEx evaluation cost, beside what the thesis's valid mechanisms cost for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from benchmarks.datasets.published import SCHEMAS, TWELVE, Asked, question
from benchmarks.row import Options, Row
from siloquent.explore import parse
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.plan.steps import PlanStep, plan_query
from siloquent.privacy import Cost, convert_epsilon_to_rho, get_accountant

FIXED = ("QI3",)
"""Questions whose goal is for the cheapest mechanism of a fixed price. What the planner takes may stop early, and cost
less than that, or a quarter more: a row of its own shows its worst case."""
PLENTY = Cost(10**17, 0)


def planned(asked: Asked, name: str, share: str = "0.02") -> Plan:
    """The plan of a question in an account of that accountant; it touches no data."""
    return plan(parse(question(asked, share)), SCHEMAS[asked.table](name), left=PLENTY)


def price(asked: Asked, name: str, share: str = "0.02") -> Fraction:
    """Its price in epsilon or rho."""
    return get_accountant(name).compute_price(planned(asked, name, share).event).amount


def rows(options: Options) -> Iterator[Row]:
    """One row a question and accountant; and how many fit into (1, 1e-6)."""
    how = "alpha = .02 |D|, beta = 5e-4, worst case; thesis: its cheapest mechanism that keeps the promise"
    for asked in TWELVE:
        name = f"cost-pure-{asked.name}"
        if options.wants(name):
            found = planned(asked, "pure")
            ours = float(get_accountant("pure").compute_price(found.event).amount)
            if asked.name in FIXED:
                taken = f"{found.chosen.name}; what the planner takes, should it never stop early"
                yield Row(f"{name}-worst", ours=ours, peer=asked.valid, unit="epsilon", how=taken)
                cheapest = min((one for one in found.candidates if one.least is None), key=lambda one: one.cost.amount)
                ours, taken = cheapest.cost.amount / 10**9, cheapest.priced.name
            else:
                taken = found.chosen.name
            yield Row(name, ours=ours, peer=asked.valid, goal=asked.pure, unit="epsilon", how=f"{taken}; {how}")
        name = f"cost-zcdp-{asked.name}"
        if options.wants(name):
            found = planned(asked, "zcdp")
            ours = float(get_accountant("zcdp").compute_price(found.event).amount)
            yield Row(name, ours=ours, goal=asked.rho, unit="rho", how=f"{found.chosen.name}; {how}")
    yield from _quantiles(options)
    for name, at, goal, thesis in (("QW1", 0, 980, 53), ("QW2", 1, 195, 9)):
        if options.wants(f"fit-{name}"):
            each = get_accountant("zcdp").compute_cost(planned(TWELVE[at], "zcdp").event).amount
            fit = math.floor(convert_epsilon_to_rho(1, 1e-6) * 10**12) // each
            how = "questions at .02 |D| that fit into (1, 1e-6) of a zCDP account; thesis: its pure sum into 1"
            yield Row(f"fit-{name}", ours=fit, peer=thesis, goal=goal, better="higher", unit="questions", how=how)


def _quantiles(options: Options) -> Iterator[Row]:
    """Several quantiles off one measurement, beside a choice each."""
    quartiles, deciles = ["0.25", "0.5", "0.75"], [f"0.{i}" for i in range(1, 10)]
    for what, shares, goals in (("quartiles", quartiles, (1.5, 2.0)), ("deciles", deciles, (4.0, 6.0))):
        items = ", ".join(f"QUANTILE(hourweek, {share})" for share in shares)
        text = f"SELECT {items} FROM adult ERROR {', '.join(['2 PERCENT'] * len(shares))}"
        for name, goal in zip(("pure", "zcdp"), goals, strict=True):
            if not options.wants(f"quantiles-{name}-{what}"):
                continue
            first = plan_query(parse(text), SCHEMAS["adult"](name), left=PLENTY).first
            book = get_accountant(name)
            ours, apart = (
                float(book.compute_price(PlanStep(plans).event).amount) for plans in (first.plans, first.apart)
            )
            how = f"how much dearer a choice each is ({apart:.4g} for {ours:.4g}); Adult's hours, 2 % of |D|, beta 5e-4"
            yield Row(f"quantiles-{name}-{what}", ours=apart / ours, goal=goal, better="higher", unit="x", how=how)
