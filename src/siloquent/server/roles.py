"""Who may do what: one table. A route that is not in it cannot be reached, and a test walks all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from siloquent.server.tokens import Role

EVERYBODY: frozenset[Role] = frozenset(("owner", "analyst", "auditor"))
ANALYST: frozenset[Role] = frozenset(("analyst",))
OWNER: frozenset[Role] = frozenset(("owner",))
ASKERS: frozenset[Role] = ANALYST | OWNER
OPERATOR: frozenset[Role] = frozenset(("operator",))
COLLECTOR: frozenset[Role] = frozenset(("collector",))
BOOKS: frozenset[Role] = frozenset(("owner", "auditor"))

ROUTES: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        "me": EVERYBODY | COLLECTOR | OPERATOR,
        "list_tables": EVERYBODY,
        "show_table": EVERYBODY,
        "table_history": EVERYBODY,
        "put_table": OWNER,
        "check_table": OWNER,
        "upload": OWNER,
        "list_uploads": OWNER,
        "delete_upload": OWNER,
        "explain": ANALYST,
        "answer": ANALYST,
        "create_job": ANALYST,
        "price_job": ANALYST,
        "list_jobs": ASKERS,
        "show_job": ASKERS,
        "job_events": ASKERS,
        "cancel_job": ASKERS,
        "list_releases": EVERYBODY,
        "show_release": EVERYBODY,
        "release_file": ASKERS,
        "verify_release": BOOKS,
        "share_release": OWNER,
        "delete_release": OWNER,
        "ask_release": ASKERS,
        "show_dependencies": ASKERS,
        "adopt_dependencies": OWNER,
        "show_catalogue": ASKERS,
        "list_sessions": BOOKS,
        "show_session": BOOKS,
        "decide_session": OWNER,
        "list_collections": ASKERS | COLLECTOR,
        "show_collection": ASKERS | COLLECTOR,
        "send_reports": COLLECTOR,
        "estimate": ASKERS,
        "list_accounts": EVERYBODY,
        "list_entries": EVERYBODY,
        "ledger_head": EVERYBODY,
        "verify_ledger": BOOKS,
        "make_checkpoint": BOOKS,
        "list_spending": BOOKS,
        "list_denials": BOOKS,
        "list_acts": BOOKS,
        "readyz": OPERATOR,
        "metrics": OPERATOR,
        "create_token": OWNER,
        "list_tokens": OWNER,
        "revoke_token": OWNER,
    }
)
