"""Every error that siloquent raises on purpose.

    SiloquentError                     an unexpected internal error       exit 1   HTTP 500
    ├── SchemaError                    an invalid declaration             exit 2   HTTP 422
    │   ├── UnknownName                never declared; did you mean       exit 2   HTTP 404
    │   └── WorkspaceError             missing or unusable workspace      exit 2   HTTP 422
    ├── RequestError                   an invalid request                 exit 2   HTTP 422
    │   ├── SyntaxProblem              a syntax error and its position    exit 2   HTTP 400
    │   ├── ConstraintProblem          an unsatisfiable constraint        exit 2   HTTP 422
    │   ├── TooFewReports              not enough device reports yet      exit 2   HTTP 422
    │   ├── Unanswered                 no server answered; try again      exit 2   HTTP 504
    │   └── AccuracyUnreachable        no mechanism fits the budget       exit 4   HTTP 422
    ├── MissingExtra                   an optional package is absent      exit 2   HTTP 501
    ├── BudgetExceeded                 request exceeds remaining budget   exit 3   HTTP 409
    ├── DataError                      the source failed; one fixed text  exit 5   HTTP 500
    ├── ProtocolError                  peers failed; one text per cause   exit 6   HTTP 502
    ├── LedgerError                    the ledger cannot be used          exit 7   HTTP 500
    │   ├── KeyReused                  same key, another request          exit 7   HTTP 409
    │   ├── LedgerRolledBack           the database is behind its head    exit 7   HTTP 500
    │   └── ChainBroken                an entry was changed               exit 7   HTTP 500
    ├── ReleaseError                   a release contradicts its manifest exit 2   HTTP 422
    └── NotAllowed                     not allowed for this role          exit 8   HTTP 403

A message says what is wrong and what was expected; ``remedy`` says what to do next, with actions that each interface
renders in its own language (``siloquent.fixes``), and ``fix`` is its text in Python; ``spent`` says what the refused
request cost. No message ever shows a private value: names, bounds and limits are public, rows and exact counts are not.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

from siloquent.fixes import PYTHON, FixLike, build_fix, let_owner_run, run
from siloquent.notebook import format_refusal

MIN_LETTERS = 3
"""A name of fewer letters stands in too many others."""
MAX_NAMES = 40
"""The maximum number of known names that an error lists."""


class PrivacyWarning(UserWarning):
    """A call works, but reveals or spends more than its caller may expect; the message says how to avoid that."""


class PortableError(Exception):
    """An error that keeps its fields when pickled; subclasses are not rebuilt from their message only."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the class and message, then the current fields."""
        return _restore, (type(self), self.args), dict(vars(self))


def _restore(kind: type[PortableError], args: tuple[object, ...]) -> PortableError:
    """Create an error without its fields, which unpickling restores."""
    return kind.__new__(kind, *args)


