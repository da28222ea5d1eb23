"""A profile over a relay's store: real envelopes, seals and journals; deaths of roles; what an invitation shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import siloquent as sq
from benchmarks.trials.failing_roles import mortal
from siloquent.errors import ProtocolError
from siloquent.federation.channel.memory import run_all
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.profile import ProfileSpec, Terms, build_row_opener
from siloquent.profile.federated import SERVICE, add_protocols, build_invitation, build_moderator_part
from siloquent.profile.measure.encode import NULL
from siloquent.profile.spec import build_columns
from siloquent.schema.build import parse_schema
from siloquent.session import WorkspaceSession
from siloquent.testing.profile import build_roster
from unit.federation.places import StoreNetwork
from unit.profile.lattice import as_dependencies, exhaustive, network, random_parts
from unit.profile.roles import honest, terms

TABLE = """
format = 1
attribute = [
  { name = "a", type = "category", values = ["0", "1", "2"], null = "drop" },
  { name = "b", type = "integer", lo = 0, hi = 9, outside = "drop", null = "drop" },
]
[table]
name = "t"
adjacency = "add-remove"
unit = { kind = "row" }
size_hint = 40
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
disclosures = true
"""


def test_a_session_over_a_relay_finds_what_one_in_memory_finds() -> None:
    parts = random_parts(2, columns=3)
    net = StoreNetwork(build_roster(3, 2))
    found = run_all(net, honest(net, parts))["office"]  # type: ignore[arg-type]
    assert found.cfd == as_dependencies(exhaustive(parts), 3)
    assert found.ufd == as_dependencies(exhaustive([np.concatenate(parts)]), 3)


@pytest.mark.parametrize("seed", range(3))
def test_roles_at_a_relay_may_die_and_come_back(seed: int) -> None:
    parts = random_parts(seed, columns=3, rows=6)
    net = StoreNetwork(build_roster(3, 2))
    roles = honest(net, parts)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    for name in ("p1", "w1", "w2", "office"):
        deaths = [(int(rng.integers(1, 25)), bool(rng.integers(2)))]
        roles[name] = mortal(net, name, roles[name], deaths)  # type: ignore[arg-type]
    found = run_all(net, roles)["office"]  # type: ignore[arg-type]
    assert found.ufd == as_dependencies(exhaustive([np.concatenate(parts)]), 3)


def test_an_invitation_shows_columns_protocol_and_what_is_revealed() -> None:
    asked = terms(3, protocol="fast")
    shown = build_invitation(asked, parties=3, workers=2)
    assert (shown.protocol, shown.service, shown.tables, shown.columns) == ("fast/1", SERVICE, ("t",), ("a", "b", "c"))
    assert "last worker" in shown.statement
    assert shown.body["terms"] == asked.to_dict()
    assert shown.min_parties == 3
    walks = ProtocolRegistry()
    add_protocols(walks)
    assert walks.get_part("party", shown) is not walks.get_part("worker", shown)
    assert build_moderator_part(asked) is not None


def desk(folder: Path) -> WorkspaceSession:
    sq.create_workspace(folder)
    session = sq.open(folder)
    rng = np.random.default_rng(5)
    a = rng.integers(0, 3, 40)
    session.add_frame(parse_schema(TABLE), pa.table({"a": [str(v) for v in a], "b": a + 4}))
    return session


def test_a_party_whose_policy_said_yes_refuses_other_terms_than_the_invitations(tmp_path: Path) -> None:
    session = desk(tmp_path / "clinic")
    walks = ProtocolRegistry()
    add_protocols(walks)
    asked = Terms(ProfileSpec("t", ("a", "b")), _columns(session))
    shown = build_invitation(asked, parties=2, workers=2)
    net = network(2, 2)
    other = Terms(ProfileSpec("t", ("a", "b"), protocol="fast"), asked.columns)
    parts = {name: (lambda c: walks.get_part("party", shown)(c, shown, session)) for name in net.members.parties}
    parts |= {name: (lambda c: walks.get_part("worker", shown)(c, shown, None)) for name in net.members.workers}
    parts["office"] = lambda c: build_moderator_part(other)(c, shown, None)
    with pytest.raises(ProtocolError) as refused:
        run_all(net, parts)
    assert refused.value.code in ("planner_mismatch", "aborted_by")
    assert list(session.ledger.iter_entries()) == []
    session.close()


@pytest.mark.parametrize(
    "shown",
    [{"columns": ("a",)}, {"statement": "nothing"}, {"protocol": "smfd/1"}, {"min_parties": 1}, {"max_sets": 1}],
    ids=lambda shown: next(iter(shown)),
)
def test_a_party_refuses_an_invitation_whose_terms_are_not_what_it_showed(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    session, net, walks = desk(tmp_path / "clinic"), network(2, 2), ProtocolRegistry()
    add_protocols(walks)
    made = build_invitation(Terms(ProfileSpec("t", ("a", "b")), _columns(session)), parties=2, workers=2)
    changed = shown if "max_sets" not in shown else {"body": {**made.body, **shown}}
    told = replace(made, **changed)
    with pytest.raises(ProtocolError) as refused:
        walks.get_part("party", told)(net.open_channel("p1"), told, session)
    assert refused.value.code == "planner_mismatch"
    assert [entry.kind for entry in session.ledger.iter_entries()] == []
    session.close()


def _columns(session: WorkspaceSession):  # type: ignore[no-untyped-def]
    return build_columns(session.schema("t"), ("a", "b"))


def test_a_disclosure_is_on_record_before_rows_are_read_and_a_restart_reads_them_no_second_time(
    tmp_path: Path,
) -> None:
    session = desk(tmp_path / "clinic")
    channel = network(2, 2).open_channel("p1")
    asked = Terms(ProfileSpec("t", ("a", "b")), _columns(session))
    seen: list[str] = []

    def agree(terms_: Terms, told: str) -> bool:
        seen.append(told)
        return True

    first = build_row_opener(session, channel, agree)(asked)
    again = build_row_opener(session, channel, agree)(asked)
    assert len(seen) == 1
    assert (again.codes == first.codes).all()
    assert again.list_values(0b11) == first.list_values(0b11)
    kinds = [entry.kind for entry in session.ledger.iter_entries()]
    assert kinds == ["open-account", "reserve", "settle"]
    assert "last worker" in str([entry.body for entry in session.ledger.iter_entries()])
    channel.state.erase("snapshot")
    with pytest.raises(ProtocolError, match="journal lacks"):
        build_row_opener(session, channel, agree)(asked)
    session.close()


def test_a_party_that_declines_charges_nothing_and_says_policy_alone(tmp_path: Path) -> None:
    session = desk(tmp_path / "clinic")
    asked = Terms(ProfileSpec("t", ("a", "b")), _columns(session))
    with pytest.raises(ProtocolError) as refused:
        build_row_opener(session, network(2, 2).open_channel("p1"), lambda terms_, told: False)(asked)
    assert refused.value.code == "policy_refused"
    assert "policy does not allow" in refused.value.detail
    assert list(session.ledger.iter_entries()) == []
    session.close()


WITH_IDS = TABLE.replace("attribute = [", 'attribute = [\n  { name = "p", type = "id" },')


def opened(folder: Path, ids: Any) -> tuple[WorkspaceSession, Any]:
    """A party's rows with ``ids``, as it opens them for a session over p and a; or what it says instead."""
    sq.create_workspace(folder)
    session = sq.open(folder)
    frame = {"p": ids, "a": ["0", "1"] * 20, "b": [4] * 40}
    session.add_frame(parse_schema(WITH_IDS), pa.table(frame))
    columns = build_columns(session.schema("t"), ("p", "a"))
    asked = Terms(ProfileSpec("t", ("p", "a")), columns)
    try:
        return session, build_row_opener(session, network(2, 2).open_channel("p1"), lambda terms_, told: True)(asked)
    except ProtocolError as refused:
        return session, refused


