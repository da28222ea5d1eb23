"""Workspaces are created and their ledgers opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import (
    WorkspaceError,
)
from siloquent.fixes import RunCommand
from siloquent.ledger import Ledger
from siloquent.schema.workspace import WORKSPACE_FILE, Workspace, read_workspace

if TYPE_CHECKING:
    from siloquent.ledger import Checkpoint, LedgerVerdict


def create_workspace(folder: Path | str, *, ledger: str = "ledger.sqlite") -> Workspace:
    """Create a workspace in ``folder``: settings file, ``schemas/``, ``releases/`` and a new ledger.

    Raises:
        WorkspaceError: it is already a workspace, or cannot become one.
        LedgerError: the ledger cannot be created there.
    """
    folder = Path(folder)
    if (folder / WORKSPACE_FILE).exists():
        raise WorkspaceError(
            f"{folder} is already a workspace.",
            fix=RunCommand("tables", ("--workspace", str(folder)), python=f"siloquent.open({str(folder)!r})"),
        )
    try:
        for inner in ("schemas", "releases"):
            (folder / inner).mkdir(parents=True, exist_ok=True)
        settings = f'format = 1\n\n[ledger]\nurl = "{ledger}"\n'
        (folder / WORKSPACE_FILE).write_text(settings, encoding="utf-8")
    except OSError as failed:
        raise WorkspaceError(
            f"Cannot create a workspace in {folder}: {failed.strerror}.", fix="name a folder elsewhere"
        ) from None
    workspace = read_workspace(folder)
    open_workspace_ledger(workspace, create=True).close()
    return workspace


def open_workspace_ledger(workspace: Workspace, *, create: bool = False) -> Ledger:
    """Open the ledger that ``workspace`` names: a file inside it, or a PostgreSQL database."""
    from siloquent.ledger import open_ledger

    return open_ledger(_resolve_ledger_address(workspace), head=workspace.head, create=create)


def adopt_workspace_ledger(workspace: Workspace, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
    """Write the missing head file of a ledger that its owner declares the newest copy, if it passes verification.

    Raises:
        LedgerError: as in ``siloquent.ledger.adopt_ledger``.
    """
    from siloquent.ledger import adopt_ledger

    return adopt_ledger(_resolve_ledger_address(workspace), head=workspace.head, checkpoint=checkpoint)


def _resolve_ledger_address(workspace: Workspace) -> str:
    return workspace.ledger if "://" in workspace.ledger else str(workspace.folder / workspace.ledger)
