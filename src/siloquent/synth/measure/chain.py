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
from siloquent.synth.measure.run import measure
from siloquent.synth.plan.chain import ChainPlan, Training
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy, Offer
from siloquent.synth.spec.network import Network, blank_network, first_embeddings

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
DECAY_MEAN, DECAY_SQUARE, FLOOR = 0.9, 0.999, 1e-8


class Beginner(Protocol):
    """What stands on the other side of the room's door: it reads the counts and says how cells are grouped."""

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """As ``Learner.begin``."""
        ...


class Groups:
    """The learner of the counting steps: it keeps the group of every cell, and asks for no marginal."""

    def __init__(self, beginner: Beginner) -> None:
        self._beginner = beginner
        self.of_cells: tuple[Integers, ...] = ()

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """As ``Learner.begin``; the group of every cell of each attribute is kept."""
        groups = self._beginner.begin(fines, fine, tables)
        self.of_cells = tuple(np.repeat(group, each.widths) for each, group in zip(fines, groups, strict=True))
        return groups

    def offer(self, share: float) -> Offer:
        """Nothing is on offer."""
        return Offer((), ())

    def again(self) -> int:
        """Never asked: there are no rounds."""
        return 0

    def learn(self, joint: Noisy) -> None:
        """Never told: there are no rounds."""

    def output(self, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Never asked: there is no report."""
        return []


def measure_chain(
    plan: ChainPlan, table: PrivateTable, permit: Permit, beginner: Beginner, journal: Journal
) -> Measurements:
    """Fine counts, FD tables, and the parameters of a conditional model for each column but the first.

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
    groups = Groups(beginner)
    counted = measure(plan.first, table, permit, groups, journal)
    if plan.training is None:
        return counted
    rows: NDArray[np.int64] | None = None
    sizes = tuple(int(group.max()) + 1 for group in groups.of_cells)
    embeddings = first_embeddings(sizes, plan.chain.width, seed=plan.spec.seed)
    begun, steps = embeddings, list(counted.steps)
    for number in range(1, len(plan.sequence)):
        start = embeddings if plan.chain.reuse else begun
        network = blank_network(plan.sequence[:number], plan.sequence[number], sizes, start)

        def trained(network: Network = network) -> list[Noisy]:
            nonlocal rows
            if rows is None:
                rows = _grouped_rows(plan, table, permit, groups.of_cells)
            return [_noisy(plan, train(network, rows, plan))]

        (released,) = journal.step(trained)
        steps.append(released)
        embeddings = _with_embeddings(embeddings, sizes, network.with_flat(released.counts.view(np.float64)))
    return Measurements(counted.request, counted.schema_digest, permit.event, tuple(steps), counted.starts)


def _noisy(plan: ChainPlan, network: Network) -> Noisy:
    """A model's parameters as they leave the room: the bits of doubles."""
    assert plan.training is not None
    names = tuple(plan.first.names[place] for place in (*network.context, network.target))
    return Noisy("chain", names, network.flat().view(np.int64), Fraction(plan.training.variance))


def _with_embeddings(embeddings: Floats, sizes: tuple[int, ...], network: Network) -> Floats:
    """All embeddings with those of one model's context in their place."""
    ends, changed = np.cumsum((0, *sizes)), embeddings.copy()
    for i, place in enumerate(network.context):
        changed[ends[place] : ends[place + 1]] = network.embeddings[network.starts[i] : network.starts[i + 1]]
    return changed


def _grouped_rows(
    plan: ChainPlan, table: PrivateTable, permit: Permit, of_cells: tuple[Integers, ...]
) -> NDArray[np.int64]:
    """The rows that count, as groups of the modelled attributes, shape (rows, attributes). They stay in this room."""
    columns = list(plan.compiled.attributes)
    parts = []
    for batch in table.rows(columns, permit, encoded=True):
        places = np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns], axis=1)
        places = places[(places >= 0).all(axis=1)].astype(np.int64)
        chosen = [group[places[:, columns.index(name)]] for name, group in zip(plan.first.names, of_cells, strict=True)]
        parts.append(np.stack(chosen, axis=1))
    return np.concatenate(parts) if parts else np.zeros((0, len(of_cells)), dtype=np.int64)


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
    for step in range(1, settings.steps + 1):
        gradient = noisy_gradient(network.with_flat(line), rows, training, quanta) / training.batch
        mean = DECAY_MEAN * mean + (1 - DECAY_MEAN) * gradient
        square = DECAY_SQUARE * square + (1 - DECAY_SQUARE) * gradient**2
        length = settings.rate * (1 + math.cos(math.pi * (step - 1) / settings.steps)) / 2
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