class SiloquentError(PortableError):
    """The base class of all errors that siloquent raises on purpose."""

    code: str = "internal"  # an instance may narrow it, as ProtocolError does
    exit_status: ClassVar[int] = 1
    http_status: int = 500  # an instance may narrow it, as LedgerError does
    title: ClassVar[str] = "Something went wrong inside siloquent"
    FIELDS: ClassVar[tuple[str, ...]] = ()
    """The attributes, besides the message, that programs may need; a problem document lists them under ``about``."""

    def __init__(self, detail: str, *, fix: FixLike = "", spent: str = "nothing") -> None:
        self.detail, self.remedy, self.spent = detail, build_fix(fix), spent
        super().__init__(detail)

    @property
    def fix(self) -> str:
        """The fix in Python's words; ``remedy`` is its value."""
        return self.remedy.render(PYTHON)

    @fix.setter
    def fix(self, fix: FixLike) -> None:
        self.remedy = build_fix(fix)

    def __str__(self) -> str:
        """Return the complete message: the problem, its fix and its cost."""
        fix = f" Fix: {self.fix}." if self.fix else ""
        return f"{self.detail}{fix} [{self.code}; spent: {self.spent}]"

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback: the sentence, its fix, its cost and the caller's line.

        An unexpected internal error keeps its traceback.
        """
        if self.code == "internal":
            return traceback.format_exception(self)
        lines = [self.detail, *([f"Fix: {self.fix}"] if self.fix else []), f"Spent: {self.spent}."]
        lines += getattr(self, "__notes__", [])
        return format_refusal(f"{self.title} [{self.code}]", lines, self.__traceback__)


class SchemaError(SiloquentError):
    """An inconsistent or incomplete declaration (schema, workspace or source)."""

    code = "schema_invalid"
    exit_status, http_status = 2, 422
    title = "Invalid declaration"


def find_longer(name: str, known: Iterable[str]) -> list[str]:
    """Return the one known name that has all words of ``name``, whatever the case; empty if there is none or several.

    >>> find_longer("eye", ["ent", "eye clinic"])
    ['eye clinic']
    """
    words = set(name.casefold().split())
    found = [one for one in known if words and words <= set(one.casefold().split())]
    return found if len(found) == 1 and len(name.strip()) >= MIN_LETTERS else []


class UnknownName(SchemaError):
    """A table, attribute, constraint or account that was never declared.

    ``near``: the closest known name, ignoring case; None if no name is close.
    """

    code = "unknown_name"
    http_status = 404
    title = "Unknown name"
    FIELDS = ("kind", "name", "near", "known")

    def __init__(self, kind: str, name: str, known: Iterable[str], *, fix: FixLike = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        folded = {one.casefold(): one for one in reversed(self.known)}
        near = get_close_matches(name.casefold(), folded, n=1) or find_longer(name, folded)
        self.near = folded[near[0]] if near else None
        hint = f" Did you mean {self.near!r}?" if near else ""
        more = f" and {len(self.known) - MAX_NAMES:,} more" if len(self.known) > MAX_NAMES else ""
        shown = ", ".join(self.known[:MAX_NAMES]) or "none"
        super().__init__(f"No {kind} named {name!r}.{hint} Known: {shown}{more}.", fix=fix)


class LinkError(SchemaError):
    """A table is not linked to the unit that it shares with others, or is linked to it in two ways."""

    code = "link_invalid"
    title = "Invalid link"


class WorkspaceError(SchemaError):
    """The folder is not a workspace, or cannot be created or read as one."""

    code = "workspace"
    title = "The workspace cannot be used"


class RequestError(SiloquentError):
    """An invalid request; ``code`` may be narrowed per cause."""

    code = "request_invalid"
    exit_status, http_status = 2, 422
    title = "Invalid query"


class KernelInvalid(RequestError, ValueError):
    """The parameters of a sketch kernel do not fit any hash family."""

    code = "kernel_invalid"
    title = "Invalid kernel"


class SyntaxProblem(RequestError):
    """A syntax error; ``position`` is the offset of the first unexpected character."""

    code = "syntax"
    http_status = 400
    title = "Syntax error"
    FIELDS = ("position", "expected")

    def __init__(self, detail: str, *, position: int = 0, expected: str = "", fix: FixLike = "") -> None:
        self.position, self.expected = position, expected
        wanted = f" Expected {expected}." if expected else ""
        super().__init__(f"{detail} (at character {position}).{wanted}", fix=fix)


class ConstraintProblem(RequestError):
    """Constraints that no synthetic table can satisfy, single or combined; the message names all of them."""

    code = "constraint"
    title = "A constraint cannot be kept"


class TooFewReports(RequestError):
    """Devices have sent fewer reports than an estimate requires; no estimate is returned."""

    code = "too_few_reports"
    title = "Too few reports"


class Unanswered(RequestError):
    """No siloquent server answered a request, so its outcome is unknown.

    ``key``: the idempotency key for repeating the request without a second charge; None if it costs nothing.
    """

    code = "unanswered"
    http_status = 504
    title = "No answer from the server"
    FIELDS = ("key",)

    def __init__(self, detail: str, *, key: str | None = None, fix: FixLike = "", spent: str = "nothing") -> None:
        self.key = key
        super().__init__(detail, fix=fix, spent=spent)


class AccuracyUnreachable(RequestError):
    """No mechanism reaches this accuracy within the whole budget.

    ``best_alpha`` is the smallest affordable error bound (in the remaining budget, if raised by a session), or None.
    """

    code = "accuracy_unreachable"
    exit_status = 4
    title = "The requested accuracy costs more than the whole budget"
    FIELDS = ("best_alpha",)

    def __init__(self, detail: str, *, best_alpha: float | None = None, fix: FixLike = "") -> None:
        self.best_alpha = best_alpha
        super().__init__(detail, fix=fix)


class MissingExtra(SiloquentError):
    """A required optional package is not installed."""

    code = "missing_extra"
    exit_status, http_status = 2, 501
    title = "An optional package is missing"
    FIELDS = ("extra",)

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        super().__init__(f"{purpose} needs the extra {extra!r}.", fix=f"pip install 'siloquent[{extra}]'")


class InstallationError(SiloquentError):
    """A required package is installed but cannot be loaded; detected before anything is charged."""

    code = "installation"
    exit_status, http_status = 2, 503
    title = "The installation is broken"


class BudgetExceeded(SiloquentError):
    """The account's remaining budget does not cover this event; nothing was charged."""

    code = "budget_exceeded"
    exit_status, http_status = 3, 409
    title = "Budget too small"
    FIELDS = ("account", "asked", "left")

    def __init__(self, account: str, *, asked: str, left: str, fix: FixLike = "") -> None:
        self.account, self.asked, self.left = account, asked, left
        super().__init__(f"Account {account!r} has {left} left; this request costs {asked}.", fix=fix)


class DataError(SiloquentError):
    """The data source failed. The text is always the same; details go only to the owner's log."""

    code = "data_source_failed"
    exit_status, http_status = 5, 500
    title = "The data source failed"
    TEXT: ClassVar[str] = "The data source could not be read."

    def __init__(self, *, charged: bool = False) -> None:
        super().__init__(
            self.TEXT,
            fix=build_fix(let_owner_run("check"), ", and reads the local log"),
            spent="the reserved cost stays charged; ask again with the same key at no further cost"
            if charged
            else "nothing",
        )


