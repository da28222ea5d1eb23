"""Channels: how a role's part of a protocol reaches the others, over any transport."""

from siloquent.federation.channel.base import Channel, Member, Members, RoleKind, State, Status
from siloquent.federation.channel.memory import MemoryChannel, MemoryNetwork, run_all

__all__ = ["Channel", "Member", "Members", "MemoryChannel", "MemoryNetwork", "RoleKind", "State", "Status", "run_all"]
