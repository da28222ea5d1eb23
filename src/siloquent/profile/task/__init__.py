"""The parts of a session: ``discover`` for the moderator, ``respond`` for a party; workers use the federation's."""

from siloquent.profile.task.adopt import adopt_constraints, build_constraint_entries, choose_dependencies, write_adopted
from siloquent.profile.task.discover import discover
from siloquent.profile.task.in_process import discover_in_process
from siloquent.profile.task.respond import respond
from siloquent.profile.task.simulate import simulate
from siloquent.profile.task.workspace_party import Approve, build_row_opener
from siloquent.profile.terms import Terms, parse_terms

__all__ = [
    "Approve",
    "Terms",
    "adopt_constraints",
    "build_constraint_entries",
    "build_row_opener",
    "choose_dependencies",
    "discover",
    "discover_in_process",
    "parse_terms",
    "respond",
    "simulate",
    "write_adopted",
]
