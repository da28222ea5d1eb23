"""What roles see of a session is what the statement declares: a simulator makes the same from that alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from siloquent.federation.channel import MemoryNetwork
from siloquent.federation.crypto import chain
from siloquent.maths.dependencies import FD, compute_closures
from siloquent.profile.measure import Snapshot
from siloquent.profile.spec import ProfileColumn
from siloquent.profile.task.respond import RowOpener
from siloquent.profile.terms import Terms
from unit.profile.lattice import Codes, exhaustive, names, network, random_parts
from unit.profile.roles import MODERATOR_COINS, honest, points_of, run, view

COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Declared:
    """All that the statement says: what holds everywhere, batch sizes, and of each set asked who shares how much."""

    parts: list[Codes] = field(repr=False)
    cfds: list[FD]
    rows: list[int]
    padded: bool
    asked: set[int] = field(default_factory=set)

    def held(self, mask: int, party: int) -> list[bytes]:
        """Made-up values of one party, shared as the parties' real ones are; in the fast protocol as many, too."""
        self.asked.add(mask)
        chosen = [j for j in range(COLUMNS) if mask >> j & 1]
        owners: dict[tuple[int, ...], int] = {}
        for place, part in enumerate(self.parts):
            for value in {tuple(row) for row in part[:, chosen].tolist()}:
                owners[value] = owners.get(value, 0) | 1 << place
        groups: dict[int, int] = {}
        for owner in owners.values():
            groups[owner] = groups.get(owner, 0) + 1
        shared = {g: n for g, n in groups.items() if g.bit_count() >= 2 or not self.padded}
        return [b"%d %d" % (g, i) for g, n in sorted(shared.items()) if g >> party & 1 for i in range(n)]


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp(Snapshot):
    """A party that has nothing but what was declared."""

    declared: Declared
    place: int

    @property
    def rows(self) -> int:
        return self.declared.rows[self.place]

    def list_values(self, mask: int) -> list[bytes]:
        return self.declared.held(mask, self.place)

    def count_distinct(self, mask: int) -> int:
        return len(self.declared.held(mask, self.place))

    def compute_commitment(self, salt: bytes) -> str:
        return "0" * 64


def made_up(declared: Declared, place: int) -> RowOpener:
    """Rows that keep just ``declared.cfds``: one that agrees with the first row on each closed set."""
    closed = sorted({int(one) for one in compute_closures(declared.cfds, COLUMNS)})
    codes = np.array([[0 if one >> j & 1 else 1 + k for j in range(COLUMNS)] for k, one in enumerate(closed)])

    def open_rows(terms: Terms) -> Snapshot:
        columns = tuple(ProfileColumn(name, "text") for name in names(COLUMNS))
        return MadeUp(columns, codes, tuple((b"",) for _ in columns), declared, place)

    return open_rows


def fresh(seed: int, parties: int = 3, workers: int = 3) -> MemoryNetwork:
    """A session whose moderator hides canaries where it did before: its coins are its own business."""
    net = network(parties, workers, seed=seed)
    net.open_channel("office").state.put("own", MODERATOR_COINS)
    return net


def views(net: MemoryNetwork) -> dict[str, object]:
    return {member.name: view(net, member.name) for member in net.members}


@pytest.mark.parametrize("protocol", ["padded", "fast"])
@pytest.mark.parametrize("seed", range(4))
def test_every_roles_view_is_made_from_the_declared_leakage_alone(protocol: str, seed: int) -> None:
    parts = random_parts(seed, columns=COLUMNS)
    real, simulated = fresh(7), fresh(7)
    report = run(real, honest(real, parts, protocol=protocol))
    declared = Declared(parts, exhaustive(parts), [len(part) for part in parts], protocol == "padded")
    from_leak = honest(simulated, [made_up(declared, i) for i in range(3)], protocol=protocol, columns=COLUMNS)
    assert run(simulated, from_leak).ufd == report.ufd
    seen, made = views(real), views(simulated)
    for role in seen:
        assert seen[role] == made[role], role
    assert len(declared.asked) == report.leakage.sets


def test_a_build_that_leaves_the_blinding_out_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = random_parts(1, columns=COLUMNS)
    declared = Declared(parts, exhaustive(parts), [len(part) for part in parts], True)
    simulated, real = fresh(7), fresh(7)
    run(simulated, honest(simulated, [made_up(declared, i) for i in range(3)], columns=COLUMNS))
    monkeypatch.setattr(chain, "_derive_blinding", lambda *_: (1).to_bytes(32, "little"))
    run(real, honest(real, parts))
    assert views(real)["w1"] != views(simulated)["w1"]


def test_a_build_that_does_not_pad_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = random_parts(2, columns=COLUMNS)
    fast, padded = fresh(7), fresh(7)
    run(fast, honest(fast, parts, protocol="fast"))
    run(padded, honest(padded, parts))
    assert views(fast)["w1"] != views(padded)["w1"]


def test_two_tables_of_equal_leakage_look_alike_to_all() -> None:
    parts = random_parts(3, columns=COLUMNS)
    renamed = [(part[::-1] * 17 + 5) for part in parts]
    one, other = fresh(7), fresh(7)
    run(one, honest(one, parts))
    run(other, honest(other, renamed))
    assert views(one) == views(other)


def test_no_element_is_seen_twice_in_two_sessions_over_the_same_rows() -> None:
    parts = random_parts(4, columns=COLUMNS)
    seen = []
    for seed in (1, 2):
        net = fresh(seed)
        run(net, honest(net, parts))
        messages = [(step, raw) for (_, to, step, _), raw in net.list_traffic().items() if to != "office"]
        batches = [(step, raw) for step, raw in messages if step[0] in "cv" and step[1].isdigit() and raw[:2] == b"by"]
        seen.append({point for step, raw in batches for point in points_of(raw[6:], step)})
    assert len(seen[0]) > 100
    assert not seen[0] & seen[1]


def test_padded_messages_have_one_size_whatever_the_rows() -> None:
    """Batches to and between workers are as large as the rows are many, and nothing else."""
    for seed in (5, 6):
        net = fresh(seed)
        parts = random_parts(seed, columns=COLUMNS)
        run(net, honest(net, parts))
        for (sender, _, step, _), raw in net.list_traffic().items():
            if step.startswith("c1/"):
                queries = (len(raw) - 6) // (4 + 32 * 12)
                assert len(raw) == 6 + queries * (4 + 32 * 12), (sender, step)
