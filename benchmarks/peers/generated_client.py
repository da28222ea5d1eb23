"""The tutorial's steps by a client that was generated from the API's description; run where its generator is installed.

Arguments: the server's address; a token in the environment. Each step that went well is a line of standard output.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from generated import AuthenticatedClient
from generated.api.answers import answer, explain
from generated.api.jobs import create_job, list_jobs, price_job, show_job
from generated.api.releases import release_file, show_release
from generated.api.tables import list_tables, me, show_table
from generated.models import (
    Answer,
    AnswerBody,
    Explanation,
    Job,
    JobList,
    JobState,
    Person,
    Problem,
    QuestionBody,
    Release,
    SynthJobBody,
    SynthJobPriceBody,
    SynthPlan,
    SynthSpec,
    SynthSpecBudget,
    Table,
    TableList,
)

QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 400 CONFIDENCE 0.95"
WAIT_SECONDS, WAITS = 25, 20


def main(address: str) -> None:
    """Walk through the steps; the first that goes wrong ends the process with what was answered."""
    with AuthenticatedClient(address, os.environ["SILOQUENT_TOKEN"], timeout=60) as client:
        steps(client)


def steps(client: AuthenticatedClient) -> None:
    """Who am I, which tables, what would it cost, ask, ask again, a job and its price, wait, its release and file."""
    assert is_a(Person, me.sync(client=client)).name == "ana"
    done("me")
    (line,) = is_a(TableList, list_tables.sync(client=client)).tables
    table = is_a(Table, show_table.sync(line.name, client=client))
    assert [one.name for one in table.attributes][:1] == ["ward"]
    done("tables")
    price = is_a(Explanation, explain.sync(client=client, body=QuestionBody(sql=QUESTION)))
    assert price.cost.to_dict()
    done("explain")
    asked = AnswerBody(sql=QUESTION)
    first = is_a(Answer, answer.sync(client=client, body=asked, idempotency_key="wards"))
    again = answer.sync_detailed(client=client, body=asked, idempotency_key="wards")
    assert (again.headers["idempotency-replayed"], again.parsed) == ("true", first)
    done("ask")
    refused = explain.sync(client=client, body=QuestionBody(sql=QUESTION.replace("ward", "wrad")))
    assert is_a(Problem, refused).code == "unknown_name"
    done("refusal")
    spec = SynthSpec(table="visits", budget=SynthSpecBudget.from_dict({"epsilon": "5"}))
    plan = price_job.sync(client=client, body=SynthJobPriceBody(task="synth", spec=spec))
    assert float(is_a(SynthPlan, plan).price) > 0
    body = SynthJobBody(task="synth", spec=spec)
    job = is_a(Job, create_job.sync(client=client, body=body, idempotency_key="synthetic"))
    done("job")
    for _ in range(WAITS):
        job = is_a(Job, show_job.sync(job.id, client=client, wait=WAIT_SECONDS))
        if job.state in (JobState.DONE, JobState.FAILED):
            break
    assert (job.state, job.release is None, job.cost is None) == (JobState.DONE, False, False), job
    assert job in is_a(JobList, list_jobs.sync(client=client)).jobs
    done("poll")
    release = is_a(Release, show_release.sync(job.release, client=client))
    rows = next(one.name for one in release.files if one.name.startswith("rows"))
    file: Any = release_file.sync(release.id, rows, client=client)
    assert len(file.payload.read()) > 100
    done("release")


def is_a(kind: type[Any], found: Any) -> Any:
    """``found``, if it is of ``kind``."""
    if not isinstance(found, kind):
        raise SystemExit(f"not a {kind.__name__}: {found}")
    return found


def done(step: str) -> None:
    """Tell of a step that went well."""
    sys.stdout.write(f"{step}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
