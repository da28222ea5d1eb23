"""profile: the functional dependencies of one table, or of several silos that never see each other's rows.

    local(table)                                        # one table, not private, for its owner
    spec = ProfileSpec(table="prices", columns=("item", "item_group", "supplier", "city"))
    explain(spec)                                       # sizes, bytes, what each role could learn; no network
    discover(channel, terms)  respond(channel, rows)    # the moderator's and a party's part of a session
    simulate(spec, tables, columns)                     # every role in this process, on public rows

Not differential privacy: the result is exact, and the protocol keeps rows at home. ``describe_leakage`` states
what each role learns.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.profile.measure import LocalResult, discover_locally
from siloquent.profile.plan.costs import SessionPlan, explain
from siloquent.profile.release import check_report, load_report, save_report
from siloquent.profile.spec import (
    Dependency,
    FDReport,
    Leakage,
    ProfileColumn,
    ProfileSpec,
    describe_leakage,
    parse_report,
    parse_spec,
)
from siloquent.profile.task import (
    Terms,
    adopt_constraints,
    build_row_opener,
    discover,
    discover_in_process,
    respond,
    simulate,
)

__all__ = [
    "Dependency",
    "FDReport",
    "Leakage",
    "LocalResult",
    "ProfileColumn",
    "ProfileSpec",
    "SessionPlan",
    "Terms",
    "adopt_constraints",
    "build_row_opener",
    "check_report",
    "describe_leakage",
    "discover",
    "discover_in_process",
    "discover_locally",
    "explain",
    "load_report",
    "parse_report",
    "parse_spec",
    "respond",
    "save_report",
    "simulate",
]

if not TYPE_CHECKING:  # the names in version 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Column": "ProfileColumn",
            "adopted": "adopt_constraints",
            "discover_together": "discover_in_process",
            "local": "discover_locally",
            "report_from_plain": "parse_report",
            "rows_of": "build_row_opener",
            "spec_from_plain": "parse_spec",
            "statement": "describe_leakage",
        },
    )
    keep_old_methods(FDReport, {"sentence": "describe_guarantee", "digest": "compute_digest", "to_plain": "to_dict"})
