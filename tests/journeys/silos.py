"""A workspace that works with others: a finished profile, an offer in its catalogue, a session that waits for a yes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from journeys.served import clinic_workspace
from siloquent.api import open_session
from siloquent.federation.identity import operator
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.messages.journal import SessionRecord
from siloquent.federation.role_process import open_journal
from siloquent.profile.release import save_report
from siloquent.profile.spec import Dependency, FDReport, ProfileColumn
from siloquent.profile.spec.report import Leakage
from siloquent.search import parse_spec

ROLES = (("north", "party", "North"), ("river", "party", "<b>River</b>"), ("w1", "worker", "University"),
         ("office", "moderator", "Registry"))  # fmt: skip
INVITATION = {
    "invitation": {
        "task": "profile", "protocol": "P", "tables": ["visits"], "columns": ["age", "ward"],
        "statement": "each role learns the dependencies", "price": "",
    }
}  # fmt: skip


@dataclass(frozen=True)
class Silo:
    """The workspace, the profile's release, the offer's id, the session that waits."""

    folder: Path
    report: str
    offer: str
    session: str = "5e" * 16


def silo_workspace(folder: Path) -> Silo:
    """The clinic, as one party of a federation whose relay is not there."""
    clinic_workspace(folder)
    report = FDReport(
        protocol="P",
        columns=tuple(ProfileColumn(name, "text") for name in ("age", "note", "patient", "ward")),
        nulls="value",
        empty_lhs=False,
        complete_to_lhs=2,
        parties=(("north", 1024), ("river", 2048)),
        workers=("w1",),
        ufd=(Dependency(("patient",), "age"), Dependency(("age", "ward"), "note")),
        cfd=(Dependency(("patient",), "age"), Dependency(("ward",), "note")),
        keys=(),
        constants=(),
        leakage=Leakage(7, 11, 3, (("north", "its own votes"), ("w1", "sizes"))),
        canaries=(4, 0),
        session="a-session",
        signatures={"north": "aa", "river": "bb"},
    )
    save_report(report, folder / "releases" / report.id, table="visits")
    with open_session(folder) as session:
        spec = parse_spec({"table": "visits", "features": ["cost"], "keys": ["ward"], "budget": {"epsilon": "1"}})
        offer = session.search.offer(spec, key="offer")
        session.search.publish(offer, folder / "catalogue")
    operator.init(operator.FederationDescription("clinics", "https://127.0.0.1:9", ROLES), folder / "bundles")
    (folder / "bundles" / "north").rename(folder / "bundle")
    silo = Silo(folder, report.id, offer.id)
    members = ("north", "office", "river", "w1")
    asked = SessionRecord(silo.session, members, "office", int(time.time()) + 3_600, INVITATION, "invited", time.time())
    with open_journal(read_bundle(folder / "bundle")) as journal:
        journal.add_session(asked)
    return silo
