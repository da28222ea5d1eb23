"""What each role of a session could learn besides the result, in words that a person approves or refuses."""

from __future__ import annotations

from collections.abc import Sequence


def statement(
    protocol: str, *, parties: int, workers: int, sets: int | None = None, votes: int | None = None
) -> tuple[tuple[str, str], ...]:
    """(role, what it learns) for one protocol; without numbers where they are not known yet."""
    asked = "the sets asked" if sets is None else f"the {sets} sets asked"
    voted = "the candidates voted on" if votes is None else f"the {votes} candidates voted on"
    groups = f"how many values each group of two or more of the {parties} parties shares"
    everybody = f"all {workers} workers together"
    if protocol == "smfd":
        return (
            ("party", f"the result, and the order of {asked}"),
            ("first worker", "each party's number of distinct values, by set"),
            ("other workers", "the number of values of all parties together, by set"),
            ("moderator", f"of {asked}: how many distinct values there are and how many k parties share, for every k"),
            (everybody, "whether a guessed value occurs, and in how many parties"),
        )
    fast = protocol == "fast"
    sizes = "each party's number of distinct values, by set" if fast else "each party's size class"
    last = f"{groups}, and of values that one party holds alone" if fast else groups
    told = "how many values k parties share, for every k from 1" if fast else "how many values k >= 2 parties share"
    return (
        ("party", f"{asked}, whether the moderator's comparisons held, size classes; so also sets that share nothing"),
        ("workers", f"the number of sets and candidates, {sizes}"),
        ("last worker", f"by set, but not which set: {last}; one bit for each of {voted}, but not which"),
        ("moderator", f"dependencies of every party; of {asked}: {told}"),
        ("relay", "who sends to whom, when, and how many bytes"),
        (everybody, "whether a guessed value occurs, and at which parties"),
    )


def reveals(protocol: str, columns: Sequence[str], *, parties: int, workers: int) -> str:
    """The statement in one line, for ledgers: what went out to whom about which columns."""
    told = "; ".join(f"{role}: {text}" for role, text in statement(protocol, parties=parties, workers=workers))
    return f"dependencies between {', '.join(columns)}. {told}"
