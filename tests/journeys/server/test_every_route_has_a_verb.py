"""Whatever the API offers, a session in Python does: blocking and awaited, at a real server, with typed results."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from journeys.clinic import WARDS
from journeys.documents import misfits
from journeys.faces import FACES, Awaited, noting, session_of
from journeys.served import Served, serving
from journeys.server.test_collections_over_http import SPEC as WALKS
from journeys.server.test_jobs import SPEC
from journeys.server.test_prices_and_waits import SPECS as PRICED
from journeys.silos import Silo, silo_workspace
from siloquent import collect, errors, ledger, sketch
from siloquent.api import open_session
from siloquent.errors import NotAllowed, RequestError, UnknownName
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.role_process import open_journal
from siloquent.remote import AsyncRemoteSession, RemoteSession
from siloquent.remote.calls import ROUTES
from siloquent.remote.documents import Job, Release
from siloquent.remote.replies import Reply
from siloquent.server.described import DOCUMENTS

SECOND = "5f" * 16
WITHOUT_A_VERB: dict[str, str] = {}
"""Operations that no verb sends, and why."""
STAYS = """\
format = 1
attribute = [{ name = "ward", type = "category", values = ["A", "B"], null = "drop" }]
[table]
name = "stays"
source = "SOURCE"
adjacency = "add-remove"
size_hint = 3
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
"""


def operations(app: Any) -> dict[str, tuple[str, str]]:
    """Method and path of each operation in the description."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method, operation in methods.items()
    }


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Silo, bytes]]:
    """A server whose workspace has something of every kind, and reports of devices."""
    folder = tmp_path_factory.mktemp("silo") / "clinic"
    silo = silo_workspace(folder)
    with open_journal(read_bundle(folder / "bundle")) as journal:
        (known,) = journal.list_sessions()
        journal.add_session(replace(known, id=SECOND))
    made = collect.design(collect.parse_spec(WALKS))
    (folder / "collections").mkdir()
    (folder / "collections" / "walks-1.json").write_text(made.to_json())
    devices = [collect.Device(user=f"u{i}", key=bytes(range(32)), memory={}) for i in range(1_200)]
    reports = b"".join(collect.perturb(made, "walks", [{"mood": "1"}], one) for one in devices)
    with serving(folder, slot_counts_ms=1, slot_answers_ms=1) as served:
        yield served, silo, reports


@pytest.fixture(scope="module", params=FACES)
def everything(request: pytest.FixtureRequest, workplace: tuple[Served, Silo, bytes]) -> Everything:
    return Everything(*workplace, request.param)


class Everything:
    """Sessions of one face, which note what they send."""

    def __init__(self, served: Served, silo: Silo, reports: bytes, face: str) -> None:
        self.served, self.silo, self.reports, self.face = served, silo, reports, face
        self.sent: set[str] = set()
        self.documents: set[tuple[str, str]] = set()

    def as_(self, name: str) -> Any:
        return noting(session_of(self.face, self.served.address, self.served.texts[name]), self.sent, self.look)

    def look(self, route: str, reply: Reply) -> None:
        """A success holds a document of a kind that the description gives to its route, as the kind's schema says."""
        if not reply.is_good or route not in DOCUMENTS or not reply.body:
            return
        document = reply.require_document()
        assert misfits(document) == [], route
        self.documents.add((route, document.get("schema", "siloquent/kept-checkpoint/1").split("/")[1]))


def an_analyst_asks_prices_and_looks_back(everything: Everything, tmp_path: Path) -> None:
    with everything.as_("ana") as ana:
        assert (ana.get_person().name, ana.get_person().role) == ("ana", "analyst")
        assert [one.name for one in ana.list_table_lines()] == ana.list_tables()
        assert ana.get_table_document("visits").unit == "row"
        assert ana.explain(f"{WARDS} REUSE NONE").price > 0
        answer = ana.ask(f"{WARDS} REUSE NONE", key=f"wards {everything.face}")
        assert ana.ask(f"{WARDS} REUSE NONE", key=f"wards {everything.face}").replayed
        assert ana.get_history("visits").questions
        assert ana.get_account("visits").left.amount >= ana.get_remaining("visits").amount
        line = next(one for one in ana.list_accounts() if one.name == "visits@1/ana")
        assert line.spent >= answer.cost.amount * Fraction(999, 1000) > 0
        assert isinstance(line.spent, Fraction)
        with pytest.raises(UnknownName) as unknown:
            ana.explain("SELECT COUNT(*) FROM visits WHERE wrad = 'A' ERROR 9")
        assert (unknown.value.kind, unknown.value.name, unknown.value.near) == ("attribute", "wrad", "ward")
        assert "ward" in unknown.value.known
        with pytest.raises(NotAllowed):
            ana.list_tokens()


