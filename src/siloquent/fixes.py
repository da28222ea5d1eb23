"""Fixes of refusals as values, which each interface renders in its own language.

A fix is plain text, or text with actions in it: run a command, ask another question, set an option of the request.
On the command line an action is a command to paste, in Python a call, over HTTP a request, on a page a link's name.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar

Verb = Literal["ask", "explain"]


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a command: its name, such as ``ledger show``, and its arguments as typed.

    ``by_owner``: only the workspace's owner can, on the machine of the workspace. ``python``: the call that does it, if
    it has arguments of its own.
    """

    verb: str
    args: tuple[str, ...] = ()
    by_owner: bool = False
    python: str = ""


@dataclass(frozen=True, slots=True)
class AskWith:
    """Ask ``question`` instead, or explain it first; ``change`` is the part that differs, such as ``ERROR 310``.

    ``price``: what it costs at most, in words, such as ``9.8 % of what is left``.
    """

    question: str = ""
    change: str = ""
    verb: Verb = "explain"
    price: str = ""

    @property
    def priced_question(self) -> str:
        """The question with its price as a comment, so that all of it can be pasted."""
        return f"{self.question} /* for {self.price} */" if self.price and self.question else self.question

    @property
    def priced_change(self) -> str:
        """The part that differs, with its price as a comment, so that all of it can be pasted behind a question."""
        return f"{self.change} /* for {self.price} */" if self.price else self.change


@dataclass(frozen=True, slots=True)
class UseOption:
    """Set the parameter ``name`` of the refused request to ``value``; ``python``: the argument, if it is not plain."""

    name: str
    value: Any
    python: str = ""


@dataclass(frozen=True, slots=True)
class BeOwner:
    """Do it as the owner, not as an analyst."""


@dataclass(frozen=True, slots=True)
class WriteLines:
    """Write ``text`` into a table file in place of ``old``, which stands there once.

    ``file``: relative to the workspace; empty if the declaration came as a text.
    """

    text: str
    old: str
    file: str = ""

    def apply(self, declared: str) -> str:
        """Return the table file ``declared`` with the lines written."""
        return declared.replace(self.old, self.text, 1)


Action = RunCommand | AskWith | UseOption | BeOwner | WriteLines
A = TypeVar("A", RunCommand, AskWith, UseOption, BeOwner, WriteLines)


CHOICE = ", or "
"""The text between fixes of which one is enough."""


class FixLanguage(ABC):
    """The words of one interface for actions; ``separator`` stands between those of which one is enough."""

    separator = CHOICE

    @abstractmethod
    def format_command(self, action: RunCommand) -> str:
        """Return the way to run a command here."""

    @abstractmethod
    def format_question(self, action: AskWith) -> str:
        """Return the way to ask a question here."""

    @abstractmethod
    def format_option(self, action: UseOption) -> str:
        """Return the way to set an option here."""

    @abstractmethod
    def format_owner(self) -> str:
        """Return the way to be the owner here."""

    def format_action(self, action: Action) -> str:
        """Return ``action`` in this language."""
        if isinstance(action, RunCommand):
            return self.format_command(action)
        if isinstance(action, AskWith):
            return self.format_question(action)
        if isinstance(action, WriteLines):
            return f"in {action.file}, write: {action.text}" if action.file else action.text
        return self.format_option(action) if isinstance(action, UseOption) else self.format_owner()


