"""The table of routes and the roles that may use them. A route not in it is unreachable; a test checks all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from siloquent.server.access.tokens import Role

EVERYBODY: frozenset[Role] = frozenset(("owner", "analyst", "auditor"))
ANALYST: frozenset[Role] = frozenset(("analyst",))
OWNER: frozenset[Role] = frozenset(("owner",))
ANALYSTS_AND_OWNERS: frozenset[Role] = ANALYST | OWNER
OPERATOR: frozenset[Role] = frozenset(("operator",))
COLLECTOR: frozenset[Role] = frozenset(("collector",))
LEDGER_READERS: frozenset[Role] = frozenset(("owner", "auditor"))

ROUTES: Mapping[str, frozenset[Role]] = MappingProxyType(
    {
        "me": EVERYBODY | COLLECTOR | OPERATOR,
        "list_tables": EVERYBODY,
        "show_table": EVERYBODY,
        "table_history": EVERYBODY,
        "put_table": OWNER,
        "check_table": OWNER,
        "refresh_table": OWNER,
        "upload": OWNER,
        "list_uploads": OWNER,
        "delete_upload": OWNER,
        "explain": ANALYST,
        "answer": ANALYST,
        "create_job": ANALYSTS_AND_OWNERS,
        "price_job": ANALYSTS_AND_OWNERS,
        "list_jobs": ANALYSTS_AND_OWNERS,
        "show_job": ANALYSTS_AND_OWNERS,
        "job_events": ANALYSTS_AND_OWNERS,
        "cancel_job": ANALYSTS_AND_OWNERS,
        "list_releases": EVERYBODY,
        "show_release": EVERYBODY,
        "release_file": ANALYSTS_AND_OWNERS,
        "verify_release": LEDGER_READERS,
        "share_release": OWNER,
        "delete_release": OWNER,
        "ask_release": ANALYSTS_AND_OWNERS,
        "show_dependencies": ANALYSTS_AND_OWNERS,
        "adopt_dependencies": OWNER,
        "show_catalogue": ANALYSTS_AND_OWNERS,
        "list_sessions": LEDGER_READERS,
        "show_session": LEDGER_READERS,
        "decide_session": OWNER,
        "list_collections": ANALYSTS_AND_OWNERS | COLLECTOR,
        "show_collection": ANALYSTS_AND_OWNERS | COLLECTOR,
        "send_reports": COLLECTOR,
        "estimate": ANALYSTS_AND_OWNERS,
        "list_accounts": EVERYBODY,
        "list_entries": EVERYBODY,
        "ledger_head": EVERYBODY,
        "verify_ledger": LEDGER_READERS,
        "make_checkpoint": LEDGER_READERS,
        "list_spending": LEDGER_READERS,
        "show_report": OWNER,
        "list_denials": LEDGER_READERS,
        "list_acts": LEDGER_READERS,
        "readyz": OPERATOR,
        "metrics": OPERATOR,
        "create_token": OWNER,
        "list_tokens": OWNER,
        "revoke_token": OWNER,
    }
)
