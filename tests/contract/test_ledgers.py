"""Memory, SQLite and PostgreSQL keep the same ledger contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.ledger_contract import LedgerContract
from scripts.postgres import fresh_database
from siloquent.ledger import Ledger, MemoryLedger, open_ledger


class TestMemory(LedgerContract):
    def make(self) -> Ledger:
        return MemoryLedger()


class TestSQLite(LedgerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.made = tmp_path, 0

    def make(self) -> Ledger:
        self.made += 1
        path = self.folder / f"ledger{self.made}.sqlite"
        return open_ledger(path, head=path.with_suffix(".head"), create=True)


@pytest.mark.postgres
class TestPostgres(LedgerContract):
    @pytest.fixture(autouse=True)
    def _server(self, tmp_path: Path, postgres_dsn: str) -> None:
        self.folder, self.server, self.made = tmp_path, postgres_dsn, 0

    def make(self) -> Ledger:
        self.made += 1
        return open_ledger(fresh_database(self.server), head=self.folder / f"ledger{self.made}.head", create=True)
