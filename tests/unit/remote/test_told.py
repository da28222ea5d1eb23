"""Documents of a server: typed fields, or one refusal; never a crash, never a value of another type."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError
from siloquent.privacy import Cost
from siloquent.remote import documents
from siloquent.remote.answers import RemoteExplanation
from siloquent.remote.api_document import ApiDocument, read_list
from siloquent.remote.documents import Job, NewToken, Release, Upload
from siloquent.remote.verbs.tables import build_account

KINDS = [
    one
    for one in vars(documents).values()
    if isinstance(one, type) and issubclass(one, ApiDocument) and one is not ApiDocument
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
JOB: dict[str, Any] = {
    "id": "j-1", "name": "ana", "task": "synth", "spec": {}, "state": "done", "done": 3, "steps": 3,
    "result": {"release": "r-1"}, "created": 1, "changed": 2,
}  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_whatever_a_server_tells_is_typed_or_refused(kind: type[ApiDocument], data: st.DataObject) -> None:
    names = [one.name for one in kind.FIELDS]
    document = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(names, VALUES)) | VALUES)
    try:
        told = kind(document)
    except RequestError:
        return
    assert repr(told).startswith(kind.__name__)
    assert told.to_json() == document
    for name in names:
        getattr(told, name)


def test_a_document_is_read_by_field_and_by_name() -> None:
    job = Job(JOB)
    assert (job.state, job["state"], job.has_ended, job.release) == ("done", "done", True, "r-1")
    assert repr(job) == "Job(id='j-1', task='synth', state='done', done=3, steps=3)"
    assert job == Job(dict(JOB))
    assert dict(job) == JOB
    with pytest.raises(AttributeError):
        job.nothing  # noqa: B018
    with pytest.raises(KeyError):
        job["nothing"]


@pytest.mark.parametrize(
    "name", [one.name for one in Job.FIELDS if one.name not in ("result", "account", "cost", "cancelled_by")]
)
def test_a_field_that_is_missing_or_of_another_type_is_named(name: str) -> None:
    for wrong in ({key: one for key, one in JOB.items() if key != name}, {**JOB, name: object()}):
        with pytest.raises(RequestError, match=f"at '{name}'"):
            Job(wrong)


def test_what_a_later_server_adds_is_kept() -> None:
    assert Job({**JOB, "colour": "red"})["colour"] == "red"


def test_a_token_is_in_no_representation() -> None:
    made = NewToken({"id": "1", "name": "ana", "role": "analyst", "tables": [], "expires": 1, "token": "sq_secret"})
    assert "sq_secret" not in repr(made)


@pytest.mark.parametrize("document", [{}, {"uploads": 5}, {"uploads": [5]}, {"uploads": [{}]}])
def test_a_list_that_is_none_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="Upload"):
        read_list(Upload, document, "uploads")


def test_files_of_a_release_are_values_too() -> None:
    file = {"name": "a.csv", "sha256": "0" * 64}
    release = Release({"id": "r-1", "task": "explore", "table": "t", "files": [file]})
    assert release.files[0].name == "a.csv"


def test_an_explanation_is_its_document() -> None:
    told = RemoteExplanation(
        {"cost": {"rho": "0.5"}, "account": "a", "left_before": "1", "left_after": None, "notes": []}
    )
    assert (told.symbol, float(told.price), told.left_after) == ("rho", 0.5, None)


ACCOUNT: dict[str, Any] = {
    "name": "visits@1", "parent": None, "accountant": "pure", "unit": "row", "adjacency": "add-remove",
    "limit": "2.5", "delta_limit": "0", "spent": "0.5", "delta_spent": "0", "successor": None,
}  # fmt: skip


def test_an_account_is_told_in_whole_units() -> None:
    told = build_account(ACCOUNT)
    assert (told.limit, told.spent) == (Cost(2_500_000_000), Cost(500_000_000))
    assert build_account({**ACCOUNT, "accountant": "zcdp"}).limit == Cost(2_500_000_000_000)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, None) for name in ACCOUNT]
    + [("accountant", "renyi"), ("accountant", ["pure"]), ("accountant", 3), ("limit", "much"), ("limit", ["1"])]
    + [("spent", "nan"), ("delta_limit", "1e999999999"), ("delta_spent", {})],
)
def test_an_account_of_a_server_of_another_version_is_refused_with_what_helps(name: str, value: object) -> None:
    told = {key: one for key, one in ACCOUNT.items() if key != name}
    if value is not None:
        told[name] = value
    with pytest.raises(RequestError, match="account cannot be read") as refused:
        build_account(told)
    assert refused.value.fix == "pip install --upgrade siloquent"
