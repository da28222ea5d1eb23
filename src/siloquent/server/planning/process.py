"""A planner's process: prices questions and jobs without reading a row, until its pipe is closed."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.documents.problems import build_problem, log_details
from siloquent.errors import PortableError
from siloquent.foreign.process_limits import limit_memory
from siloquent.server.access.scope import require_declared
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, too_dear_to_plan
from siloquent.server.jobs.queue import check_job
from siloquent.server.session_pool import Sessions

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.explore import PortablePlan
    from siloquent.schema import AccuracyDefaults

MAX_TRUTHS = 10**8
"""The limit on conditions times cells of one question: a twentieth of an owner's limit at the command line."""


@dataclass(frozen=True, slots=True)
class Order:
    """A request for a price: a question's ``sql``, or a job's ``task`` and ``spec``, and the person.

    ``key`` is the ledger's, under which the question may have been charged before. ``sends_plan``: whether the reply to
    a question is its document and its plan, to be answered as planned. ``defaults``: its accuracy if it states none.
    """

    person: Principal
    sql: str = ""
    key: str | None = None
    task: str = ""
    spec: dict[str, Any] | None = None
    sends_plan: bool = False
    defaults: AccuracyDefaults | None = None


Reply = dict[str, Any] | tuple[dict[str, Any], "PortablePlan"]


def serve(pipe: Connection, folder: Path, max_bytes: int) -> None:
    """Reply to orders with documents or problems."""
    from siloquent.explore.plan.cells.space import max_truths

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is handled by the server
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    limit_memory(max_bytes)
    max_truths.set(MAX_TRUTHS)
    sessions = Sessions(folder)
    with suppress(EOFError, OSError):  # the server has closed its end, or is gone
        pipe.send(None)  # ready
        while True:
            pipe.send(_price_order(sessions, pipe.recv(), folder))
    sessions.close()


def _price_order(sessions: Sessions, order: Order, folder: Path) -> Reply | PortableError:
    try:
        session = sessions.of(order.person.analyst)
        return _price_question(session, order) if order.spec is None else _price_job(session, order)
    except PortableError as refused:
        return refused
    except MemoryError:
        return too_dear_to_plan()
    except Exception as failed:  # allowed: our own bug ends no planner, and keeps its details
        problem = build_problem(failed)
        log_details(folder, problem, failed)
        told = Refused(problem.http_status, problem.code, problem.detail, fix=problem.fix)
        told.problem = problem
        return told


def _price_question(session: Session, order: Order) -> Reply:
    from siloquent.explore import prepare, read_question, suggest_affordable

    session.defaults = order.defaults
    query = read_question(session, order.sql, may_see=order.person.may_see)
    require_declared(session, order.person, query.table)
    with suggest_affordable(session, query):
        prepared = prepare(session, query, key=order.key)
        document: dict[str, Any] = prepared.explanation.to_json()
    return (document, prepared.portable) if order.sends_plan else document


def _price_job(session: Session, order: Order) -> dict[str, Any]:
    from siloquent.documents.prices.plans import plan_of_job

    assert order.spec is not None, "a job has a spec"
    check_job(order.person, order.task, order.spec)
    require_declared(session, order.person, str(order.spec["table"]))
    return plan_of_job(session, order.task, order.spec)


def _end_with_the_server() -> None:
    """End this process once its server is gone, also in the middle of a long plan."""
    server = parent_process()
    assert server is not None, "a planner is started by a server"
    server.join()
    time.sleep(1)  # a pipe that is closed normally ends the process
    os._exit(0)
