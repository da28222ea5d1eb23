"""Fixes on the command line: commands to paste, options, and lines of a spec's file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from siloquent.fixes import AskWith, FixLanguage, RunCommand, UseOption

SERVED = ("explain", "ask", "tables", "show", "history", "release list", "ledger show", "refresh", "report")
"""The commands that work on a workspace here and, with ``--server``, on a server's."""
_CHARGED = ("discover",)  # what is charged to the asker, under the asker's own key
# These create their own workspace, or are about no workspace.
_PLACELESS = ("init", "demo")
_OWNERS = ("check", "budget set", "ledger adopt", "declare", "schema draft", "migrate", "doctor", "backup", "restore")


def is_served(command: str) -> bool:
    """Return whether ``command`` works with ``--server``."""
    return command in SERVED or command.partition(" ")[0] == "job"


_AMOUNTS = ("--epsilon", "--rho", "--delta")


@dataclass(frozen=True, slots=True)
class CommandLanguage(FixLanguage):
    """The words of a shell, for the command that was typed: the same workspace or server, the same key.

    Attributes:
        place: The global options of the typed command that name its workspace or server.
        analyst: The option that names its analyst.
        typed: The command and its arguments. ``own_options``: the names of the options that it has.
    """

    place: tuple[str, ...] = ()
    analyst: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    separator = "\n"
    own_options: frozenset[str] = frozenset()

    @property
    def is_remote(self) -> bool:
        """Whether the command was typed with ``--server``."""
        return "--server" in self.place

    def format_command(self, action: RunCommand) -> str:
        """Return a command line; at a server, commands of the owner's machine say whose they are."""
        words = (*action.verb.split(), *action.args)
        if action.verb in _PLACELESS:
            return shlex.join(["siloquent", *words])
        if self.is_remote and (action.by_owner or not is_served(action.verb)):
            return f"the workspace's owner runs: {shlex.join(['siloquent', *words])}"
        who = "the owner runs: " if action.by_owner else ""
        if action.verb in _CHARGED:
            kept = [word for name in ("--key", "--max-cost") for word in _find_option(self.typed, name)]
            kept += ["--yes"] if "--yes" in self.typed else []
            words = (action.verb, *kept, *action.args) if "--" in action.args else (*words, *kept)
            return shlex.join(["siloquent", *self.place, *self.analyst, *words])
        analyst = () if action.by_owner or action.verb in _OWNERS else self.analyst
        return who + shlex.join(["siloquent", *self.place, *analyst, *words])

    def format_question(self, action: AskWith) -> str:
        """Return the command that explains or asks the question, under the key that was typed."""
        if not action.question:
            return f"ask with {action.priced_change}"
        named = _find_option(self.typed, "--key") if action.verb == "ask" else ()
        return shlex.join(["siloquent", *self.place, *self.analyst, action.verb, action.priced_question, *named])

    def format_option(self, action: UseOption) -> str:
        """Return the option if it was typed or the command has it; otherwise, or with a spec file, that file's line."""
        name = f"--{action.name.replace('_', '-')}"
        if name == "--analyst":
            return shlex.join(["siloquent", *self.place, name, str(action.value), *self.typed])
        if name == "--max-cost" and name in self.own_options:
            words = (*leave_out(self.typed, name), name, str(action.value))
            return shlex.join(["siloquent", *self.place, *self.analyst, *words])
        if name not in self.typed and any(word.endswith(".toml") for word in self.typed):
            return _format_line(action)
        if action.name == "budget" and isinstance(action.value, Mapping):
            return self._retype({f"--{key}": str(value) for key, value in action.value.items()}, leave_out=_AMOUNTS)
        if isinstance(action.value, Mapping) or (self.own_options and name not in self.own_options):
            return _format_line(action)
        if isinstance(action.value, bool):
            return self._retype({name: None} if action.value else {}, leave_out=(name,))
        return self._retype({name: _format_value(action.value)}, leave_out=(name,))

    def _retype(self, options: Mapping[str, str | None], *, leave_out: Sequence[str]) -> str:
        """Return the typed command with ``options``; flags have no value. The options alone if none was typed."""
        words: Sequence[str] = [word for name, value in options.items() for word in (name, value) if word is not None]
        if not self.typed or not self.own_options:
            return shlex.join(words)
        kept = self.typed
        for name in leave_out:
            at = kept.index(name) if name in kept else len(kept)
            has_value = at + 1 < len(kept) and not kept[at + 1].startswith("--")
            kept = (*kept[:at], *kept[at + 1 + has_value :])
        return shlex.join(["siloquent", *self.place, *self.analyst, *kept, *words])

    def format_owner(self) -> str:
        """Return the command without the analyst, or the token to use."""
        if self.is_remote:
            return "use a token of the role owner"
        return (
            shlex.join(["siloquent", *self.place, *self.typed]) if self.typed else "leave --analyst out, as the owner"
        )


def _find_option(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the option ``name`` with its value, if it is among ``words``."""
    return tuple(words[words.index(name) : words.index(name) + 2]) if name in words else ()


def leave_out(words: Sequence[str], name: str) -> tuple[str, ...]:
    """Return ``words`` without the option ``name`` and its value."""
    at = words.index(name) if name in words else len(words)
    return (*words[:at], *words[at + 2 :])


def _format_value(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_format_value, value))
    return str(value)


def _format_line(action: UseOption) -> str:
    return f"{action.name} = {format_toml(action.value)}"


def format_toml(value: Any) -> str:
    """Return ``value`` as written in a TOML file.

    >>> format_toml({"kind": "surrogate", "bits": 4}), format_toml(["a", "b"]), format_toml(True)
    ('{ kind = "surrogate", bits = 4 }', '["a", "b"]', 'true')
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {format_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(format_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