def test_ids_kept_as_numbers_meet_those_kept_as_digits(tmp_path: Path) -> None:
    numbers, found = opened(tmp_path / "north", pa.array(range(40), pa.int64()))
    digits, same = opened(tmp_path / "river", [str(n) for n in range(40)])
    assert sorted(found.list_values(0b01)) == sorted(same.list_values(0b01))
    for session in (numbers, digits):
        assert [entry.kind for entry in session.ledger.iter_entries()] == ["open-account", "reserve", "settle"]
        session.close()


@pytest.mark.parametrize(
    "ids", [pa.array([n / 2 for n in range(40)]), pa.array([True, False] * 20)], ids=["halves", "booleans"]
)
def test_ids_that_no_party_could_compare_are_refused_before_anything_is_charged(tmp_path: Path, ids: pa.Array) -> None:
    session, refused = opened(tmp_path / "clinic", ids)
    assert refused.code == "policy_refused"
    assert "a profile compares ids of texts and whole numbers" in refused.__notes__[0]
    assert list(session.ledger.iter_entries()) == []
    session.close()


def test_a_cell_that_cannot_be_read_is_null_and_ends_no_session(tmp_path: Path) -> None:
    session, found = opened(tmp_path / "clinic", ["x" * (2**16 + 1), *map(str, range(39))])
    assert found.rows == 40
    assert NULL in found.list_values(0b01)
    session.close()
