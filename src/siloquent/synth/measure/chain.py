"""The walk over the steps of engine ``chain``: counts first, then one model after the other on secure samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.noise import add_gaussian
from siloquent.privacy.noise.coins import coins
from siloquent.privacy.noise.probability import Weight
from siloquent.synth.measure.gradients import Quanta, clipped_sum
from siloquent.synth.measure.journal import Journal
from siloquent.synth.measure.marginals import Coarse, Wanted, classes_of
from siloquent.synth.measure.progress import Run
from siloquent.synth.measure.run import first_counts, grouped
from siloquent.synth.measure.selection import noisy
from siloquent.synth.measure.truth import Finished, truth
from siloquent.synth.plan.chain import ChainPlan, Training
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy
from siloquent.synth.spec.network import Network, blank_network, first_embeddings

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
DECAY_MEAN, DECAY_SQUARE, FLOOR = 0.9, 0.999, 1e-8


class ChainLearner(Finished, Protocol):
    """What stands on the other side of the room's door: it reads noisy numbers, and says how cells are grouped."""

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """Read the fine counts and FD tables; the group of each run of cells, for every attribute."""
        ...

    def learn(self, step: Noisy) -> None:
        """Read the first block's histogram, or a model's parameters."""
        ...


def measure_chain(
    plan: ChainPlan, table: PrivateTable, permit: Permit, learner: ChainLearner, journal: Journal
) -> Measurements:
    """Fine counts, FD tables, and the parameters of a conditional model for each block of columns but the first.

    Raises:
        NotAllowed: The permit is not an open one of this table.
        DataError: The source failed; the charge stands, finished steps stay in the journal.
    Privacy:
        ``plan.event`` in rows added or removed (or replaced, at twice the sensitivity): discrete noise on counts, then
        ``steps`` x models discrete Gaussian steps on Poisson samples, drawn by secure coins. Proof:
        docs/explanation/synth-chain.md.
    Source:
        Thesis, algorithm 8, corrected: clipping by max(1, norm / C), no cropped samples, whole gradients.
    """
    run = Run(plan.first, table, permit, journal)
    fines, counted = first_counts(run)
    coarse = grouped(fines, learner.begin(fines, *counted))
    steps = [*counted[0], *counted[1], *_first_block(plan, run, coarse)]
    rows: Integers | None = None
    sizes = tuple(math.prod(coarse[place].count for place in block) for block in plan.blocks)
    begun = embeddings = first_embeddings(sizes, plan.chain.width, seed=plan.spec.seed)
    for number in range(1, len(plan.blocks)):
        network = blank_network(tuple(range(number)), number, sizes, embeddings if plan.chain.reuse else begun)

        def made(network: Network = network) -> list[Noisy]:
            nonlocal rows
            if rows is None:
                rows = _rows_of_blocks(plan, run, coarse)
            return [_noisy(plan, train(network, rows, plan))]

        (released,) = journal.step(made)
        steps.append(released)
        embeddings = _with_embeddings(embeddings, sizes, network.with_flat(released.counts.view(np.float64)))
    for step in steps[len(fines) + len(counted[1]) :]:
        learner.learn(step)
    return run.measured(fines, (*steps, *truth(run, coarse, learner)))


def _first_block(plan: ChainPlan, run: Run, coarse: Sequence[Coarse]) -> tuple[Noisy, ...]:
    """The joint of the first block's groups, if it has several attributes.

    Privacy:
        ``plan.joint.event``: a vector that counts every row once.
    """
    noise, axes = plan.joint, plan.blocks[0]
    if noise is None:
        return ()

    def made() -> list[Noisy]:
        (exact,) = run.counts(coarse, [Wanted(axes)])
        return [Noisy("joint", tuple(plan.names[axis] for axis in axes), noisy(exact, noise), noise.variance)]

    return run.journal.step(made)


def _noisy(plan: ChainPlan, network: Network) -> Noisy:
    """A model's parameters as they leave the room: the bits of doubles."""
    assert plan.training is not None
    names = tuple(plan.names[place] for block in plan.blocks[: network.target + 1] for place in block)
    return Noisy("chain", names, network.flat().view(np.int64), Fraction(plan.training.variance))


def _with_embeddings(embeddings: Floats, sizes: tuple[int, ...], network: Network) -> Floats:
    """All embeddings with those of one model's context in their place."""
    ends, changed = np.cumsum((0, *sizes)), embeddings.copy()
    for i, place in enumerate(network.context):
        changed[ends[place] : ends[place + 1]] = network.embeddings[network.starts[i] : network.starts[i + 1]]
    return changed


def _rows_of_blocks(plan: ChainPlan, run: Run, coarse: Sequence[Coarse]) -> Integers:
    """The rows that count, as values of the plan's blocks, shape (rows, blocks). They stay in this room."""
    columns, parts = tuple(plan.compiled.attributes), []
    for batch in run.table.rows(list(columns), run.permit, encoded=True):
        classes = classes_of(batch, columns, coarse)[1]
        shapes = [tuple(coarse[place].count for place in block) for block in plan.blocks]
        values = [
            np.ravel_multi_index(tuple(classes[place] for place in block), shape)
            for block, shape in zip(plan.blocks, shapes, strict=True)
        ]
        parts.append(np.stack(values, axis=1).astype(np.int64))
    return np.concatenate(parts) if parts else np.zeros((0, len(plan.blocks)), dtype=np.int64)


def train(network: Network, rows: NDArray[np.integer], plan: ChainPlan) -> Network:
    """``network`` after the plan's steps of noisy gradients on secure samples of ``rows``.

    Privacy:
        ``steps`` steps, each a discrete Gaussian of ``training.variance`` on a sum that one row moves by at most
        ``training.scale``, over a sample in which each row is with chance ``training.rate``, independently; an empty
        sample is a step like any other.
    """
    assert plan.training is not None
    training, settings = plan.training, plan.chain
    quanta = Quanta(settings.clip, training.scale)
    line = network.flat()
    mean, square = np.zeros_like(line), np.zeros_like(line)
    for step in range(1, training.steps + 1):
        gradient = noisy_gradient(network.with_flat(line), rows, training, quanta) / training.batch
        mean = DECAY_MEAN * mean + (1 - DECAY_MEAN) * gradient
        square = DECAY_SQUARE * square + (1 - DECAY_SQUARE) * gradient**2
        length = settings.rate * (1 + math.cos(math.pi * (step - 1) / training.steps)) / 2
        direction = mean / (1 - DECAY_MEAN**step)
        line = line - length * direction / (np.sqrt(square / (1 - DECAY_SQUARE**step)) + FLOOR)
    return network.with_flat(line)


def noisy_gradient(network: Network, rows: NDArray[np.integer], training: Training, quanta: Quanta) -> Floats:
    """The noisy sum of clipped gradients over one secure sample, in units of the gradient.

    Privacy:
        One step of ``SampledGaussian``: rate ``training.rate``, multiplier ``training.multiplier``.
    """
    chosen = coins(dyadic(training.rate), size=len(rows))
    exact = clipped_sum(network, rows[chosen], quanta)
    return add_gaussian(exact, variance=training.variance) / quanta.per_unit


def dyadic(rate: Fraction) -> Weight:
    """A coin whose weight has at most 64 binary digits."""
    numerator = int(rate * 2**64)
    assert Fraction(numerator, 2**64) == rate

    def enclose(digits: int) -> tuple[int, int]:
        return (
            (numerator << digits - 64,) * 2
            if digits >= 64
            else (numerator >> 64 - digits, (numerator >> 64 - digits) + 1)
        )

    return Weight(enclose)
