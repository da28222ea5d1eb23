"""The session behind every task: tables, ledger and analyst; independent of any task."""

from siloquent.session.declared_limits import compute_budget_limit, compute_share_limits
from siloquent.session.opening import adopt_workspace_ledger, create_workspace, open_workspace_ledger
from siloquent.session.workspace_session import SupportsSchema, WorkspaceSession

__all__ = [
    "SupportsSchema",
    "WorkspaceSession",
    "adopt_workspace_ledger",
    "compute_budget_limit",
    "compute_share_limits",
    "create_workspace",
    "open_workspace_ledger",
]
