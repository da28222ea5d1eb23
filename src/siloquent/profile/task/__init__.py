"""The walks of a session: ``discover`` for the moderator, ``respond`` for a party; workers have the federation's."""

from siloquent.profile.task.discover import discover
from siloquent.profile.task.respond import respond
from siloquent.profile.task.simulate import simulate
from siloquent.profile.task.terms import Terms, terms_from_plain

__all__ = ["Terms", "discover", "respond", "simulate", "terms_from_plain"]
