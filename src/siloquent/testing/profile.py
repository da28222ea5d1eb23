"""Every role of a profile session in one process, on public rows; or the roles' parts, to replace one of them."""

from siloquent.profile import simulate
from siloquent.profile.task.simulate import build_parts, build_roster, open_in_memory

__all__ = ["build_parts", "build_roster", "open_in_memory", "simulate"]
