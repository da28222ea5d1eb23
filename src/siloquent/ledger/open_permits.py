"""Detection of open permits from the chain; each entry is hashed and read only once per process."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from siloquent.errors import ChainBroken, NotAllowed
from siloquent.ledger.backends.storage import AnswerRow, EntryRow, LedgerStorage, PermitRow, iter_all_entries
from siloquent.ledger.records import FIX, format_permit_id, load_entry, read_entry_body


@dataclass(slots=True)
class _Stretch:
    """Consecutive entries, from ``first`` to ``last``, and the permits that they leave open.

    ``before``: the hash before the first entry. ``settled``: permits given before it that an entry here settles.
    """

    first: int
    before: str
    last: int
    hash: str
    opened: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)

    @classmethod
    def from_entry(cls, entry: EntryRow) -> _Stretch:
        """Create an empty stretch whose next entry is ``entry``."""
        return cls(entry.seq, entry.prev, entry.seq - 1, entry.prev)

    def take(self, entry: EntryRow) -> None:
        """Append ``entry``.

        Raises:
            ChainBroken: It was changed, or is not the next entry.
        """
        if entry.seq != self.last + 1 or entry.prev != self.hash:
            raise ChainBroken(f"Entry {self.last + 1} was changed or is missing.", seq=self.last + 1, fix=FIX)
        facts = read_entry_body(entry)
        kind, permit = facts.get("kind"), facts.get("permit")
        if kind == "reserve":
            self.opened.add(entry.seq)
        elif kind == "settle" and isinstance(permit, int):
            (self.opened.discard if permit >= self.first else self.settled.add)(permit)
        self.last, self.hash = entry.seq, entry.hash

    def follow(self, later: _Stretch) -> None:
        """Append all of ``later``, which begins where this one ends.

        Raises:
            ChainBroken: It does not follow.
        """
        if later.first != self.last + 1 or later.before != self.hash:
            raise ChainBroken(f"Entry {self.last + 1} was changed or is missing.", seq=self.last + 1, fix=FIX)
        self.opened = (self.opened - later.settled) | later.opened
        self.settled |= {permit for permit in later.settled if permit < self.first}
        self.last, self.hash = later.last, later.hash


class OpenPermits:
    """The state of one ledger's permits, according to the entries read so far.

    A permit is open if no entry settles it; otherwise a removed answer would be measured again without a charge.
    Later calls read only newer entries. Entries found earlier are trusted over the chain's current contents.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: _Stretch | None = None

    def find_answer(self, books: LedgerStorage, row: PermitRow) -> AnswerRow | None:
        """Return the answer of a permit, None while it is open.

        Raises:
            ChainBroken: An entry settles the permit but the answer is missing, or the entries after it do not follow.
        """
        answer = books.find_answer(row.seq)
        if answer is not None:
            return answer
        newest = books.find_newest_entry()
        if newest is not None and newest.seq == row.seq:  # the usual case: no later entry
            return None
        with self._lock:
            if self._is_open(books, row.seq):
                return None
        answer = books.find_answer(row.seq)  # it may have been settled since the first check
        if answer is None:
            raise ChainBroken(f"The answer to the permit of entry {row.seq} is missing.", seq=row.seq, fix=FIX)
        return answer

    def require_unsettled(self, books: LedgerStorage, row: PermitRow) -> None:
        """Refuse a permit that was already measured."""
        if self.find_answer(books, row) is not None:
            raise NotAllowed(
                f"Permit {format_permit_id(row.seq)} is already settled; a permit allows one measurement.",
                fix="use the same key to get the stored answer",
            )

    def _is_open(self, books: LedgerStorage, permit: int) -> bool:
        start = load_entry(books, permit)
        if self._seen is None or not self._catch_up(books, self._seen):
            self._seen = _Stretch.from_entry(start)
            self._catch_up(books, self._seen)
        elif permit < self._seen.first:
            earlier = _Stretch.from_entry(start)
            for entry in iter_all_entries(books, permit - 1):
                if entry.seq >= self._seen.first:
                    break
                earlier.take(entry)
            earlier.follow(self._seen)
            self._seen = earlier
        return permit in self._seen.opened

    @staticmethod
    def _catch_up(books: LedgerStorage, seen: _Stretch) -> bool:
        """Append the entries after ``seen``; return False if its last one is missing, since the ledger was replaced."""
        entries = iter_all_entries(books, max(seen.last, seen.first) - 1)
        if seen.last >= seen.first:
            last = next(entries, None)
            if last is None or (last.seq, last.hash) != (seen.last, seen.hash):
                return False
        for entry in entries:
            seen.take(entry)
        return True
