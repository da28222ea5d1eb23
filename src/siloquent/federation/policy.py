"""The policy of a party's owner, ``federation.toml`` in the workspace: sessions allowed without asking a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from siloquent.errors import SchemaError
from siloquent.federation.identity.bundle import read_small
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.payload import encode_canonical
from siloquent.foreign import load_toml
from siloquent.foreign.numbers import is_plain_number

POLICY_FILE = "federation.toml"
Verdict = Literal["auto", "ask", "refuse"]
DEFAULT_SESSIONS = 1
"""The number of sessions per day that a rule approves by itself, by default."""
_PRICE = re.compile(r"[a-z]+ [0-9]{1,40}((\.[0-9]{1,40})?(e-?[0-9]{1,3})?|/[0-9]{1,40})")
_KEYS = {"task", "tables", "columns", "protocols", "max_sets", "max_price", "moderators", "approve", "max_sessions"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One ``[[allow]]``: a session within all of its limits is approved at once, or shown to a person ("ask").

    ``max_price``: the highest price of a session, in the account's own epsilon or rho. Without it, a session with a
    price needs a person, whatever ``approve`` says.
    ``max_sessions``: the number of sessions per day (UTC) approved without a person, who decides on later ones: free
    sessions reveal something, too, and an unlimited number of them would reveal everything.
    """

    task: str
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    protocols: tuple[str, ...]
    moderators: tuple[str, ...]
    max_sets: int | None
    approve: Literal["auto", "ask"]
    max_price: Fraction | None = None
    max_sessions: int = DEFAULT_SESSIONS

    @property
    def digest(self) -> str:
        """The key under which this rule's sessions are counted: it covers the allowed content, not the number."""
        allowed = [self.task, self.tables, self.columns, self.protocols, self.moderators, self.max_sets]
        return sha256(encode_canonical([*allowed, str(self.max_price)])).hexdigest()

    def covers(self, invitation: Invitation, moderator: str) -> bool:
        """Return whether every request of the session is allowed by this rule."""
        sets = invitation.body.get("max_sets")
        within = self.max_sets is None or (type(sets) is int and sets <= self.max_sets)
        return (
            invitation.task == self.task
            and set(invitation.tables) <= set(self.tables)
            and set(invitation.columns) <= set(self.columns)
            and invitation.protocol in self.protocols
            and moderator in self.moderators
            and within
            and (self.max_price is None or compute_session_price(invitation) <= self.max_price)
        )

    def decide(self, invitation: Invitation) -> Verdict:
        """Return this rule's verdict on a session that it covers."""
        return "ask" if self.max_price is None and compute_session_price(invitation) > 0 else self.approve


@dataclass(frozen=True, slots=True)
class Policy:
    """A party's rules. With none, every session needs a person; with some, sessions that no rule covers are refused."""

    rules: tuple[Rule, ...] = ()

    def judge(
        self, invitation: Invitation, moderator: str, admit: Callable[[Rule], bool] = lambda rule: True
    ) -> Verdict:
        """Return the verdict on an invitation. The moderator learns yes or "policy", and no reason.

        Args:
            admit: Counts the session under a rule that approves it; False if the rule's day is full.

        >>> Policy().judge(Invitation(protocol="sum/1", task="sketch"), "office")
        'ask'
        """
        if not self.rules:
            return "ask"
        found = [rule for rule in self.rules if rule.covers(invitation, moderator)]
        if not found:
            return "refuse"
        return "auto" if any(rule.decide(invitation) == "auto" and admit(rule) for rule in found) else "ask"


def compute_session_price(invitation: Invitation) -> float | Fraction:
    """Return a session's price for each party's account, as stated in its invitation; the party's task enforces it.

    >>> compute_session_price(Invitation(protocol="sum/1", task="sketch", price="rho 1/2"))
    Fraction(1, 2)
    """
    if not invitation.price:
        return Fraction(0)
    try:
        return Fraction(invitation.price.split()[1]) if _PRICE.fullmatch(invitation.price) else float("inf")
    except ZeroDivisionError:
        return float("inf")  # an unreadable price is within no limit


def read_policy(folder: Path) -> Policy:
    """Read the policy of a workspace; an empty one if it has no file.

    Raises:
        SchemaError: the file is not a valid policy; nothing is guessed.
    """
    path = folder / POLICY_FILE
    if not path.is_file():
        return Policy()
    try:
        values = load_toml(read_small(path))
    except ValueError as wrong:
        raise SchemaError(f"{path} cannot be read: {wrong}.") from None
    unknown = set(values) - {"allow"}
    if unknown:
        raise SchemaError(f"{path} has unknown keys: {', '.join(sorted(unknown))}.", fix="use [[allow]]")
    return Policy(tuple(_parse_rule(path, number, entry) for number, entry in enumerate(values.get("allow", []), 1)))


def _parse_rule(path: Path, number: int, entry: Mapping[str, Any]) -> Rule:
    where = f"{path}, rule {number}"
    unknown = set(entry) - _KEYS
    if unknown:
        raise SchemaError(f"{where} has unknown keys: {', '.join(sorted(unknown))}.")
    missing = {"task", "tables", "columns", "protocols", "moderators", "approve"} - set(entry)
    if missing:
        raise SchemaError(
            f"{where} lacks {', '.join(sorted(missing))}.", fix="name what is allowed; nothing is implied"
        )
    lists = [entry[key] for key in ("tables", "columns", "protocols", "moderators")]
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists):
        raise SchemaError(f"{where}: tables, columns, protocols and moderators must be lists of names.")
    most = entry.get("max_sets")
    if entry["approve"] not in ("auto", "ask") or not (most is None or type(most) is int):
        raise SchemaError(f'{where}: approve is "auto" or "ask", max_sets a whole number.')
    tables, columns, protocols, moderators = map(tuple, lists)
    price = _parse_price(where, entry.get("max_price"))
    sessions = entry.get("max_sessions", DEFAULT_SESSIONS)
    if type(sessions) is not int or sessions < 1:
        raise SchemaError(
            f"{where}: max_sessions must be the number of sessions to approve per day.", fix="max_sessions = 1"
        )
    return Rule(str(entry["task"]), tables, columns, protocols, moderators, most, entry["approve"], price, sessions)


def _parse_price(where: str, text: Any) -> Fraction | None:
    if text is None:
        return None
    try:
        price = Fraction(text) if isinstance(text, str) and is_plain_number(text) else None
    except (ValueError, ZeroDivisionError):
        price = None
    if price is None or price < 0:
        raise SchemaError(f"{where}: max_price must be an amount as text.", fix='max_price = "0.5"')
    return price
