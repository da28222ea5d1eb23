"""Every noise function with its claims on neighbours, and the faults that an audit must find.

A case is data, so that tests, nightly runs and ``python -m benchmarks core`` audit the same list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy import convert_epsilon_to_rho, convert_zcdp_to_epsilon
from siloquent.privacy.noise import (
    add_gaussian,
    add_geometric,
    add_laplace,
    draw_noise_chain,
    randomise_values,
    select_exponential_top_k,
)
from siloquent.privacy.noise.bernoulli_draws import build_rational_weight, draw_coins
from siloquent.privacy.noise.selection import Rule, draw_selections
from tests.audit.harness import AuditResult, Release, audit

N = 100_000
DELTA = 1e-3  # a hundred outputs beyond delta in a hundred thousand
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
Counts = tuple[int, ...]
Pair = tuple[Counts, Counts]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A release, neighbours, and a claim about them."""

    name: str
    release: Release
    pair: tuple[Any, Any]
    epsilon: float
    delta: float = 0.0
    n: int = N

    def audit(self, *, times: int = 1) -> AuditResult:
        """The claim on trial, with ``times`` as many draws as tests take."""
        return audit(self.release, self.pair, epsilon=self.epsilon, delta=self.delta, n=times * self.n)

    def __str__(self) -> str:
        return self.name


def table(data: Counts, n: int) -> Integers:
    """``n`` copies of the exact numbers, shape (n, numbers)."""
    return np.tile(np.asarray(data, dtype=np.int64), (n, 1))


def laplace(scale: Fraction) -> Release:
    return lambda data, n: add_laplace(table(data, n), scale=scale)


def gaussian(variance: Fraction) -> Release:
    return lambda data, n: add_gaussian(table(data, n), variance=variance)


def ordered_ids(scale: Fraction, *, k: int) -> Release:
    """The ids of the k largest of counts plus geometric noise, ties in declared order."""
    return lambda data, n: np.argsort(-add_geometric(table(data, n), scale=scale), axis=1, kind="stable")[:, :k]


def chosen(rule: Rule, rate: Fraction) -> Release:
    return lambda data, n: draw_selections(np.array(data, dtype=np.int64), rate=rate, rule=rule, times=n)


def rounds(rate: Fraction, *, k: int) -> Release:
    return lambda data, n: np.array([select_exponential_top_k(np.array(data), rate=rate, k=k) for _ in range(n)])


def prefix(scales: tuple[Fraction, ...], *, length: int) -> Release:
    """The first ``length`` noisy vectors of a chain, coarsest first, one run a row."""

    def release(data: Counts, n: int) -> Integers:
        chain = draw_noise_chain(n * len(data), scales=scales).reshape(len(scales), n, len(data))
        return np.concatenate(list(chain[:length] + np.array(data)), axis=1)

    return release


def reported(size: int, p: Fraction) -> Release:
    return lambda data, n: randomise_values(np.full(n, data[0], dtype=np.int64), size=size, p=p)


def variance_for(epsilon: Fraction, l2_squared: int) -> Fraction:
    """A variance whose zCDP loss converts to about ``epsilon`` at DELTA."""
    return Fraction(math.ceil(1024 * l2_squared / (2 * convert_epsilon_to_rho(float(epsilon), DELTA))), 1024)


def zcdp_epsilon(variance: Fraction, l2_squared: int) -> float:
    """The epsilon at DELTA that the ledger's formula gives for this variance."""
    return convert_zcdp_to_epsilon(float(l2_squared / (2 * variance)), DELTA)


def truth(epsilon: Fraction, size: int) -> Fraction:
    """A chance of truth for which k-ary randomised response has an epsilon close to ``epsilon``."""
    return Fraction(math.exp(epsilon) / (math.exp(epsilon) + size - 1)).limit_denominator(10**6)


def response_epsilon(p: Fraction, size: int) -> float:
    return math.log(p * (size - 1) / (1 - p))


#: Neighbours with their L1 and squared L2 distance.
VECTORS: dict[str, tuple[Pair, int, int]] = {
    "one count": (((0,), (1,)), 1, 1),
    "next cell": (((3, 7, 2), (3, 8, 2)), 1, 1),
    "empty table": (((0, 0, 0, 0), (0, 0, 1, 0)), 1, 1),
    "replace-one": (((1, 0, 5), (0, 1, 5)), 2, 2),
    "user of three": (((4, 4), (6, 5)), 3, 5),
}
#: Neighbours whose counts all move in one direction by at most 1, and others.
GROWING: dict[str, Pair] = {
    "all but the first grow": ((0, 0, 0, 0), (0, 1, 1, 1)),
    "rivals grow": ((0, 0, 0, 0), (0, 0, 1, 1)),
    "one grows": ((2, 1, 2, 0), (2, 2, 2, 0)),
}
MOVING: dict[str, Pair] = {
    "two for two": ((0, 0, 1, 1), (1, 1, 0, 0)),
    "one for one": ((1, 0, 2, 0), (0, 1, 2, 0)),
    "one against five": ((0, 0, 0, 0, 0, 0), (1, -1, -1, -1, -1, -1)),
}
CHAIN = (Fraction(3), Fraction(2), Fraction(5, 4), Fraction(1))  # times the scale that an epsilon asks for


