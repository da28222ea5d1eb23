"""A table as it was declared at an earlier charge, so that what was charged then can be finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.errors import SchemaError

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.session.accounts import SessionAccounts


class EarlierDeclaration:
    """The declaration of table ``name`` as recorded under the digest ``file`` of its table file.

    It is restored anew whenever today's changes, since the promise, the source and the rows are today's: where these
    are others than then, nothing can be finished.

    Args:
        session: The session of today.
    """

    def __init__(self, session: SessionAccounts, name: str, file: str) -> None:
        self.name, self._session, self._file = name, session, file
        self._today: TableSchema | None = None
        self._then: TableSchema | None = None

    @property
    def is_restorable(self) -> bool:
        """Whether today's rows and promise are those of then, and all columns can be restored."""
        return self._restore() is not None

    @property
    def differs(self) -> str:
        """The changes since, as text."""
        return self._session.describe_differences(self._session.schema(self.name), self._file)

    def find(self) -> TableSchema:
        """Return the declaration of then; the same object while today's is the same.

        Raises:
            SchemaError: it can no longer be restored. Others as for ``schema``.
        """
        then = self._restore()
        if then is None:
            raise SchemaError(f"The declaration of {self.name!r} has changed since this was planned.", fix="ask again")
        return then

    def _restore(self) -> TableSchema | None:
        today = self._session.schema(self.name)
        if today is not self._today:
            self._today, self._then = today, self._session.restore_columns(today, self._file)
        return self._then
