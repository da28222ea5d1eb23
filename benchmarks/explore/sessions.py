"""Sessions of a hundred questions: what APEx would pay, and what drawing from earlier answers leaves to pay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from benchmarks.explore.failures import limit
from benchmarks.row import Options, Row
from benchmarks.trials.session_failures import adversary, misses, scanner
from benchmarks.trials.sessions import BETA, ROWS, Walk, apex_price, laplace_price, session, walked
from siloquent.explore.plan.reuse.plans import ReusedMechanism
from siloquent.privacy import convert_zcdp_to_epsilon

SEEDS, LENGTHS = range(5), (30, 100)


def rows(options: Options) -> Iterator[Row]:
    """What sessions cost, how many answers are free, and how often promises break."""
    lengths = LENGTHS[:1] if options.quick else LENGTHS
    for length in lengths:
        yield from _zcdp(options, length)
    for length in lengths:
        yield from _default(options, length)
    for length in lengths:
        yield from _pure(options, length)
    if options.wants("sessions-simultaneous"):
        asked = [walked(seed, lengths[-1], "zcdp", "SIMULTANEOUS") for seed in SEEDS]
        alone = [walked(seed, lengths[-1], "zcdp", "NONE") for seed in SEEDS]
        yield Row(
            "sessions-simultaneous",
            ours=float(np.mean([_epsilon(one) for one in asked])),
            peer=float(np.mean([_epsilon(one) for one in alone])),
            unit="epsilon at 1e-6",
            how=f"{lengths[-1]} questions with REUSE SIMULTANEOUS, mean of seeds 0-4; peer: REUSE NONE; free answers "
            f"{[one.free for one in asked]}",
        )
    yield from _broken(options)


def _zcdp(options: Options, length: int) -> Iterator[Row]:
    ratios = []
    for seed in SEEDS:
        if not options.wants(f"sessions-zcdp-{length}"):
            return
        laplace, apex = sum(map(laplace_price, session(seed, length))), _apex(seed, length)
        ours, alone = walked(seed, length, "zcdp", "ANY"), walked(seed, length, "zcdp", "NONE")
        ratios.append(apex / _epsilon(ours))
        yield Row(
            f"sessions-zcdp-{length}-seed-{seed}",
            ours=ratios[-1],
            goal=9 if length == 100 else None,
            better="higher",
            unit="APEx / ours",
            how=f"REUSE ANY (independent allowed): {length} questions, N = {ROWS:,}, beta 5e-4: Laplace sum "
            f"{laplace:.2f}, APEx {apex:.3f}, Gaussian without reuse {_epsilon(alone):.3f}, ours {_epsilon(ours):.3f} "
            f"(rho {float(ours.total):.6f}) at 1e-6, {ours.free} free; {apex / _epsilon(ours, 1e-9):.2f} x at 1e-9",
        )
    yield Row(
        f"sessions-zcdp-{length}-mean",
        ours=float(np.mean(ratios)),
        goal=10 if length == 100 else None,
        better="higher",
        unit="APEx / ours",
        how=f"mean of the rows above, {min(ratios):.2f} to {max(ratios):.2f}",
    )


def _default(options: Options, length: int) -> Iterator[Row]:
    """With APEx's own promise: each answer holds whatever was asked before."""
    if not options.wants(f"sessions-default-{length}"):
        return
    ratios = []
    for seed in SEEDS:
        apex = _apex(seed, length)
        ours, strict, alone = (walked(seed, length, "zcdp", reuse) for reuse in ("", "SIMULTANEOUS", "NONE"))
        ratios.append(apex / _epsilon(ours))
        yield Row(
            f"sessions-default-{length}-seed-{seed}",
            ours=ratios[-1],
            goal=5 if length == 100 else None,
            better="higher",
            unit="APEx / ours",
            how=f"the default (fresh or simultaneous, the same again repeated): {length} questions, APEx {apex:.3f}, "
            f"ours {_epsilon(ours):.3f} at 1e-6, {ours.free} free, {ours.repeated} of them repeated; REUSE "
            f"SIMULTANEOUS, which never repeats, {apex / _epsilon(strict):.2f} x, {strict.free} free; fresh alone "
            f"{apex / _epsilon(alone):.2f} x",
        )
    yield Row(
        f"sessions-default-{length}-mean",
        ours=float(np.mean(ratios)),
        goal=5 if length == 100 else None,
        better="higher",
        unit="APEx / ours",
        how=f"mean of the rows above, {min(ratios):.2f} to {max(ratios):.2f}",
    )


def _apex(seed: int, length: int) -> float:
    return sum(map(apex_price, session(seed, length)))


def _pure(options: Options, length: int) -> Iterator[Row]:
    for seed in SEEDS:
        if options.wants(f"sessions-pure-{length}") and not (options.quick and seed > 1):
            apex, ours = _apex(seed, length), walked(seed, length, "pure", "ANY")
            yield Row(
                f"sessions-pure-{length}-seed-{seed}",
                ours=apex / float(ours.total),
                goal=2 if length == 100 else None,
                better="higher",
                unit="APEx / ours",
                how=f"pure, {length} questions: APEx {apex:.3f}, ours {float(ours.total):.3f}, {ours.free} free",
            )


def _broken(options: Options) -> Iterator[Row]:
    sessions = 5_000 if options.quick else 100_000
    names: tuple[Literal["zcdp", "pure"], ...] = ("zcdp", "pure")
    for name in names:
        if options.wants(f"sessions-misses-{name}"):
            walk = walked(0, 30, name, "ANY")
            missed = misses(walk, sessions)
            for label in ("fresh", "independent"):
                these = [
                    m
                    for m, one in zip(missed, walk.plans, strict=True)
                    if isinstance(one.chosen, ReusedMechanism) == (label != "fresh")
                ]
                yield Row(
                    f"sessions-misses-{name}-{label}",
                    ours=max(these) / sessions / BETA,
                    goal=limit(sessions, BETA) / sessions / BETA,
                    unit="of beta",
                    how=f"the worst of {len(these)} questions of seed 0 in {sessions:,} sessions; on average "
                    f"{np.mean(these) / sessions / BETA:.2f}; goal: one-sided binomial limit at 1e-9",
                )
    if options.wants("sessions-adversary"):
        independent, simultaneous = adversary(10_000 if options.quick else 100_000)
        how = "who knows the truth asks for the cells with positive noise, out of 100: share of runs beyond the bound"
        yield Row("sessions-adversary-independent", ours=independent, unit="of runs", how=f"{how}; not promised")
        yield Row("sessions-adversary-simultaneous", ours=simultaneous, goal=BETA, unit="of runs", how=how)
    if options.wants("sessions-scanner"):
        runs = 2_000 if options.quick else 40_000
        weak, strong = scanner(runs)
        how = "who knows the truth asks for the run of 100 cells whose noise is furthest off: share of runs beyond"
        yield Row("sessions-scanner-independent", ours=weak / runs, unit="of runs", how=f"{how}; not promised")
        yield Row(
            "sessions-scanner-simultaneous", ours=strong / runs, goal=limit(runs, BETA) / runs, unit="of runs", how=how
        )


def _epsilon(walk: Walk, delta: float = 1e-6) -> float:
    return convert_zcdp_to_epsilon(float(walk.total), delta)
