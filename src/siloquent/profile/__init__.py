"""profile: which functional dependencies hold, in one table or over several silos that show each other no row.

    local(table)                                        # one table, in the open, for its owner
    spec = ProfileSpec(table="prices", columns=("item", "item_group", "supplier", "city"))
    explain(spec)                                       # sizes, bytes, what each role could learn; contacts nobody
    discover(channel, terms)  respond(channel, rows)    # the moderator's and a party's walk through a session
    simulate(spec, tables, columns)                     # every role in this process, on public rows

Not differential privacy: the result is exact, and the protocol keeps rows at home. ``statement`` says who learns what.
"""

from siloquent.profile.measure import LocalResult, local
from siloquent.profile.plan.costs import SessionPlan, explain
from siloquent.profile.release import check_report, load_report, save_report
from siloquent.profile.spec import (
    Column,
    Dependency,
    FDReport,
    Leakage,
    ProfileSpec,
    report_from_plain,
    spec_from_plain,
    statement,
)
from siloquent.profile.task import Terms, adopted, discover, discover_together, respond, rows_of, simulate

__all__ = [
    "Column",
    "Dependency",
    "FDReport",
    "Leakage",
    "LocalResult",
    "ProfileSpec",
    "SessionPlan",
    "Terms",
    "adopted",
    "check_report",
    "discover",
    "discover_together",
    "explain",
    "load_report",
    "local",
    "report_from_plain",
    "respond",
    "rows_of",
    "save_report",
    "simulate",
    "spec_from_plain",
    "statement",
]
