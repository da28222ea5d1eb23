"""What a party's owner allows without being asked: tables, columns, sets, and what a session may cost."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from siloquent.errors import SchemaError
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import RoleJournal
from siloquent.federation.policy import Policy, Rule, read_policy

FILE = """\
[[allow]]
task = "sketch"
tables = ["vitals"]
columns = ["bmi"]
protocols = ["sketch-sum/1"]
max_price = "0.5"
moderators = ["office"]
approve = "auto"
"""


def asked(price: str, columns: tuple[str, ...] = ("bmi",)) -> Invitation:
    return Invitation("sketch-sum/1", "sketch", "sum", ("vitals",), columns, price=price)


@pytest.mark.parametrize(
    ("price", "verdict"),
    [
        ("rho 0.5", "auto"),
        ("", "auto"),
        ("rho 0.500000001", "refuse"),
        ("epsilon 1e9", "refuse"),
        ("not a lot", "refuse"),
        ("rho 1/0", "refuse"),
        ("rho -5", "refuse"),
        ("rho 5 0", "refuse"),
        ("rho 1e1000000000", "refuse"),
        ("rho 1e-1000000000", "refuse"),
    ],
)
def test_a_session_that_costs_more_than_the_limit_is_refused(tmp_path: Path, price: str, verdict: str) -> None:
    (tmp_path / "federation.toml").write_text(FILE)
    policy = read_policy(tmp_path)
    assert policy.rules[0].max_price == Fraction(1, 2)
    assert policy.judge(asked(price), "office") == verdict
    assert policy.judge(asked(price, ("bmi", "glucose")), "office") == "refuse"


def test_what_costs_something_is_a_persons_without_a_limit() -> None:
    free = Rule("sketch", ("vitals",), ("bmi",), ("sketch-sum/1",), ("office",), None, "auto")
    assert Policy((free,)).judge(asked(""), "office") == "auto"
    assert Policy((free,)).judge(asked("rho 0.0001"), "office") == "ask"
    assert Policy((free,)).judge(asked("rho -1"), "office") == "ask"


@pytest.mark.parametrize("limit", ["0.5", '"a lot"', '"-1"', '"1/0"', "true"])
def test_a_limit_that_is_no_amount_is_refused(tmp_path: Path, limit: str) -> None:
    (tmp_path / "federation.toml").write_text(FILE.replace('"0.5"', limit))
    with pytest.raises(SchemaError, match="rule 1: max_price"):
        read_policy(tmp_path)


DAY = 20_000


def admitted(folder: Path, policy: Policy, session: str, day: int = DAY) -> str:
    """A role's state of ``session``, from its journal on disk."""
    journal = RoleJournal(folder / "journal.db")
    try:
        return policy.judge(
            asked("rho 0.1"),
            "office",
            lambda rule: journal.admit(session, rule.digest, day=day, most=rule.max_sessions),
        )
    finally:
        journal.close()


@pytest.mark.parametrize(("line", "most"), [("", 1), ("max_sessions = 3\n", 3)])
def test_sessions_of_a_day_are_counted_for_good_and_those_after_are_for_a_person(
    tmp_path: Path, line: str, most: int
) -> None:
    (tmp_path / "federation.toml").write_text(FILE + line)
    policy = read_policy(tmp_path)
    for at in range(most):
        assert admitted(tmp_path, policy, f"s{at}") == "auto"
        assert admitted(tmp_path, policy, f"s{at}") == "auto"  # a role that was restarted: the same session
    assert admitted(tmp_path, policy, "next") == "ask"
    assert admitted(tmp_path, policy, "next", DAY - 1) == "ask"  # a clock that was set back
    (tmp_path / "federation.toml").write_text(FILE + "max_sessions = 4\n" if most == 3 else FILE)
    assert admitted(tmp_path, read_policy(tmp_path), "next") == ("auto" if most == 3 else "ask")  # none starts anew
    assert admitted(tmp_path, policy, "later", DAY + 1) == "auto"


@pytest.mark.parametrize("most", ["0", "-1", '"3"', "true", "1.0"])
def test_a_number_of_sessions_that_is_none_is_refused(tmp_path: Path, most: str) -> None:
    (tmp_path / "federation.toml").write_text(FILE + f"max_sessions = {most}\n")
    with pytest.raises(SchemaError, match="max_sessions"):
        read_policy(tmp_path)
