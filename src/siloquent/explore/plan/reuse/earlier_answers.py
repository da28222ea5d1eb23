"""Earlier answers in the ledger that a query may use: loaded once, then only additions are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from threading import Lock

from siloquent.errors import LedgerError, UnknownName
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.reuse.linear_measurements import LinearMeasurement, build_linear_measurement
from siloquent.explore.spec.answers.answer import Label
from siloquent.explore.spec.stored_measurement import StoredMeasurement, decode_measurements, read_table
from siloquent.ledger import Head, Ledger
from siloquent.ledger.marks import NOT_SEEN
from siloquent.maths.strategies.sparse import Sparse

MAX_PAST = 1_000
"""The maximum number of measurements that are used, newest first, and of other answers that are repeated."""
MAX_BYTES = 2**28
"""Their maximum memory in bytes; the oldest are dropped first."""
_NOTHING = Head(0, "")


@dataclass(frozen=True, slots=True, eq=False)
class EarlierAnswer:
    """One earlier measurement: its release, as a linear measurement if possible, and the mark of its rows.

    ``table``: the one that it is about, if several share the account.
    """

    source: int
    account: str
    measured: StoredMeasurement
    past: LinearMeasurement | None
    source_mark: str = ""
    table: str = ""

    def is_of(self, version: int) -> bool:
        """Return whether it measured rows of this declared version; earlier revisions' selections do not record it."""
        measured = self.measured
        return version == (measured.version if measured.footprint is None else measured.footprint.version)

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        numbers = len(self.measured.values) + len(self.measured.estimate)
        return 1_000 + 40 * numbers + (0 if self.past is None else sum(piece.size for piece in self.past.pieces))


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """The earlier answers that may be used, oldest first.

    ``changed``: the newest entry that is skipped because it is about other rows; 0 if there is none.
    """

    known: tuple[EarlierAnswer, ...] = ()
    changed: int = 0

    @property
    def past(self) -> list[LinearMeasurement]:
        """The linear measurements."""
        return [one.past for one in self.known if one.past is not None]

    def select_before(self, seq: int) -> EarlierAnswers:
        """Select the answers whose receipt precedes entry ``seq``."""
        return replace(self, known=tuple(one for one in self.known if one.source < seq))

    def select_after(self, seq: int) -> EarlierAnswers:
        """Select the answers whose receipt is after entry ``seq``."""
        if not seq or not self.known or self.known[0].source > seq:
            return self
        return replace(self, known=tuple(one for one in self.known if one.source > seq))

    def select_account(self, account: str) -> EarlierAnswers:
        """Select only the answers to queries of ``account`` itself."""
        return replace(self, known=tuple(one for one in self.known if one.account == account))

    def select_table(self, table: str) -> EarlierAnswers:
        """Select only the answers about ``table``, of an account that several share; all if ``table`` is empty."""
        return replace(self, known=tuple(one for one in self.known if one.table == table)) if table else self

    @property
    def has_marks(self) -> bool:
        """Whether any answer has a mark of its rows."""
        return any(one.source_mark for one in self.known)

    def select_matching(self, fits: Callable[[str], bool], version: int) -> EarlierAnswers:
        """Select only answers whose marks match the rows; ``changed`` covers answers to the same ``version``."""
        if all(map(fits, [one.source_mark for one in self.known])):
            return self
        kept = tuple(one for one in self.known if fits(one.source_mark))
        here = {one.source for one in kept}
        told = (one for one in self.known if one.source_mark != NOT_SEEN and one.is_of(version))
        gone = [one.source for one in told if one.source not in here]
        return replace(self, known=kept, changed=max(gone, default=0))

    def describe_passed_over(self, version: int) -> str:
        """Return the note that answers are not used because the owner raised the version; empty if there are none."""
        versions = {one.past.version for one in self.known if one.past is not None}
        if not versions or version in versions:
            return ""
        return f"the rows are declared as version {version}: answers about other versions are not drawn from"

    def find_repeat(self, questions: frozenset[str], labels: frozenset[Label]) -> EarlierAnswer | None:
        """Find the newest answer to one of these questions with one of these labels."""
        return next(
            (
                one
                for one in reversed(self.known)
                if one.measured.question in questions and one.measured.label in labels
            ),
            None,
        )


@dataclass(slots=True)
class _Memory:
    """The answers of one table read so far.

    Measurements and other answers are kept separately: free queries never displace the data that they use.
    """

    head: Head = _NOTHING
    linear: deque[EarlierAnswer] = field(default_factory=lambda: deque(maxlen=MAX_PAST))
    others: deque[EarlierAnswer] = field(default_factory=lambda: deque(maxlen=MAX_PAST))
    bytes: int = 0
    found: EarlierAnswers = field(default_factory=EarlierAnswers)
    lock: Lock = field(default_factory=Lock)

    def catch_up(self, ledger: Ledger, account: str) -> EarlierAnswers:
        with self.lock:
            before = self.head
            if before.seq and not ledger.has(before):
                self._forget()  # the ledger was replaced by another copy, with other answers
            for stored in ledger.iter_answers(account, after_seq=self.head.seq):
                parts = tuple(_read(stored.payload))
                table = read_table(stored.payload)
                areas = [0 if one.footprint is None else len(one.footprint.areas) for one in parts]
                for one, own in zip(parts, areas, strict=True):
                    past = _build_linear(one, stored.receipt.seq, stored.account, beside=sum(areas) - own)
                    self._keep(EarlierAnswer(stored.receipt.seq, stored.account, one, past, stored.source_mark, table))
                self.head = Head(stored.receipt.seq, stored.receipt.hash)
            if self.head != before:
                self.found = self.merged()
            return self.found

    def merged(self) -> EarlierAnswers:
        """Return all stored answers, oldest first."""
        # At every query: sorting two sorted runs is much faster than merging them one by one.
        return EarlierAnswers(tuple(sorted((*self.linear, *self.others), key=attrgetter("source"))))

    def _forget(self) -> None:
        self.head, self.bytes = _NOTHING, 0
        self.linear.clear()
        self.others.clear()

    def _keep(self, one: EarlierAnswer) -> None:
        kept = self.others if one.past is None else self.linear
        if len(kept) == MAX_PAST:
            self.bytes -= kept.popleft().size
        kept.append(one)
        self.bytes += one.size
        while self.bytes > MAX_BYTES and len(kept) > 1:
            self.bytes -= kept.popleft().size


_memories: ByteLRU[_Memory] = ByteLRU(64, lambda _: 1)


def load_earlier_answers(ledger: Ledger, account: str) -> EarlierAnswers:
    """Load all settled answers under ``account`` and its shares that a query could use.

    Args:
        account: The table's own account; a new epoch has another one.
    """
    try:
        return _memories.get((ledger.id, account), _Memory).catch_up(ledger, account)
    except UnknownName:  # the account is opened by its first charge
        return EarlierAnswers()


def _read(payload: bytes) -> Iterator[StoredMeasurement]:
    """Parse the measurements in a payload; empty for another task's."""
    with suppress(LedgerError):
        yield from decode_measurements(payload)


def _build_linear(measured: StoredMeasurement, source: int, account: str, *, beside: int) -> LinearMeasurement | None:
    if measured.footprint is None:  # as always if a strategy is sparse
        return None
    dense = tuple(matrix for matrix in measured.strategy if not isinstance(matrix, Sparse))
    return build_linear_measurement(
        measured.footprint, measured.event, measured.values, dense, source=source, account=account, beside=beside
    )
