"""The measurement of engine ``chain``: counts first, then one model after the other on secure samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.noise import add_gaussian
from siloquent.privacy.noise.bernoulli_draws import draw_coins
from siloquent.privacy.noise.probability import Weight
from siloquent.synth.measure.final_comparison import FinishedLearner, measure_comparison
from siloquent.synth.measure.gradients import Quanta, sum_clipped_gradients
from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.measure.marginals import CoarseDomain, MarginalQuery, classify_batch
from siloquent.synth.measure.progress import Run
from siloquent.synth.measure.run import build_coarse_domains, measure_first_counts
from siloquent.synth.measure.selection import add_vector_noise
from siloquent.synth.plan.chain import ChainPlan, TrainingNoise
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.measurements import Measurements, NoisyCounts
from siloquent.synth.spec.network import Network, build_blank_network, draw_first_embeddings

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
DECAY_MEAN, DECAY_SQUARE, FLOOR = 0.9, 0.999, 1e-8


class ChainLearnerLike(FinishedLearner, Protocol):
    """The interface of the learner, which sees noisy numbers only and returns the grouping of cells."""

    def begin(
        self, fines: Sequence[FineDomain], fine: Sequence[NoisyCounts], tables: Sequence[NoisyCounts]
    ) -> Sequence[Integers]:
        """Read the fine counts and FD tables; return the group of each run of cells, for every attribute."""
        ...

    def learn(self, step: NoisyCounts) -> None:
        """Read the first block's histogram, or a model's parameters."""
        ...


def measure_chain(
    plan: ChainPlan, table: PrivateTable, permit: Permit, learner: ChainLearnerLike, journal: StepJournal
) -> Measurements:
    """Measure fine counts, FD tables, and the parameters of a conditional model for each block but the first.

    Raises:
        NotAllowed: The permit is not an open permit of this table.
        DataError: The source failed; the charge stands, finished steps stay in the journal.
    Privacy:
        ``plan.event`` in rows added or removed (or replaced, at twice the sensitivity): discrete noise on counts, then
        ``steps`` x models discrete Gaussian steps on Poisson samples, drawn by secure coins. Proof:
        docs/explanation/synth-chain.md.
    Source:
        Thesis, algorithm 8, corrected: clipping by max(1, norm / C), no cropped samples, whole gradients.
    """
    run = Run(plan.first, table, permit, journal)
    fines, counted = measure_first_counts(run)
    coarse = build_coarse_domains(fines, learner.begin(fines, *counted))
    steps = [*counted[0], *counted[1], *_measure_first_block(plan, run, coarse)]
    rows: Integers | None = None
    sizes = tuple(math.prod(coarse[place].count for place in block) for block in plan.blocks)
    begun = embeddings = draw_first_embeddings(sizes, plan.chain.width, seed=plan.spec.seed)
    for number in range(1, len(plan.blocks)):
        network = build_blank_network(tuple(range(number)), number, sizes, embeddings if plan.chain.reuse else begun)

        def made(network: Network = network) -> list[NoisyCounts]:
            nonlocal rows
            if rows is None:
                rows = _read_block_rows(plan, run, coarse)
            return [_encode_parameters(plan, train(network, rows, plan))]

        (released,) = journal.run_step(made)
        steps.append(released)
        embeddings = _replace_embeddings(
            embeddings, sizes, network.replace_parameters(released.counts.view(np.float64))
        )
    for step in steps[len(fines) + len(counted[1]) :]:
        learner.learn(step)
    return run.collect_measurements(fines, (*steps, *measure_comparison(run, coarse, learner)))


def _measure_first_block(plan: ChainPlan, run: Run, coarse: Sequence[CoarseDomain]) -> tuple[NoisyCounts, ...]:
    """Measure the joint of the first block's groups, if it has several attributes.

    Privacy:
        ``plan.joint.event``: a vector that counts every row once.
    """
    noise, axes = plan.joint, plan.blocks[0]
    if noise is None:
        return ()

    def made() -> list[NoisyCounts]:
        (exact,) = run.count_exactly(coarse, [MarginalQuery(axes)])
        return [
            NoisyCounts(
                "joint", tuple(plan.names[axis] for axis in axes), add_vector_noise(exact, noise), noise.variance
            )
        ]

    return run.journal.run_step(made)


def _encode_parameters(plan: ChainPlan, network: Network) -> NoisyCounts:
    """Return a model's parameters as released: the bits of doubles."""
    assert plan.training is not None
    names = tuple(plan.names[place] for block in plan.blocks[: network.target + 1] for place in block)
    return NoisyCounts("chain", names, network.flatten().view(np.int64), Fraction(plan.training.variance))