CAUSES: Mapping[str, tuple[str, FixLike]] = {
    "protocol_failed": ("A peer did not follow the protocol or could not be reached.", ""),
    "relay_unreachable": ("The relay could not be reached.", run("federation check")),
    "certificate_refused": (
        "A certificate was rejected: wrong CA, wrong name, or revoked.",
        run("federation check"),
    ),
    "certificate_expired": ("A certificate has expired or is not yet valid.", run("federation renew")),
    "roster_mismatch": ("Two roles hold different rosters.", run("federation accept", "roster.json")),
    "version_mismatch": ("Two roles run different versions.", "pip install --upgrade 'siloquent[federation]'"),
    "policy_refused": ("A party's policy does not allow this session.", "ask that party's owner"),
    "peer_missing": ("A role did not answer before the deadline.", run("federation status")),
    "message_conflict": (
        "A message was received with two different contents.",
        "end that role, then start a new session",
    ),
    "bad_signature": ("A message was not signed by the role that it names.", "start a new session"),
    "bad_seal": ("A sealed message could not be opened.", "start a new session"),
    "bad_encoding": ("A message does not have the form that its step requires.", "start a new session"),
    "bad_chain": ("A message is missing, repeated or out of order.", "start a new session"),
    "batch_size": ("A message does not have the agreed number of values.", "start a new session"),
    "duplicate_points": ("A batch contains a point twice.", "start a new session"),
    "canary_failed": (
        "A worker did not compute the requested result.",
        "take another worker, then start a new session",
    ),
    "planner_mismatch": ("A request differs from the one that the protocol requires.", "start a new session"),
    "secret_reuse": ("A secret would be used a second time.", "start a new session"),
    "role_running_twice": ("Another process is running with this bundle.", "stop one of the two"),
    "state_lost": ("This role's journal lacks messages that it already sent.", "start a new session"),
    "too_large": ("A message or session exceeds the relay's size limit.", run("relay run", "--help")),
    "quota": (
        "The relay's quota for this role or session is full.",
        "wait until the receivers have fetched their messages",
    ),
    "unknown_session": ("The relay has no such session for this role.", run("federation status")),
    "session_closed": ("The session has ended.", run("federation status")),
    "aborted_by": ("A role has ended the session.", run("federation status")),
}
"""The code, fixed text and fix of each cause of a protocol failure; no text from a peer ever enters a message."""


class ProtocolError(SiloquentError):
    """A peer, relay or protocol step failed; ``code`` is narrowed to its cause, each with one fixed text (``CAUSES``).

    ``role`` and ``step`` are the *claimed* values; ``where`` is an address or name that this role itself holds.
    """

    code = "protocol_failed"
    exit_status, http_status = 6, 502
    title = "Protocol error"
    FIELDS = ("role", "step", "where")

    def __init__(
        self, cause: str = "protocol_failed", *, role: str = "", step: str = "", where: str = "", fix: FixLike = ""
    ) -> None:
        text, mend = CAUSES[cause]
        self.code, self.role, self.step, self.where = cause, role, step, where
        told = [f"role {role}" * bool(role), f"step {step}" * bool(step), where]
        named = ", ".join(filter(None, told))
        super().__init__(f"{text} ({named})" if named else text, fix=fix or mend)


class LedgerError(SiloquentError):
    """The ledger cannot be used: locked, disk full, wrong format or unknown state."""

    code = "ledger"
    exit_status = 7
    title = "The ledger cannot be used"

    def __init__(self, detail: str, *, fix: FixLike = "", spent: str = "nothing", http_status: int = 0) -> None:
        super().__init__(detail, fix=fix, spent=spent)
        if http_status:
            self.http_status = http_status


class KeyReused(LedgerError):
    """An idempotency key was used again with a different request."""

    code = "key_reused"
    http_status = 409
    title = "This key belongs to another request"


class LedgerRolledBack(LedgerError):
    """The database is older than its head file, so recorded charges would be lost."""

    code = "ledger_rolled_back"
    title = "The ledger is older than its head"


class ChainBroken(LedgerError):
    """An entry was changed, removed, reordered or added outside the ledger; ``seq`` is the first invalid entry."""

    code = "chain_broken"
    title = "The ledger was tampered with"
    FIELDS = ("seq",)

    def __init__(self, detail: str, *, seq: int, fix: FixLike = "") -> None:
        self.seq = seq
        super().__init__(detail, fix=fix)


class ReleaseError(SiloquentError):
    """A release or its files contradict the manifest, or have an unknown format."""

    code = "release_invalid"
    exit_status, http_status = 2, 422
    title = "The release does not match its manifest"


class NotAllowed(SiloquentError):
    """This person, role or account is not allowed to do this."""

    code = "not_allowed"
    exit_status, http_status = 8, 403
    title = "Not allowed"