@dataclass(frozen=True, slots=True)
class Fix:
    """The next step after a refusal: texts and actions, one after the other."""

    parts: tuple[str | Action, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.parts)

    def render(self, language: FixLanguage) -> str:
        """Return the fix as text of one interface."""
        return "".join(
            language.separator if part == CHOICE else part if isinstance(part, str) else language.format_action(part)
            for part in self.parts
        )

    def find(self, kind: type[A]) -> A | None:
        """Return the first action of ``kind``."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def map(self, kind: type[A], change: Callable[[A], A]) -> Fix:
        """Return the fix with every action of ``kind`` changed."""
        return Fix(tuple(change(part) if isinstance(part, kind) else part for part in self.parts))

    def map_texts(self, change: Callable[[str], str]) -> Fix:
        """Return the fix with its texts and questions changed."""
        return Fix(
            tuple(
                change(part)
                if isinstance(part, str)
                else replace(part, question=change(part.question))
                if isinstance(part, AskWith)
                else part
                for part in self.parts
            )
        )

    def to_json(self) -> list[str | dict[str, Any]]:
        """Return the fix as JSON values."""
        return [part if isinstance(part, str) else _dump_action(part) for part in self.parts]


FixLike = str | Action | Fix
NO_FIX = Fix()


def build_fix(*parts: FixLike) -> Fix:
    """Return the fix of texts, actions and other fixes, in order.

    >>> build_fix("put the file back, then: ", run("ledger verify")).render(PYTHON)
    'put the file back, then: session.ledger.verify()'
    """
    flat: list[str | Action] = []
    for part in parts:
        flat += part.parts if isinstance(part, Fix) else [part] if part != "" else []
    return Fix(tuple(flat))


def run(verb: str, *args: object) -> RunCommand:
    """Return the action of a command."""
    return RunCommand(verb, tuple(map(str, args)))


def let_owner_run(verb: str, *args: object) -> RunCommand:
    """Return the action of a command that only the owner can run."""
    return RunCommand(verb, tuple(map(str, args)), by_owner=True)


def use_budget(symbol: str, amount: str) -> UseOption:
    """Return the option of a budget in epsilon or rho.

    >>> use_budget("epsilon", "1").python
    'budget=Budget(epsilon="1")'
    """
    return UseOption("budget", {symbol: amount}, f'budget=Budget({symbol}="{amount}")')


def join_choices(parts: Iterable[FixLike]) -> Fix:
    """Return fixes of which one is enough.

    >>> join_choices([UseOption("width", 4096), "a wider bandwidth"]).render(PYTHON)
    'width=4096, or a wider bandwidth'
    """
    first, *others = parts
    return build_fix(first, *(part for other in others for part in (CHOICE, other)))


def parse_fix(plain: object) -> Fix:
    """Parse the JSON values of a fix from another machine.

    Raises:
        ValueError: they are not a fix.
    """
    if not isinstance(plain, list):
        raise ValueError("a fix is a list")
    return Fix(tuple(part if isinstance(part, str) else _parse_action(part) for part in plain))


def _dump_action(action: Action) -> dict[str, Any]:
    if isinstance(action, RunCommand):
        return {"run": action.verb, "args": list(action.args), "by_owner": action.by_owner, "python": action.python}
    if isinstance(action, AskWith):
        price = {"price": action.price} if action.price else {}
        return {action.verb: action.question, "change": action.change, **price}
    if isinstance(action, UseOption):
        return {"option": action.name, "value": action.value, "python": action.python}
    if isinstance(action, WriteLines):
        return {"write": action.text, "old": action.old, "file": action.file}
    return {"role": "owner"}


def _parse_action(plain: object) -> Action:
    if not isinstance(plain, dict):
        raise ValueError("an action is an object")
    texts = {name: value for name, value in plain.items() if isinstance(value, str)}
    if "run" in texts:
        args = plain.get("args")
        if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
            raise ValueError("arguments are texts")
        return RunCommand(texts["run"], tuple(args), plain.get("by_owner") is True, texts.get("python", ""))
    if "option" in texts and "value" in plain:
        return UseOption(texts["option"], plain["value"], texts.get("python", ""))
    if "write" in texts:
        return WriteLines(texts["write"], texts.get("old", ""), texts.get("file", ""))
    for verb in ("ask", "explain"):
        if verb in texts:
            return AskWith(
                texts[verb], texts.get("change", ""), "ask" if verb == "ask" else "explain", texts.get("price", "")
            )
    if texts.get("role") == "owner":
        return BeOwner()
    raise ValueError("no such action")


class PythonLanguage(FixLanguage):
    """Calls of a session; commands that Python lacks are named as those of a shell."""

    def format_command(self, action: RunCommand) -> str:
        """Return the call, or the command with the place where it is typed."""
        import shlex

        who = "the owner runs " if action.by_owner else ""
        if action.python:
            return who + action.python
        if (call := CALLS.get(action.verb)) and action.args[:1] != ("--help",):
            names = [one for one in action.args if not one.startswith("-")]
            first = repr(names[0]) if names else _PLACEHOLDERS.get(action.verb, "NAME")
            return who + call.replace("{0}", first).replace("{1}", repr(names[1]) if names[1:] else "COLUMN")
        if action.args[:1] == ("--help",) and (call := CALLS.get(action.verb)):
            return f"help({call.partition('(')[0]})"
        return f"{who}on the command line: {shlex.join(['siloquent', *action.verb.split(), *action.args])}"

    def format_question(self, action: AskWith) -> str:
        """Return the question's text, or the change alone."""
        return action.priced_question or f"ask with {action.priced_change}"

    def format_option(self, action: UseOption) -> str:
        """Return the argument."""
        return action.python or f"{action.name}={_format_python(action.value)}"

    def format_owner(self) -> str:
        """Return the argument to leave out."""
        return "leave analyst out, as the owner"


