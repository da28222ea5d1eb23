"""A session over a folder and a session over a server keep one contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.session_contract import SessionContract
from journeys.served import clinic_workspace, serving
from siloquent.api import Session, open_session
from siloquent.remote import RemoteSession, connect


class TestSession(SessionContract):
    @contextmanager
    def open(self, folder: Path, toml: str) -> Iterator[Session]:
        with open_session(clinic_workspace(folder, toml=toml), analyst="ana") as session:
            yield session


class TestRemoteSession(SessionContract):
    @contextmanager
    def open(self, folder: Path, toml: str) -> Iterator[RemoteSession]:
        with serving(clinic_workspace(folder, toml=toml), slot_counts_ms=1, slot_answers_ms=1) as served:
            file = folder / "token"
            file.touch(mode=0o600)
            file.write_text(served.texts["ana"] + "\n")
            with connect(served.address, token_file=file) as session:
                yield session
