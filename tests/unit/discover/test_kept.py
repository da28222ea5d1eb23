"""Released values whose file is lost are written again free; files that say something else are told."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import siloquent as sq
from siloquent.api import Session
from siloquent.discover import DiscoveredKeys
from siloquent.discover.kept import find_domain_faults
from siloquent.errors import RequestError, UnknownName
from unit.discover.tables import TEXT, declare, open_clinic, rows

MANY = 2_000
COMMON = rows(("a", "flu", MANY), ("b", "cough", MANY))
USED = '{ name = "diagnosis", type = "category", values = { released = "visits-diagnosis" }, null = "cell" }'


def spent(session: Session) -> tuple[int, int]:
    account = session.get_account("visits").spent
    return account.amount, account.delta


def find(session: Session, **options: Any) -> DiscoveredKeys:
    found = session.discover("visits", "diagnosis", **options)
    assert isinstance(found, DiscoveredKeys)
    return found


@pytest.fixture
def clinic(tmp_path: Path) -> Session:
    """A workspace with a table file, whose values were discovered."""
    sq.create_workspace(tmp_path)
    (tmp_path / "visits.csv").write_text(
        "patient,diagnosis,cost,day,smoker\n"
        + "".join(f"p{i},{'flu' if i % 2 else 'cough'},1,2024-01-01,true\n" for i in range(MANY))
    )
    (tmp_path / "schemas" / "visits.toml").write_text(declare(table='source = "csv:visits.csv"'))
    session = sq.open(tmp_path)
    find(session, epsilon="1")
    return session


def get_file(session: Session, name: str = "visits-diagnosis") -> Path:
    return session.workspace.folder / "domains" / f"{name}.toml"


def use_values(session: Session) -> None:
    file = session.workspace.schemas / "visits.toml"
    file.write_text(file.read_text().replace(TEXT, USED))


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("options", [{"epsilon": "1"}, {"epsilon": "1", "name": "visits-diagnosis"}, {}])
def test_a_lost_file_is_written_again_free(clinic: Session, options: dict[str, str], is_used: bool) -> None:
    file, before = get_file(clinic), spent(clinic)
    text = file.read_text()
    file.unlink()
    if is_used:
        use_values(clinic)
        with pytest.raises(UnknownName, match="No released domain"):
            clinic.schema("visits")
    assert find(clinic, **options).keys == ("cough", "flu")
    assert file.read_text() == text
    assert spent(clinic) == before
    assert not find_domain_faults(clinic.workspace.folder, clinic.ledger)


def test_the_fix_of_a_lost_file_writes_it(clinic: Session) -> None:
    get_file(clinic).unlink()
    use_values(clinic)
    with pytest.raises(UnknownName) as unknown:
        clinic.schema("visits")
    call = re.search(r"session\.discover\((.*)\)", unknown.value.fix)
    assert call is not None
    table, column, name = ast.literal_eval(f"({call[1].replace('name=', '')})")
    found = find(clinic, name=name)
    assert (table, column) == ("visits", "diagnosis")
    assert found.keys == ("cough", "flu")
    assert clinic.schema("visits").domain["diagnosis"].values == ("cough", "flu")


def test_another_discovery_than_the_lost_one_is_charged(clinic: Session) -> None:
    before = spent(clinic)
    get_file(clinic).unlink()
    find(clinic, epsilon="0.9", name="other")
    assert spent(clinic) > before
    with pytest.raises(RequestError, match="budget of a discovery is missing"):
        clinic.discover("visits", "cost")


def test_a_file_that_is_there_is_no_loss(clinic: Session) -> None:
    before = spent(clinic)
    with pytest.raises(RequestError, match="already exists"):
        find(clinic, epsilon="1")
    with pytest.raises(RequestError, match="budget of a discovery is missing"):
        find(clinic)
    find(clinic, epsilon="1", name="second")
    assert spent(clinic) > before


def test_a_new_key_is_a_new_request(clinic: Session) -> None:
    before = spent(clinic)
    get_file(clinic).unlink()
    find(clinic, epsilon="1", key="another")
    assert spent(clinic) > before


def test_an_analyst_gets_nothing_of_others_back(tmp_path: Path) -> None:
    session = open_clinic(tmp_path, COMMON)
    find(session, epsilon="1")
    get_file(session).unlink()
    session.analyst = "ana"
    before = spent(session)
    find(session, epsilon="1")
    assert spent(session) > before


EDITS = {
    "a value more": ('"flu",', '"flu",\n  "one person\'s",', "1 more and 0 fewer"),
    "a value less": ('  "flu",\n', "", "0 more and 1 fewer"),
    "another column": ('column = "diagnosis"', 'column = "note"', "another table, column or order"),
    "another entry": ("seq = ", "seq = 9", "released no such values"),
    "another hash": ('hash = "', 'hash = "0', "released no such values"),
    "another ledger": ('ledger = "', 'ledger = "0', "names another ledger"),
    "no receipt": ("[release]", "[other]", "has no receipt"),
    "not TOML": ("values = [", "values = [[", "cannot be read"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_file_is_told_and_its_fix_restores_it(clinic: Session, edit: str) -> None:
    old, new, message = EDITS[edit]
    file, before = get_file(clinic), spent(clinic)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    (fault,) = find_domain_faults(clinic.workspace.folder, clinic.ledger)
    assert message in fault.sentence
    file.rename(file.with_suffix(".bad"))
    find(clinic)
    assert file.read_text() == text
    assert spent(clinic) == before


def test_check_tells_of_an_edited_file_that_the_table_uses(clinic: Session) -> None:
    use_values(clinic)
    assert "domain_changed" not in [one.kind for one in clinic.check("visits").findings]
    file = get_file(clinic)
    file.write_text(file.read_text().replace('"flu",', '"flu",\n  "made up",'))
    report = clinic.check("visits")
    assert "1 more" in next(one.sentence for one in report.findings if one.kind == "domain_changed")
    assert not report.is_clean


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('delta_events = "5e-7"', 'delta_events = "6e-8"'),
        ('delta_events = "5e-7"', 'delta_events = "9e-7"'),
        ('delta = "1e-6"', 'delta = "9e-6"'),
        ('epsilon = "4"', 'epsilon = "40"'),
    ],
)
def test_a_key_gives_the_release_whatever_the_budget_says_now(clinic: Session, old: str, new: str) -> None:
    first = find(clinic, epsilon="0.5", delta="1e-9", name="keyed", key="monday")
    before = spent(clinic)
    file = clinic.workspace.schemas / "visits.toml"
    file.write_text(file.read_text().replace(old, new))
    clinic.set_budget("visits")
    for _ in range(2):
        assert find(clinic, epsilon="0.5", delta="1e-9", name="keyed", key="monday").keys == first.keys
    assert spent(clinic) == before


def test_an_open_charge_is_finished_as_it_was_planned(clinic: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError("the power is gone")

    prepared = clinic.discover.prepare("visits", "diagnosis", epsilon="0.5", name="late", key="monday")
    with monkeypatch.context() as patched:
        patched.setattr("siloquent.discover.task.measure", fail)
        with pytest.raises(OSError, match="power"):
            clinic.discover("visits", "diagnosis", epsilon="0.5", name="late", key="monday")
    before = spent(clinic)
    file = clinic.workspace.schemas / "visits.toml"
    file.write_text(file.read_text().replace('delta = "1e-6"', 'delta = "9e-6"'))
    clinic.set_budget("visits")
    found = find(clinic, epsilon="0.5", name="late", key="monday")
    assert found.keys == ("cough", "flu")
    assert found.guarantee.rho == prepared.plan.price
    assert spent(clinic) == before


@pytest.mark.parametrize("null", ['"cell"', '"drop"', '{ value = "flu" }', '{ value = "never" }'])
def test_the_line_to_paste_keeps_what_null_means(tmp_path: Path, null: str) -> None:
    values = '["flu", "never"]'
    column = f'{{ name = "diagnosis", type = "category", values = {values}, other = "cell", null = {null} }}'
    found = find(open_clinic(tmp_path, COMMON, diagnosis=column), epsilon="1")
    assert 'other = "cell"' in found.declaration
    assert f"null = {null if 'never' not in null else chr(34) + 'drop' + chr(34)} }}" in found.declaration


def test_after_new_rows_the_same_discovery_measures_them(clinic: Session) -> None:
    folder = clinic.workspace.folder
    (folder / "new.csv").write_text((folder / "visits.csv").read_text().replace("flu", "cold"))
    clinic.refresh("visits", folder / "new.csv")
    (folder / "domains" / "visits-diagnosis.toml").unlink()
    before = spent(clinic)
    assert find(clinic, epsilon="1").keys == ("cold", "cough")
    assert spent(clinic) > before
