"""Processes that run ``siloquent`` as users do, forked from one that has imported it: an import takes a second."""

from forked.command import build_command, read_cpu_seconds, write_command

__all__ = ["build_command", "read_cpu_seconds", "write_command"]
