"""The leakage of a session by role, besides the result, in words for a person who approves or refuses."""

from __future__ import annotations

from collections.abc import Sequence


def describe_leakage(
    protocol: str,
    *,
    parties: int,
    workers: int,
    size_class: bool = True,
    sets: int | None = None,
    votes: int | None = None,
) -> tuple[tuple[str, str], ...]:
    """Return (role, what it learns) for one protocol; without numbers where they are not known yet.

    ``size_class``: parties reveal size classes instead of their numbers of rows.
    """
    size = "size class" if size_class else "exact number of rows"
    sizes_of_all = "size classes" if size_class else "exact numbers of rows"
    asked = "the sets asked" if sets is None else f"the {sets} sets asked"
    voted = "the candidates voted on" if votes is None else f"the {votes} candidates voted on"
    groups = f"how many values each group of two or more of the {parties} parties shares"
    everybody = f"all {workers} workers together"
    if protocol == "smfd":
        return (
            ("party", f"the result, the order of {asked}, and the {sizes_of_all} of all"),
            ("first worker", f"each party's number of distinct values, by set, and the largest {size}"),
            ("other workers", f"the number of values of all parties together, by set, and the largest {size}"),
            ("last worker", f"one bit for each of {voted}, but not which"),
            (
                "moderator",
                f"dependencies of every party and its {size}; of {asked}: how many distinct values there are and how "
                "many k parties share, for every k",
            ),
            ("relay", "who sends to whom, when, and how many bytes"),
            (everybody, "whether a guessed value occurs, and in how many parties"),
        )
    fast = protocol == "fast"
    sizes = "each party's number of distinct values, by set" if fast else f"each party's {size}"
    last = f"{groups}, and of values that one party holds alone" if fast else groups
    told = "how many values k parties share, for every k from 1" if fast else "how many values k >= 2 parties share"
    return (
        (
            "party",
            f"{asked}, whether the moderator's comparisons held, {sizes_of_all}; so also sets that share nothing",
        ),
        ("workers", f"the number of sets and candidates, {sizes}"),
        ("last worker", f"by set, but not which set: {last}; one bit for each of {voted}, but not which"),
        ("moderator", f"dependencies of every party; of {asked}: {told}"),
        ("relay", "who sends to whom, when, and how many bytes"),
        (everybody, "whether a guessed value occurs, and at which parties"),
    )


def format_leakage(
    protocol: str, columns: Sequence[str], *, parties: int, workers: int, size_class: bool = True
) -> str:
    """Format the statement in one line, for ledgers: what was revealed to whom about which columns."""
    shown = describe_leakage(protocol, parties=parties, workers=workers, size_class=size_class)
    told = "; ".join(f"{role}: {text}" for role, text in shown)
    return f"dependencies between {', '.join(columns)}. {told}"