def claims() -> Iterator[Case]:
    """Every noise function x three epsilons x at least three neighbour pairs; each is audited in both directions."""
    for epsilon in EPSILONS:
        yield from _noisy(epsilon)
        yield from _chosen(epsilon)
        for length in range(1, len(CHAIN) + 1):
            scales = tuple(factor / epsilon for factor in CHAIN)
            for where in ("one count", "next cell", "replace-one"):
                pair, l1, _ = VECTORS[where]
                name = f"chain to {length}, {where}, eps {epsilon}"
                yield Case(name, prefix(scales, length=length), pair, l1 / float(scales[length - 1]), n=N // 2)
        for size in (2, 5):
            p = truth(epsilon, size)
            for value in {1, size - 1, size // 2}:
                yield Case(
                    f"response of {size}, 0 or {value}, eps {epsilon}",
                    reported(size, p),
                    ((0,), (value,)),
                    response_epsilon(p, size),
                )


def _noisy(epsilon: Fraction) -> Iterator[Case]:
    for where, (pair, l1, l2_squared) in VECTORS.items():
        yield Case(f"laplace, {where}, eps {epsilon}", laplace(l1 / epsilon), pair, float(epsilon))
        variance = variance_for(epsilon, l2_squared)
        claimed = zcdp_epsilon(variance, l2_squared)
        yield Case(f"gaussian, {where}, eps {epsilon}", gaussian(variance), pair, claimed, DELTA)


def _chosen(epsilon: Fraction) -> Iterator[Case]:
    rules: tuple[Rule, Rule] = ("permute-and-flip", "exponential")
    for pairs, factor, kind in ((GROWING, 1, "one way"), (MOVING, 2, "any way")):
        for where, pair in pairs.items():
            for k in (1, 2):
                name = f"geometric top-{k}, {kind}, {where}, eps {epsilon}"
                yield Case(name, ordered_ids(factor * k / epsilon, k=k), pair, float(epsilon))
            for rule in rules:
                yield Case(
                    f"{rule}, {kind}, {where}, eps {epsilon}", chosen(rule, epsilon / factor), pair, float(epsilon)
                )
        where, pair = next(iter(pairs.items()))
        name = f"two exponential rounds, {kind}, {where}, eps {epsilon}"
        yield Case(name, rounds(epsilon / (2 * factor), k=2), pair, float(epsilon), n=N // 25)


def faults() -> Iterator[Case]:
    """Mechanisms with one mistake each, claimed as if they had none."""
    for epsilon in EPSILONS:
        # A tenth short at epsilon 0.1 takes 10^8 draws to see, so there the fault is larger.
        short = Fraction(1, 2) if epsilon < 1 else Fraction(9, 10)
        yield from _short_noise(epsilon, short)
        yield from _wrong_choices(epsilon)
    yield from _wrong_sensitivities()
    yield from _wrong_releases()
    yield from _wrong_chains()


def _short_noise(epsilon: Fraction, short: Fraction) -> Iterator[Case]:
    one, claimed = VECTORS["one count"][0], float(epsilon)
    yield Case(f"laplace scale {1 - short} short at eps {epsilon}", laplace(short / epsilon), one, claimed, n=4 * N)
    # The ledger's conversion leaves some room above the true epsilon at DELTA: a tenth of the variance hides in it.
    variance, least = variance_for(epsilon, 1), Fraction(1, 16) if epsilon < 1 else Fraction(1, 4)
    claimed_at = zcdp_epsilon(variance, 1)
    yield Case(
        f"gaussian variance times {least} at eps {epsilon}", gaussian(variance * least), one, claimed_at, DELTA, 4 * N
    )
    # So does a list of two ids, which tells less than k D / b.
    yield Case(
        f"geometric scale halved at eps {epsilon}",
        ordered_ids(1 / epsilon, k=2),
        GROWING["rivals grow"],
        claimed,
        n=4 * N,
    )
    p = truth(epsilon, 5)
    yield Case(
        f"response of 5 priced as of 2 at eps {epsilon}",
        reported(5, p),
        ((0,), (1,)),
        max(math.log(p / (1 - p)), 0.0),
        n=4 * N,
    )


def _wrong_choices(epsilon: Fraction) -> Iterator[Case]:
    claimed = float(epsilon)
    yield Case(
        f"one-way price for counts that move both ways at eps {epsilon}",
        ordered_ids(2 / epsilon, k=2),
        MOVING["two for two"],
        claimed,
        n=4 * N,
    )
    rules: tuple[Rule, Rule] = ("permute-and-flip", "exponential")
    for rule in rules:
        yield Case(
            f"{rule} without its factor two at eps {epsilon}",
            chosen(rule, epsilon),
            MOVING["one against five"],
            claimed,
            n=(16 if epsilon < 1 else 4) * N,
        )


def _wrong_sensitivities() -> Iterator[Case]:
    yield Case("L2 for L1", laplace(Fraction(1)), ((0, 0, 0), (1, 1, 1)), math.sqrt(3), n=8 * N)
    yield Case("replace-one priced as add-remove", laplace(Fraction(1)), ((1, 0), (0, 1)), 1.0)
    yield Case("a user of three rows priced as one", laplace(Fraction(1)), VECTORS["user of three"][0], 1.0)
    variance = variance_for(Fraction(1), 4)
    yield Case("L2 for squared L2", gaussian(variance), ((0,), (4,)), zcdp_epsilon(variance, 4), DELTA, 8 * N)
    yield Case("a clamp left out", laplace(Fraction(10)), ((0,), (25,)), 1.0)
    yield Case("one winner's price for three", ordered_ids(Fraction(1), k=3), GROWING["rivals grow"], 1.0, n=4 * N)
    yield Case(
        "utilities that move by two", chosen("exponential", Fraction(1, 2)), ((0, 0, 0), (2, -2, -2)), 1.0, n=4 * N
    )
    yield Case("one round's price for two", rounds(Fraction(1), k=2), MOVING["two for two"], 1.0, n=N // 10)


def _wrong_releases() -> Iterator[Case]:
    one, three = VECTORS["one count"][0], VECTORS["next cell"][0]
    releases: dict[str, tuple[Callable[[Integers], Integers], Pair]] = {
        "noise on populated cells alone": (lambda x: np.where(x > 0, add_laplace(x, scale=1), 0), one),
        "one noise for the whole vector": (lambda x: x + add_laplace(x[:, :1] * 0, scale=1), three),
        "one-sided noise shown": (lambda x: add_geometric(x, scale=1), one),
        "noise cut at three scales": (lambda x: x + add_laplace(x * 0, scale=1).clip(-3, 3), one),
        "noise that grows with the data": (lambda x: _scaled(x), ((1,), (2,))),
        "an exact number beside the noisy ones": (lambda x: np.hstack([add_laplace(x, scale=1), x[:, :1]]), one),
        "an error for an empty table": (lambda x: np.where(x.sum() == 0, -(10**6), add_laplace(x, scale=1)), one),
        "the true largest id": (lambda x: np.argsort(-x, axis=1)[:, :1], ((1, 0), (0, 1))),
        "noise rounded to even, data not": (lambda x: x + add_laplace(x * 0, scale=1) // 2 * 2, one),
        "the same noise twice": (lambda x: _twice(x), ((3, 7, 2), (3, 7, 3))),
    }
    for name, (release, pair) in releases.items():
        yield Case(name, _on_tables(release), pair, 1.0)


def _on_tables(release: Callable[[Integers], Integers]) -> Release:
    return lambda data, n: release(table(data, n))


def _scaled(x: Integers) -> Integers:
    return add_laplace(x, scale=Fraction(int(x.max())))


def _twice(x: Integers) -> Integers:
    """The noise of the first half of the values comes again in the last."""
    noise = add_laplace(x * 0, scale=1)
    noise[:, -1] = noise[:, 0]
    return x + noise


def _wrong_chains() -> Iterator[Case]:
    one = VECTORS["one count"][0]
    scales = (Fraction(4), Fraction(2), Fraction(1))

    def forwards(data: Counts, n: int) -> Integers:
        """Every step with fresh noise: the steps add up."""
        return np.hstack([add_laplace(table(data, n), scale=scale) for scale in scales])

    def continuous(data: Counts, n: int) -> Integers:
        """The stay weight of continuous noise, which stays too often."""
        coarse, fine = Fraction(1), Fraction(1, 4)
        last = add_laplace(table(data, n), scale=fine)
        stay = draw_coins(build_rational_weight((fine / coarse) ** 2), size=n)[:, None]
        return np.where(stay, last, add_laplace(last, scale=coarse))

    yield Case("a chain drawn forwards", forwards, one, 1.0)
    yield Case("a chain with the weight of continuous noise", continuous, one, 1.0, n=8 * N)
    yield Case("the coarse step's price for the fine one", prefix(scales, length=3), one, 1 / 2)
