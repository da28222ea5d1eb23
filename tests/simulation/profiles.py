"""Profiles under the same seeded faults: every protocol, over real envelopes and journals, in a group of toy size."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from benchmarks.trials.toy_group import ToyGroup
from siloquent.federation.channel import Channel
from siloquent.federation.crypto.worker import ChainWorker
from siloquent.federation.messages.invitation import Invitation
from siloquent.maths.dependencies import discover as in_the_open
from siloquent.profile.federated import build_invitation
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec, build_dependencies
from siloquent.profile.task import Terms, discover, respond
from siloquent.testing.profile import open_in_memory
from simulation.simulator import LASTS_S, MEMBERS, Run, Simulation

COLUMNS = ("a", "b", "c")
NEEDLE_TEXT = "plain-0d2c3b4a59687786"  # stands in every row, and must never be seen at the relay
CALLS = 650  # about as many as a run without faults makes


class ProfileSimulation(Simulation):
    """One run of a protocol over random tables of three parties."""

    def __init__(self, run: Run, protocol: Literal["padded", "fast", "smfd"]) -> None:
        super().__init__(run)
        rows = np.random.default_rng([run.seed, 5]).integers(0, 3, (3, 6, len(COLUMNS)))
        if run.seed % 2:
            rows[:, :, 1] = rows[:, :, 0] // 2
        self.rows = rows
        spec = ProfileSpec("t", COLUMNS, protocol=protocol, min_rows=2, deadline=LASTS_S)
        self.terms = Terms(spec, tuple(ProfileColumn(name, "text") for name in COLUMNS))
        self.reports: dict[str, FDReport] = {}

    def _asked(self) -> Invitation:
        return build_invitation(self.terms, parties=len(MEMBERS.parties), workers=len(MEMBERS.workers))

    def _party(self, channel: Channel, invitation: Invitation, desk: object) -> None:
        rows = self.rows[MEMBERS.parties.index(channel.me)]
        cells = {name: [f"{NEEDLE_TEXT}{value}" for value in rows[:, j]] for j, name in enumerate(COLUMNS)}
        opened = open_in_memory(pa.table(cells), channel.me)
        self.reports[channel.me] = respond(channel, opened, group=ToyGroup())

    def _worker(self, channel: Channel, invitation: Invitation, desk: object) -> None:
        ChainWorker(channel, ToyGroup()).run()

    def _moderate(self, channel: Channel, invitation: Invitation, desk: object) -> Any:
        self.reports[channel.me] = discover(channel, self.terms, group=ToyGroup())
        return self.reports[channel.me]

    def _judge_results(self, wrong: list[str]) -> None:
        right = build_dependencies(in_the_open(np.concatenate(list(self.rows))), COLUMNS)
        wrong += [f"{name} has wrong dependencies" for name, report in self.reports.items() if report.ufd != right]
        if len({(report.session, report.compute_digest()) for report in self.reports.values()}) > len(
            {report.session for report in self.reports.values()}
        ):
            wrong.append("two roles ended with different results")
        wrong += ["a plain value lies at the relay"] * any(NEEDLE_TEXT.encode() in wire for wire in self.wires)
