"""The verbs of a session at a server, one file per subject; each verb is written once, as steps."""

from siloquent.remote.verbs.asking import AskingVerbs
from siloquent.remote.verbs.jobs import JobVerbs
from siloquent.remote.verbs.people import PeopleVerbs
from siloquent.remote.verbs.releases import ReleaseVerbs
from siloquent.remote.verbs.silos import SiloVerbs
from siloquent.remote.verbs.spending import SpendingVerbs
from siloquent.remote.verbs.tables import TableVerbs

__all__ = ["SessionVerbs"]


class SessionVerbs(AskingVerbs, JobVerbs, ReleaseVerbs, TableVerbs, SpendingVerbs, SiloVerbs, PeopleVerbs):
    """Every verb of a session at a server."""