def the_ledger_is_read_as_at_home(everything: Everything, tmp_path: Path) -> None:
    with everything.as_("ana") as ana, everything.as_("auditor") as auditor:
        ana.ask(WARDS.replace("200", "250"), key=f"one more {everything.face}")
        entries = ana.ledger.iter_entries(account="visits@1/ana")
        assert isinstance(entries[0], ledger.Entry)
        assert [one.seq for one in entries] == [one.seq for one in ana.list_account_entries("visits@1/ana")]
        later = ana.ledger.iter_entries(entries[0].seq, "visits@1/ana")
        assert [one.seq for one in later] == [one.seq for one in entries[1:]]
        page = ana.list_entries("visits@1/ana", limit=1)
        assert [one.seq for one in page] == [entries[0].seq]
        assert ana.list_account_entries("visits@1") == []
        assert ana.ledger.get_account("visits@1/ana") in ana.ledger.list_accounts()
        with pytest.raises(UnknownName, match="visits@1/ana"):
            ana.ledger.get_account("visits@1/anna")
        assert auditor.ledger.verify().ok
        kept = auditor.ledger.create_checkpoint()
        assert (kept.seq, kept.hash) == (auditor.ledger.read_head().seq, auditor.ledger.read_head().hash)
        assert kept.ledger == auditor.get_ledger_id()
        assert any(one.analyst == "ana" and one.spent > 0 for one in auditor.list_spending())
        with pytest.raises(NotAllowed):
            auditor.ask(WARDS)
        assert any((one.name, one.route) == ("auditor", "answer") for one in auditor.list_denials())


def a_job_is_priced_followed_and_its_sketch_asked(everything: Everything, tmp_path: Path) -> None:
    with everything.as_("ana") as ana, everything.as_("owner") as owner, everything.as_("auditor") as auditor:
        assert ana.price_job("sketch", SPEC).schema == "siloquent/sketch-plan/1"
        job = ana.start("sketch", SPEC, key="map")
        assert isinstance(job, Job)
        seen = list(ana.iter_events(job.id))
        assert seen[-1].has_ended
        done = ana.wait(job.id)
        assert (done.state, done.error) == ("done", None), done.result
        assert (done.account, (done.spent or 0) > 0, done.cancelled_by) == ("visits@1/ana", True, None)
        assert ana.start("sketch", SPEC, key="map").id == job.id
        assert ana.get_job(job.id) == done
        assert [one.id for one in ana.list_jobs(state="done", table="visits", limit=5)] == [job.id]
        listed = [one.id for one in ana.list_jobs()]
        assert [one.id for one in ana.list_jobs(after=job.id)] == listed[listed.index(job.id) + 1 :]
        assert ana.cancel(job.id).state == "done"
        assert ana.wait(job.id, timeout=0.0, progress=lambda done, steps: None).has_ended
        assert done.release is not None
        assert isinstance(ana.get_release(done.release), Release)
        assert ana.list_releases(task="sketch", table="visits", limit=1)[0].id == done.release
        points = np.array([[50.0, 400.0], [110.0, 990.0]])
        dense = ana.ask_sketch(done.release, sketch.Density(points))
        assert dense.columns == ("age", "cost", "value", "error", "low", "high", "outside")
        assert [row[:2] for row in dense.rows] == [(50.0, 400.0), (110.0, 990.0)]
        assert all(low < value < high and error > 0 for *_, value, error, low, high, _ in dense.rows)
        assert ana.ask_sketch(done.release, {"kind": "density", "points": points.tolist()}).rows == dense.rows
        for wrong in (sketch.Density(points, normalise=True), sketch.Anomaly(points, threshold=1.0)):
            with pytest.raises(RequestError, match="server"):
                ana.ask_sketch(done.release, wrong)
        asked = sketch.parse_spec(SPEC)
        for made in (ana.sketch.build(asked, key="map"), ana.sketch.load(done.release)):
            assert isinstance(made, sketch.Sketch)
            found = sketch.ask(made, sketch.Density(points))
            assert (tuple(found.values), tuple(found.errors)) == (dense.get_column("value"), dense.get_column("error"))
        first, second = ana.sketch.explain(asked), ana.price_job("sketch", SPEC)
        assert first.keys() == second.keys()
        assert first["price"] == second["price"]  # what hangs on the hash functions is drawn for each plan
        here = ana.fetch(done.release, tmp_path / "sketch")
        assert open_session(everything.silo.folder).verify(tmp_path / "sketch").ok
        assert sorted(one.name for one in here.files) == sorted(
            one.name for one in (tmp_path / "sketch").iterdir() if one.name != "manifest.json"
        )
        assert owner.share_release(done.release).shared
        other = ana.ask(WARDS.replace("200", "300"), key=f"other {everything.face}").to_json()["id"]
        checked = auditor.verify(other)
        assert (checked.ok, checked.compared, checked.release) == (True, True, other)
        assert owner.delete_release(other).deleted
        house = everything.served.app.state.house
        house.store.write(
            "INSERT INTO job (id, name, token, task, spec, key, state, result, created, changed) "
            "VALUES (?, 'ana', '', 'sketch', ?, ?, 'failed', '{}', 1, 1)",
            *(f"j-{everything.face}", json.dumps(SPEC), everything.face),
        )
        assert ana.get_job(f"j-{everything.face}").error is not None
        owner.forget(f"j-{everything.face}")
        with pytest.raises(RequestError) as gone:
            ana.get_job(f"j-{everything.face}")
        assert gone.value.code == "not_found"


