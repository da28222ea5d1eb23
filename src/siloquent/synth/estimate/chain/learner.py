"""The learner of engine ``chain``: it reads noisy counts and parameters, and produces the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.bins import project_to_simplex
from siloquent.synth.estimate.chain.model import ChainModel, compute_block_sizes
from siloquent.synth.estimate.chain.weights import fit_weights
from siloquent.synth.estimate.enforce.constraints import Tables
from siloquent.synth.estimate.model_domain import ModelDomain, build_model_domain, parse_rates
from siloquent.synth.estimate.report.classifiers import FittedClassifiers, train_classifiers
from siloquent.synth.plan.chain import collect_given_weights, collect_wanted_rates
from siloquent.synth.plan.memory_limit import limit_rows
from siloquent.synth.spec.fine_domain import FineDomain
from siloquent.synth.spec.measurements import Measurements, NoisyCounts
from siloquent.synth.spec.network import Network, build_blank_network, draw_first_embeddings

if TYPE_CHECKING:
    from siloquent.synth.plan.chain import ChainPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class ChainLearner:
    """The state of a run: everything it returns is a function of the plan and of the measurements released so far."""

    def __init__(self, plan: ChainPlan, *, extra: Tables | None = None) -> None:
        self.plan, self.extra = plan, extra
        self._frame: ModelDomain | None = None
        self._joint: NoisyCounts | None = None
        self._steps: list[NoisyCounts] = []
        self._model: ChainModel | None = None
        self.rates: dict[int, float] = collect_wanted_rates(plan.spec)

    @property
    def frame(self) -> ModelDomain:
        """The domain of the model, from the fine counts."""
        assert self._frame is not None
        return self._frame

    @property
    def rows(self) -> int:
        """The number of output rows: as requested, or as many as the table has and memory holds."""
        asked = self.plan.spec.rows
        return limit_rows(self.frame.rows, len(self.frame.compiled.attributes)) if asked is None else asked

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """Empty: every column depends on all columns before it."""
        return ()

    def begin(
        self, fines: Sequence[FineDomain], fine: Sequence[NoisyCounts], tables: Sequence[NoisyCounts]
    ) -> Sequence[Integers]:
        """Read the fine counts and return the groups."""
        self._frame = build_model_domain(self.plan.compiled, fines, fine, tables, extra=self.extra)
        return self._frame.groups

    def learn(self, step: NoisyCounts) -> None:
        """Read the first block's histogram, or a model's parameters."""
        if step.kind == "joint":
            self._joint = step
        else:
            self._steps.append(step)
        self._model = None

    def bound_rows(self) -> int:
        """Return a lower bound on the number of rows, at least 2: six deviations below the estimate."""
        return self.frame.bound_rows()

    def learn_rates(self, rates: NoisyCounts) -> None:
        """Read the rates of soft constraints that the drawn rows will meet."""
        self.rates.update(parse_rates(rates))
        self._model = None

    def finish(self) -> ChainModel:
        """Return the final model, with weights at which drawn rows meet the known rates."""
        if self._model is None:
            plan = self.plan
            self._model = fit_weights(
                self.build_weighted_model(collect_given_weights(plan.spec)), self.rates, seed=plan.spec.seed
            )
        return self._model

    def build_weighted_model(self, weights: Mapping[int, float]) -> ChainModel:
        """Return the model with these weights, whatever the rates are."""
        return ChainModel(self.plan, self.frame, self._compute_first_block(), self._rebuild_networks(), dict(weights))

    def count_output(self, marginals: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Return the counts of the output rows in the groups of these marginals, scaled to the number of rows."""
        return self.frame.count_groups(self._draw_output(), marginals)

    def fit_classifiers(self) -> FittedClassifiers:
        """Return classifiers of the first target, trained on the output rows."""
        assert self.plan.first.judged is not None
        return train_classifiers(
            self._draw_output(), self.plan.first.judged, self.frame.sizes, seed=self.plan.spec.seed
        )

    def _draw_output(self) -> Integers:
        return self.frame.find_groups(self.finish().draw_cells(self.rows, seed=self.plan.spec.seed))

    def _compute_first_block(self) -> Floats:
        """Return the distribution of the first block: the groups' shares, or its own histogram."""
        frame, block = self.frame, self.plan.blocks[0]
        if self._joint is not None:
            return project_to_simplex(self._joint.counts.astype(np.float64).ravel(), float(frame.total)) / frame.total
        place = block[0]
        shares = np.bincount(frame.groups[place], weights=frame.shares[place], minlength=frame.sizes[place])
        return np.asarray(shares / shares.sum())

    def _rebuild_networks(self) -> tuple[Network, ...]:
        sizes = compute_block_sizes(self.plan, self.frame)
        blank = draw_first_embeddings(sizes, self.plan.chain.width, seed=self.plan.spec.seed)
        return tuple(
            build_blank_network(tuple(range(number)), number, sizes, blank).replace_parameters(
                step.counts.view(np.float64)
            )
            for number, step in enumerate(self._steps, 1)
        )


def rebuild_chain_learner(plan: ChainPlan, measured: Measurements, *, extra: Tables | None = None) -> ChainLearner:
    """Return the learner at the end of a run, rebuilt from its measurements: the same at every replay."""
    learner = ChainLearner(plan, extra=extra)
    fines = tuple(
        replace(fine, starts=starts, ordered=fine.ordered + len(starts) - len(fine.starts))
        for fine, (_, starts) in zip(plan.first.fines, measured.starts, strict=True)
    )
    learner.begin(fines, measured.select_kind("fine"), measured.select_kind("table"))
    for step in (*measured.select_kind("joint"), *measured.select_kind("chain")):
        learner.learn(step)
    for rates in measured.select_kind("rates"):
        learner.learn_rates(rates)
    return learner
