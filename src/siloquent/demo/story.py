"""The demo's steps: commands in order, the reason for each, and their exit statuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from siloquent.demo.collecting import COLLECT_STEPS
from siloquent.demo.profiling import PROFILE_STEPS, with_roles
from siloquent.demo.searching import SEARCH_STEPS
from siloquent.demo.sharing import SHARE_STEPS
from siloquent.demo.sketching import SKETCH_STEPS
from siloquent.demo.synthesis import SYNTH_STEPS

WARDS = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200 CONFIDENCE 0.99"
ICEBERG = "SELECT diagnosis FROM visits GROUP BY diagnosis HAVING COUNT(*) > 700 ERROR 200"
BUDGET = "SELECT age, COUNT(*) FROM visits GROUP BY age BUDGET 0.004 RHO"
CHAPTERS = "SELECT chapter, COUNT(*) FROM visits GROUP BY chapter ERROR 100 CONFIDENCE 0.99"
SLIP = "SELECT wrad, COUNT(*) FROM visits GROUP BY wrad ERROR 200"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the demo: ``says`` is its explanation, ``ends`` its expected exit status."""

    says: str
    command: tuple[str, ...]
    ends: int = 0


_TASKS = (*SKETCH_STEPS, *SYNTH_STEPS, *SEARCH_STEPS, *COLLECT_STEPS, *SHARE_STEPS)


def story(*, quick: bool = False, roles_in: Path | None = None) -> tuple[Step, ...]:
    """Return the steps in order, as the arguments of ``siloquent``.

    Args:
        quick: Only the first answer and its free repeat.
        roles_in: The workspace below which the profile's clinics keep their keys as separate processes.
    """
    if quick:
        return _FIRST_ANSWER
    profile = PROFILE_STEPS if roles_in is None else with_roles(roles_in)
    return (*_FIRST_ANSWER, *_THE_REST, *(Step(*step) for step in (*profile, *_TASKS)))


_FIRST_ANSWER = (
    Step("What the owner has declared. It is public; no row was read for it.", ("show", "visits")),
    Step(
        "Ana wants the visits of each ward, none of them more than 200 off, with probability 0.99.\n"
        "First the price. It follows from question and declaration: no data is touched, nothing is spent.",
        ("--analyst", "ana", "explain", WARDS),
    ),
    Step(
        "Now the answer. The price is charged in the ledger before a row is read.",
        ("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes"),
    ),
    Step(
        "The same question under the same key: the same answer, at no cost, any number of times.",
        ("--analyst", "ana", "ask", WARDS, "--key", "wards", "--yes"),
    ),
)
_THE_REST = (
    Step(
        "Which diagnoses have more than 700 visits? Names by themselves are cheaper than equally exact counts.",
        ("--analyst", "ana", "ask", ICEBERG, "--key", "common", "--yes"),
    ),
    Step(
        "The other way round: spend this much, and state how accurate the answer is.",
        ("--analyst", "ana", "ask", BUDGET, "--key", "ages", "--yes"),
    ),
    Step("A slip of the keyboard costs nothing.", ("--analyst", "ana", "ask", SLIP, "--yes"), ends=2),
    Step(
        "Bo may spend a tenth of the budget. What Ana was told serves him too: it costs nobody anything.",
        ("--analyst", "bo", "ask", WARDS, "--key", "wards", "--yes"),
    ),
    Step(
        "A question of his own does not fit: the ledger refuses before a row is read, and names what would fit.",
        ("--analyst", "bo", "ask", CHAPTERS, "--yes"),
        ends=3,
    ),
    Step(
        "The owner, who may see the rows, checks them against the declaration; an analyst may not.\n"
        "All is as declared. It notes one thing, the owner's choice: some patients came more than six times, and the\n"
        "visits beyond six do not count. Hiding more visits of a patient would take more noise.",
        ("check", "visits"),
    ),
    Step("Everything that was asked and refused is in the ledger.", ("ledger", "show")),
    Step("Anybody with the ledger can recompute it: chain, totals, answers, limits.", ("ledger", "verify")),
)