@pytest.mark.slow
def test_a_job_that_fails_is_an_error_with_its_class(workplace: tuple[Served, Silo, bytes]) -> None:
    with Everything(*workplace, "blocking").as_("ana") as ana:
        job = ana.start("sketch", {**SPEC, "budget": {"epsilon": "99999"}}, key="too dear")
        failed = ana.wait(job.id, progress=lambda done, steps: None)
        assert (failed.state, type(failed.error)) == ("failed", errors.BudgetExceeded), failed.result
        assert failed.error.account


def each_tasks_price_and_a_question_of_several_parts(everything: Everything, tmp_path: Path) -> None:
    with everything.as_("ana") as ana:
        for task, (kind, spec) in PRICED.items():
            assert ana.price_job(task, spec).schema == f"siloquent/{kind}/1"
        assert ana.explain("SELECT AVG(age) FROM visits ERROR 9").to_json()["steps"]


def an_owner_uploads_declares_and_checks(everything: Everything, tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("ward\nA\nB\nA\n")
    with everything.as_("owner") as owner:
        uploads = [owner.upload(tmp_path / "stays.csv"), owner.upload(b"ward\nA\n")]
        assert {one.id for one in owner.list_uploads()} >= {one.id for one in uploads}
        declared = owner.declare("stays", STAYS.replace("SOURCE", uploads[0].source))
        assert declared.name == "stays"
        tag, text = owner.get_table_document("stays").tag, STAYS.replace("SOURCE", uploads[0].source)
        assert declared.tag == tag
        assert owner.declare("stays", text.replace("size_hint = 3", "size_hint = 4"), if_match=tag).tag != tag
        for stale in ({"if_match": tag}, {"if_new": True}):
            with pytest.raises(RequestError) as raced:
                owner.declare("stays", text, **stale)
            assert raced.value.code == "precondition_failed"
        assert owner.declare("stays", text, if_match="*").tag == tag
        with pytest.raises(RequestError) as unseen:
            owner.declare("stays", text, new_epoch="the budgets add up")
        assert unseen.value.code == "precondition_required"
        again = [owner.upload(b"ward\nB\n", key=f"u {everything.face}").id for _ in range(2)]
        assert again[0] == again[1]
        assert owner.check("stays").clean
        refreshed = owner.refresh("stays", uploads[1].source)
        assert (refreshed.rows, refreshed.version, refreshed.clean) == (1, 1, True)
        assert owner.refresh("stays").rows == 1
        assert [one["table"] for one in owner.get_report("stays").tables] == ["stays"]
        with pytest.raises(RequestError) as elsewhere:
            owner.refresh("stays", "csv:/etc/passwd")
        assert elsewhere.value.code == "source_not_allowed"
        owner.delete_upload(uploads[1].id)
        assert uploads[1].id not in {one.id for one in owner.list_uploads()}
        with pytest.raises(RequestError) as named:
            owner.delete_upload(uploads[0].id)
        assert named.value.code == "conflict"
        with pytest.raises(RequestError, match="not a file"):
            owner.upload(tmp_path / "none.csv")


def an_owner_gives_and_takes_tokens(everything: Everything, tmp_path: Path) -> None:
    with everything.as_("owner") as owner:
        made = owner.create_token("cy", "analyst", tables=["visits"], days=3, key=f"cy {everything.face}")
        with pytest.raises(RequestError) as lost:
            owner.create_token("cy", "analyst", tables=["visits"], days=3, key=f"cy {everything.face}")
        assert lost.value.code == "already_made"
        assert made.token not in repr(made)
        with session_of(everything.face, everything.served.address, made.token) as cy:
            assert cy.get_person().tables == ("visits",)
            owner.revoke_token(made.id)
            with pytest.raises(NotAllowed) as ended:
                cy.get_person()
        assert ended.value.code == "unauthorised"
        first, *_ = owner.list_tokens(limit=1)
        assert made.id in {one.id for one in (first, *owner.list_tokens(after=first.id)) if one.revoked}
        assert [one.what for one in owner.list_acts() if one.subject == made.id] == ["revoke_token", "create_token"]
        with pytest.raises(UnknownName):
            owner.create_token("cy", "analyst", tables=["vists"])


def silos_and_devices(everything: Everything, tmp_path: Path) -> None:
    silo = everything.silo
    with everything.as_("owner") as owner, everything.as_("ana") as ana, everything.as_("devices") as devices:
        assert owner.get_dependencies(silo.report).protocol == "P"
        assert [owner.adopt(silo.report, "visits", ["patient -> age"]) for _ in range(2)][1] is False
        assert [one["id"] for one in ana.get_catalogue().offers] == [silo.offer]
        assert owner.get_federation().role == "north"
        waiting = silo.session if everything.face == FACES[0] else SECOND
        assert owner.get_federation_session(waiting).state == "invited"
        assert owner.decide(waiting, "approved") == "approved"
        with pytest.raises(RequestError) as again:
            owner.decide(waiting, "refused")
        assert again.value.code == "conflict"
        assert ana.list_collections() == ["walks-1"]
        taken = [devices.ingest("walks-1", everything.reports).counters for _ in range(2)]
        assert taken[1]["duplicate"] == 1_200
        assert devices.get_counters("walks-1").counters["accepted"] == 1_200
        counted = ana.estimate("walks-1", "SELECT COUNT(*) FROM walks WHERE mood = '1'")
        assert len(counted.rows[0]) == 4


STEPS = (
    an_analyst_asks_prices_and_looks_back,
    the_ledger_is_read_as_at_home,
    a_job_is_priced_followed_and_its_sketch_asked,
    each_tasks_price_and_a_question_of_several_parts,
    an_owner_uploads_declares_and_checks,
    an_owner_gives_and_takes_tokens,
    silos_and_devices,
)


@pytest.mark.slow
def test_every_operation_has_a_verb_that_does_what_the_description_says(everything: Everything, tmp_path: Path) -> None:
    for step in STEPS:
        step(everything, tmp_path)
    described = operations(everything.served.app)
    assert {name: (one.method, f"/v1{one.path}") for name, one in ROUTES.items()} == {
        name: (method, path.replace(":path", "")) for name, (method, path) in described.items()
    }
    assert set(described) - everything.sent == set(WITHOUT_A_VERB)
    assert everything.documents == {(route, kind) for route, kinds in DOCUMENTS.items() for kind in kinds}


def test_what_must_have_a_key_in_the_description_spends(everything: Everything) -> None:
    keyed = {
        operation["operationId"]
        for methods in everything.served.app.openapi()["paths"].values()
        for operation in methods.values()
        if any(one["name"] == "Idempotency-Key" and one["required"] for one in operation.get("parameters", ()))
    }
    assert keyed == {name for name, one in ROUTES.items() if one.spends}


def verbs(kind: type) -> dict[str, Any]:
    return {name: one for name, one in inspect.getmembers(kind) if not name.startswith("_")}


def test_both_faces_have_the_same_verbs_and_each_says_what_it_does() -> None:
    assert set(verbs(RemoteSession)) == set(verbs(AsyncRemoteSession))
    assert [name for name, one in verbs(RemoteSession).items() if not inspect.getdoc(one)] == []


def test_help_shows_a_verbs_own_arguments() -> None:
    import asyncio

    with session_of("blocking", "http://127.0.0.1:9", "sq_x") as session:
        assert list(inspect.signature(session.start).parameters) == ["task", "spec", "key", "max_cost"]
        assert "idempotency key" in (inspect.getdoc(session.ask) or "")
    awaited = session_of("awaited", "http://127.0.0.1:9", "sq_x")
    assert isinstance(awaited, Awaited)
    assert asyncio.iscoroutinefunction(awaited._inner.ask)
    awaited.__exit__()