def _replace_embeddings(embeddings: Floats, sizes: tuple[int, ...], network: Network) -> Floats:
    """Return all embeddings with those of one model's context replaced."""
    ends, changed = np.cumsum((0, *sizes)), embeddings.copy()
    for i, place in enumerate(network.context):
        changed[ends[place] : ends[place + 1]] = network.embeddings[network.starts[i] : network.starts[i + 1]]
    return changed


def _read_block_rows(plan: ChainPlan, run: Run, coarse: Sequence[CoarseDomain]) -> Integers:
    """Read the rows that count, as values of the plan's blocks, shape (rows, blocks). They never leave ``measure``."""
    columns, parts = tuple(plan.compiled.attributes), []
    for batch in run.table.read_rows(list(columns), run.permit, encoded=True):
        classes = classify_batch(batch, columns, coarse)[1]
        shapes = [tuple(coarse[place].count for place in block) for block in plan.blocks]
        values = [
            np.ravel_multi_index(tuple(classes[place] for place in block), shape)
            for block, shape in zip(plan.blocks, shapes, strict=True)
        ]
        parts.append(np.stack(values, axis=1).astype(np.int64))
    return np.concatenate(parts) if parts else np.zeros((0, len(plan.blocks)), dtype=np.int64)


def train(network: Network, rows: NDArray[np.integer], plan: ChainPlan) -> Network:
    """Return ``network`` after the plan's steps of noisy gradients on secure samples of ``rows``.

    Privacy:
        ``steps`` steps, each a discrete Gaussian of ``training.variance`` on a sum that one row moves by at most
        ``training.scale``, over a sample that contains each row with probability ``training.rate``, independently; an
        empty sample is a step like any other.
    """
    assert plan.training is not None
    training, settings = plan.training, plan.chain
    quanta = Quanta(settings.clip, training.scale)
    line = network.flatten()
    mean, square = np.zeros_like(line), np.zeros_like(line)
    for step in range(1, training.steps + 1):
        gradient = compute_noisy_gradient(network.replace_parameters(line), rows, training, quanta) / training.batch
        mean = DECAY_MEAN * mean + (1 - DECAY_MEAN) * gradient
        square = DECAY_SQUARE * square + (1 - DECAY_SQUARE) * gradient**2
        length = settings.rate * (1 + math.cos(math.pi * (step - 1) / training.steps)) / 2
        direction = mean / (1 - DECAY_MEAN**step)
        line = line - length * direction / (np.sqrt(square / (1 - DECAY_SQUARE**step)) + FLOOR)
    return network.replace_parameters(line)


def compute_noisy_gradient(
    network: Network, rows: NDArray[np.integer], training: TrainingNoise, quanta: Quanta
) -> Floats:
    """Return the noisy sum of clipped gradients over one secure sample, in units of the gradient.

    Privacy:
        One step of ``SampledGaussian``: rate ``training.rate``, multiplier ``training.multiplier``.
    """
    chosen = draw_coins(round_to_dyadic(training.rate), size=len(rows))
    exact = sum_clipped_gradients(network, rows[chosen], quanta)
    return add_gaussian(exact, variance=training.variance) / quanta.per_unit


def round_to_dyadic(rate: Fraction) -> Weight:
    """Round a rate to a coin's weight of at most 64 binary digits."""
    numerator = int(rate * 2**64)
    assert Fraction(numerator, 2**64) == rate

    def enclose(digits: int) -> tuple[int, int]:
        return (
            (numerator << digits - 64,) * 2
            if digits >= 64
            else (numerator >> 64 - digits, (numerator >> 64 - digits) + 1)
        )

    return Weight(enclose)
