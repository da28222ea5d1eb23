"""New rows over HTTP: only from and into places that owners may name, whole or not at all, and told to analysts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from journeys.clinic import SOURCES, rows, write_source
from journeys.served import WIDE, Served, serving
from siloquent.session import create_workspace

ALL = "SELECT COUNT(*) FROM visits ERROR 60 CONFIDENCE 0.999999999"
PLACES = ("uploads/", "data/")


def clinic(folder: Path, kind: str = "csv") -> Path:
    workspace = create_workspace(folder)
    (workspace.schemas / "visits.toml").write_text(WIDE.replace("SOURCE", write_source(folder, kind)))
    return folder


def write_rows(file: Path, kind: str, table: pa.Table) -> Path:
    """Write new rows as a file of ``kind``."""
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, file)
    elif kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, file)
    else:
        import duckdb

        with duckdb.connect(str(file)) as connection:
            connection.register("rows", table)
            connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    return file


def more_rows() -> pa.Table:
    """4,500 visits."""
    return pa.concat_tables([rows(), rows().slice(0, 1_500)])


def content(folder: Path) -> dict[str, bytes]:
    """Everything in the places for sources, by name."""
    files = [one for place in PLACES for one in (folder / place).glob("*") if one.is_file()]
    return {one.name: one.read_bytes() for one in files}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_new_rows_are_a_new_version_and_earlier_answers_say_that_they_are_earlier(tmp_path: Path, kind: str) -> None:
    with serving(clinic(tmp_path / "clinic", kind)) as served, served.client("owner") as owner:
        assert "rows" not in owner.get("/v1/tables/visits").json()
        first = served.ask("ana", ALL, "monday").json()
        assert "about_rows" not in first
        if kind == "duckdb":  # uploads are CSV or Parquet; a place on the machine holds others
            write_rows(served.folder / "data" / "new.duckdb", kind, more_rows())
            source = "duckdb:data/new.duckdb#visits"
        else:
            file = write_rows(tmp_path / "new", kind, more_rows())
            source = owner.post("/v1/uploads", content=file.read_bytes()).json()["source"]
        spent = owner.get("/v1/accounts").json()
        made = owner.post("/v1/tables/visits/refresh", json={"source": source})
        assert made.status_code == 200, made.text
        assert (made.json()["rows"], made.json()["version"], made.json()["clean"]) == (4_500, 2, True)
        assert owner.get("/v1/accounts").json() == spent, "nothing is given back"

        shown = owner.get("/v1/tables/visits").json()["rows"]
        assert shown == {"version": 2, "since": made.json()["at"], "entry": made.json()["entry"]}
        again = served.ask("ana", ALL, "monday").json()
        assert again["rows"] == first["rows"]
        assert again["about_rows"]["replaced"] == made.json()["at"]
        assert re.fullmatch(r"as of 20\S+ \S+ UTC: they were replaced since", again["about_rows"]["text"])
        later = served.ask("ana", ALL, "tuesday").json()
        assert abs(int(later["rows"][0][0]) - 4_500) <= 60
        assert later["about_rows"]["since"] == made.json()["at"]
        assert later["about_rows"]["text"].startswith("version 2, since ")
        assert served.ask("ana", ALL, "tuesday").json() == later
        acts = [(one["what"], one["subject"]) for one in owner.get("/v1/acts").json()["acts"]]
        assert ("refresh_table", "visits") in acts


@pytest.mark.slow
def test_rows_that_changed_in_their_place_are_recorded_as_they_are(tmp_path: Path) -> None:
    with serving(clinic(tmp_path / "clinic")) as served, served.client("owner") as owner:
        served.ask("ana", ALL, "monday")
        write_rows(served.folder / "data" / "visits.csv", "csv", more_rows())
        made = owner.post("/v1/tables/visits/refresh", json={}).json()
        assert (made["rows"], made["version"]) == (4_500, 2)
        assert served.ask("ana", ALL, "monday").json()["about_rows"]["replaced"] == made["at"]


def test_while_nothing_is_charged_there_is_nothing_to_record(tmp_path: Path) -> None:
    with serving(clinic(tmp_path / "clinic")) as served, served.client("owner") as owner:
        source = owner.post("/v1/uploads", content=write_rows(tmp_path / "n", "csv", more_rows()).read_bytes())
        made = owner.post("/v1/tables/visits/refresh", json={"source": source.json()["source"]}).json()
        assert (made["rows"], made["entry"], made["at"]) == (4_500, 0, "")
        assert "rows" not in owner.get("/v1/tables/visits").json()


BROKEN: dict[str, Callable[[str], str]] = {
    "a column is missing": lambda text: text.replace('"ward"', '"wrad"', 1),
    "a number cannot be read": lambda text: re.sub(r'(?m)^("p[0-9]{4}"),[0-9]+', r"\1,old", text, count=3),
    "a line has too many fields": lambda text: text + "p1,3,A,5,seen,more\n",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(clinic(tmp_path_factory.mktemp("refresh") / "clinic")) as running:
        running.ask("ana", ALL, "before")
        yield running


def as_text(table: pa.Table, place: Path) -> str:
    return write_rows(place, "csv", table).read_text()


@pytest.mark.parametrize("fault", BROKEN)
def test_rows_that_do_not_fit_replace_nothing_and_the_fix_can_be_sent(
    shared: Served, tmp_path: Path, fault: str
) -> None:
    text = BROKEN[fault](as_text(more_rows(), tmp_path / "new.csv"))
    with shared.client("owner") as owner:
        source = owner.post("/v1/uploads", content=text.encode()).json()["source"]
        before, head = content(shared.folder), owner.get("/v1/ledger/head").json()
        refused = owner.post("/v1/tables/visits/refresh", json={"source": source})
        assert refused.status_code in (404, 422), refused.text
        assert content(shared.folder) == before
        assert owner.get("/v1/ledger/head").json() == head
        if fault == "a column is missing":
            return
        body = json.loads(re.search(r"POST /v1/tables/visits/refresh with (\{.*\})", refused.json()["fix"])[1])  # type: ignore[index]
        assert body == {"source": source, "despite_findings": True}
        taken = owner.post("/v1/tables/visits/refresh", json=body)
        assert (taken.status_code, taken.json()["clean"]) == (200, False)


ELSEWHERE = [
    "csv:/etc/passwd",
    "csv:uploads/../siloquent.toml",
    "csv:siloquent.toml",
    "csv:data/../ledger.sqlite",
    "csv:uploads/",
    "csv:uploads/*.csv",
    "csv:data/link.csv",
    "csv:data/none.csv",
    "uploads/none.csv",
    "postgres:clinic#visits",
    "https://example.org/rows.csv",
    "csv:data/\x00.csv",
]


@pytest.mark.parametrize("source", ELSEWHERE)
def test_no_other_file_of_the_machine_becomes_the_rows(shared: Served, source: str) -> None:
    link = shared.folder / "data" / "link.csv"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    before = content(shared.folder)
    with shared.client("owner") as owner:
        refused = owner.post("/v1/tables/visits/refresh", json={"source": source, "despite_findings": True})
        assert refused.status_code == 422, refused.text
        assert refused.json()["code"] in ("source_not_allowed", "schema_invalid")
        assert "root:" not in refused.text
    assert content(shared.folder) == before


@pytest.mark.parametrize("place", ["visits.csv", "secret/visits.csv"])
def test_a_file_outside_of_those_places_is_not_written_over(tmp_path: Path, place: str) -> None:
    folder = clinic(tmp_path / "clinic")
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / "data" / "visits.csv").rename(folder / place)
    file = folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace("csv:data/visits.csv", f"csv:{place}"))
    before = (folder / place).read_bytes()
    with serving(folder) as served, served.client("owner") as owner:
        served.ask("ana", ALL, "monday")
        new = owner.post("/v1/uploads", content=write_rows(tmp_path / "new", "csv", more_rows()).read_bytes()).json()
        refused = owner.post("/v1/tables/visits/refresh", json={"source": new["source"]})
        assert (refused.status_code, refused.json()["code"]) == (422, "source_not_allowed")
        assert (folder / place).read_bytes() == before
        line = re.match(r"(source = \S+) in the declaration", refused.json()["fix"])
        assert line is not None
        toml = file.read_text().replace(f'source = "csv:{place}"', line[1])
        assert owner.put("/v1/tables/visits", json={"toml": toml}).status_code == 200, "the fix works"
        assert abs(int(served.ask("ana", ALL, "tuesday").json()["rows"][0][0]) - 4_500) <= 60
        assert served.ask("ana", ALL, "monday").json()["about_rows"]["replaced"]
        write_rows(folder / "uploads" / f"{new['id']}.csv", "csv", rows())
        assert owner.post("/v1/tables/visits/refresh", json={}).json()["rows"] == 3_000, "in place it is anywhere"


def test_the_size_of_an_upload_whose_rows_were_replaced_is_the_new_one(tmp_path: Path) -> None:
    with serving(clinic(tmp_path / "clinic")) as served, served.client("owner") as owner:
        first, second = (
            owner.post("/v1/uploads", content=as_text(table, tmp_path / "x.csv").encode()).json()
            for table in (rows(), more_rows())
        )
        toml = WIDE.replace("SOURCE", first["source"])
        assert owner.put("/v1/tables/visits", json={"toml": toml}).status_code == 200
        made = owner.post("/v1/tables/visits/refresh", json={"source": second["source"]})
        assert made.json()["rows"] == 4_500
        sizes = {one["id"]: one["size"] for one in owner.get("/v1/uploads").json()["uploads"]}
        assert sizes[first["id"]] == sizes[second["id"]] == second["bytes"]
        assert owner.delete(f"/v1/uploads/{second['id']}").status_code == 204


@pytest.mark.parametrize("name", ["ana", "auditor", "nobody"])
def test_only_owners_replace_rows(shared: Served, name: str) -> None:
    before = content(shared.folder)
    with shared.client(name) as client:
        assert client.post("/v1/tables/visits/refresh", json={}).status_code in (401, 403)
    with shared.client("owner") as owner:
        assert owner.post("/v1/tables/nothing/refresh", json={}).status_code == 404
    assert content(shared.folder) == before
