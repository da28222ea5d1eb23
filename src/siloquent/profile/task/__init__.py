"""The walks of a session: ``discover`` for the moderator, ``respond`` for a party; workers have the federation's."""

from siloquent.profile.task.adopt import adopted, chosen, entries, write_adopted
from siloquent.profile.task.discover import discover
from siloquent.profile.task.member import Approve, rows_of
from siloquent.profile.task.respond import respond
from siloquent.profile.task.simulate import simulate
from siloquent.profile.task.terms import Terms, terms_from_plain
from siloquent.profile.task.together import discover_together

__all__ = [
    "Approve",
    "Terms",
    "adopted",
    "chosen",
    "discover",
    "discover_together",
    "entries",
    "respond",
    "rows_of",
    "simulate",
    "terms_from_plain",
    "write_adopted",
]