PYTHON = PythonLanguage()
CALLS: Mapping[str, str] = MappingProxyType(
    {
        "init": "siloquent.create_workspace({0})",
        "tables": "session.list_tables()",
        "show": "session.schema({0})",
        "check": "session.check({0})",
        "refresh": "session.refresh({0})",
        "explain": "session.explain({0})",
        "ask": "session.ask({0})",
        "verify": "session.verify({0})",
        "release list": "siloquent.releases.list_releases(session.workspace.releases)",
        "release verify": "session.verify({0})",
        "ledger show": "session.ledger.list_accounts()",
        "ledger verify": "session.ledger.verify()",
        "ledger checkpoint": "session.ledger.create_checkpoint()",
        "budget set": "session.set_budget({0})",
        "discover": "session.discover({0}, {1})",
        "sketch plan": "session.sketch.explain(SPEC)",
        "sketch merge": "session.sketch.merge([A, B])",
        "synth plan": "session.synth.explain(SPEC)",
        "search offer": "session.search.offer(SPEC)",
        "search find": "session.search.find(REQUEST, OFFERS)",
        "share release": "session.share.release(SPEC)",
        "share learn": "session.share.learn(SPEC)",
        "collect design": "session.collect.design(SPEC)",
        "profile show": "session.profile.load({0})",
        "profile verify": "session.verify({0})",
        "share sum": "session.share.release_sum(SPEC, CHANNEL)",
        "share synthesize": "session.share.synthesize([RELEASE])",
        "job list": "session.list_jobs()",
        "job wait": "session.wait({0})",
        "job fetch": "session.fetch({0}, DIR)",
    }
)
"""The Python calls that do what commands do; ``{0}`` and ``{1}`` are the command's first arguments."""
_PLACEHOLDERS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("check", "show", "refresh", "budget set", "discover"), "TABLE"),
        **dict.fromkeys(("verify", "release verify", "job fetch"), "RELEASE"),
        **dict.fromkeys(("profile show", "profile verify"), "REPORT"),
        **dict.fromkeys(("ask", "explain"), "QUESTION"),
        "init": "DIR",
        "job wait": "JOB",
    }
)


def _format_python(value: Any) -> str:
    """Return ``value`` as written in Python, texts in double quotes as everywhere in the documentation."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)}: {_format_python(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence):
        inner = ", ".join(map(_format_python, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)
