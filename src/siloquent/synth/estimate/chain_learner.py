"""Engine ``chain`` on its way: it reads noisy counts and parameters, and shows what will be put out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.bins import projected
from siloquent.synth.estimate.chain import ChainModel, block_sizes
from siloquent.synth.estimate.chain_weights import fit_weights
from siloquent.synth.estimate.frame import Frame, frame_of, rate_read
from siloquent.synth.estimate.judges import Judges, trained
from siloquent.synth.estimate.keep import Tables
from siloquent.synth.plan.chain import given_weights, wanted_rates
from siloquent.synth.plan.room import rows_that_fit
from siloquent.synth.spec.fine import Fine
from siloquent.synth.spec.measured import Measurements, Noisy
from siloquent.synth.spec.network import Network, blank_network, first_embeddings

if TYPE_CHECKING:
    from siloquent.synth.plan.chain import ChainPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ChainLearner:
    """What was released so far. Every answer is a function of it and of the plan."""

    def __init__(self, plan: ChainPlan, *, extra: Tables | None = None) -> None:
        self.plan, self.extra = plan, extra
        self._frame: Frame | None = None
        self._joint: Noisy | None = None
        self._steps: list[Noisy] = []
        self._model: ChainModel | None = None
        self.rates: dict[int, float] = wanted_rates(plan.spec)

    @property
    def frame(self) -> Frame:
        """What the fine counts said."""
        assert self._frame is not None
        return self._frame

    @property
    def rows(self) -> int:
        """How many rows are put out: as asked, or as many as the table has and memory holds."""
        asked = self.plan.spec.rows
        return rows_that_fit(self.frame.rows, len(self.frame.compiled.attributes)) if asked is None else asked

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """None: every column hangs on all before it."""
        return ()

    def begin(self, fines: Sequence[Fine], fine: Sequence[Noisy], tables: Sequence[Noisy]) -> Sequence[Integers]:
        """Groups from the fine counts."""
        self._frame = frame_of(self.plan.compiled, fines, fine, tables, extra=self.extra)
        return self._frame.groups

    def learn(self, step: Noisy) -> None:
        """Read the first block's histogram, or a model's parameters."""
        if step.kind == "joint":
            self._joint = step
        else:
            self._steps.append(step)
        self._model = None

    def least_rows(self) -> int:
        """A number of rows that the table surely has, at least 2: six deviations below the estimate."""
        return self.frame.least_rows()

    def learn_rates(self, rates: Noisy) -> None:
        """Read the rates of soft constraints: what the drawn rows will meet."""
        self.rates.update(rate_read(rates))
        self._model = None

    def finished(self) -> ChainModel:
        """The model of all that was released, with weights at which drawn rows meet the known rates."""
        if self._model is None:
            plan = self.plan
            self._model = fit_weights(self.weighted(given_weights(plan.spec)), self.rates, seed=plan.spec.seed)
        return self._model

    def weighted(self, weights: Mapping[int, float]) -> ChainModel:
        """The model with these weights, whatever the rates are."""
        return ChainModel(self.plan, self.frame, self._first(), self._networks(), dict(weights))

    def output(self, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """What the rows to be put out have in the groups of these marginals, scaled to the number of rows."""
        return self.frame.counts_of(self._made(), marginals)

    def judges(self) -> Judges:
        """Classifiers of the first target that learned from the rows to be put out."""
        assert self.plan.first.judged is not None
        return trained(self._made(), self.plan.first.judged, self.frame.sizes, seed=self.plan.spec.seed)

    def _made(self) -> Integers:
        return self.frame.groups_of(self.finished().cells(self.rows, seed=self.plan.spec.seed))

    def _first(self) -> Floats:
        """The law of the first block: the groups' shares, or its own histogram."""
        frame, block = self.frame, self.plan.blocks[0]
        if self._joint is not None:
            return projected(self._joint.counts.astype(np.float64).ravel(), float(frame.total)) / frame.total
        place = block[0]
        shares = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
        return np.asarray(shares / shares.sum())

    def _networks(self) -> tuple[Network, ...]:
        sizes = block_sizes(self.plan, self.frame)
        blank = first_embeddings(sizes, self.plan.chain.width, seed=self.plan.spec.seed)
        return tuple(
            blank_network(tuple(range(number)), number, sizes, blank).with_flat(step.counts.view(np.float64))
            for number, step in enumerate(self._steps, 1)
        )


def chain_of(plan: ChainPlan, measured: Measurements, *, extra: Tables | None = None) -> ChainLearner:
    """The learner at the end of a run, from what the run released: the same at every replay."""
    learner = ChainLearner(plan, extra=extra)
    fines = tuple(
        replace(fine, starts=starts, ordered=fine.ordered + len(starts) - len(fine.starts))
        for fine, (_, starts) in zip(plan.first.fines, measured.starts, strict=True)
    )
    learner.begin(fines, measured.of_kind("fine"), measured.of_kind("table"))
    for step in (*measured.of_kind("joint"), *measured.of_kind("chain")):
        learner.learn(step)
    for rates in measured.of_kind("rates"):
        learner.learn_rates(rates)
    return learner
