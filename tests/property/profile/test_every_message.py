"""A party or a moderator changes any field of any message: the others end with a code, and no vote is shown.

All changes: ``python -m benchmarks profile --only messages``.
"""

from __future__ import annotations

import numpy as np
import pytest

from property.profile.mutations import all_changes, played
from siloquent.errors import CAUSES
from siloquent.profile.protocol import VoteVerdicts
from siloquent.profile.task import voting

PROTOCOLS = ["padded", "fast", "smfd"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_changed_message_ends_with_a_code_or_changes_nothing_and_shows_no_vote(protocol: str) -> None:
    changes, ended = all_changes(protocol, 1), []
    assert len(changes) > 1_000
    for at in np.random.default_rng(len(protocol)).choice(len(changes), 25, replace=False):
        code, wrong = played(protocol, 1, changes[at])
        assert not wrong, changes[at]
        assert code in {*CAUSES, ""}, changes[at]
        ended.append(code)
    assert sum(code != "" for code in ended) >= 12  # most changes are found; some are of what nobody reads any more


@pytest.mark.parametrize(
    ("protocol", "step", "field"), [("padded", "u0/", "chunk"), ("fast", "u0/", "chunk"), ("smfd", "order/", "do")]
)
def test_an_order_that_no_moderator_gives_ends_with_a_code(protocol: str, step: str, field: str) -> None:
    """Each value of a field once: one that is out of range, and one that cannot be compared or hashed, among them."""
    changes = [one for one in all_changes(protocol, 1) if one.step.startswith(step)]
    values = {one.what: one for one in changes if one.what.startswith(f"{field} = ")}
    ends = {what: played(protocol, 1, change) for what, change in values.items()}
    assert len(ends) >= 5
    assert {what: end for what, end in ends.items() if end[1] or end[0] not in {*CAUSES, ""}} == {}


def test_believing_the_moderators_verdicts_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: verdicts as the moderator tells them, and not as the last worker does, too."""
    changes = [one for one in all_changes("padded", 1) if one.step == "v0/1" and one.what.startswith("bits = ")]
    believe = lambda party, number, payload, *_: list(VoteVerdicts.from_payload(payload).bits)  # noqa: E731
    monkeypatch.setattr(voting, "_receive_verdicts", believe)
    assert any(played("padded", 1, one)[1] for one in changes)
