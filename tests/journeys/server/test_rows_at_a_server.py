"""An owner at another machine refreshes rows and reads the report, in the documents and words of this machine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from journeys.clinic import rows, write_source
from journeys.documents import misfits
from journeys.served import WIDE, Served, serving
from siloquent.cli.app import run
from siloquent.session import create_workspace

ALL = "SELECT COUNT(*) FROM visits ERROR 60 CONFIDENCE 0.999999999"
BROKEN: dict[str, Callable[[str], str]] = {
    "": str,
    "a column is missing": lambda text: text.replace('"ward"', '"wrad"', 1),
    "a number cannot be read": lambda text: re.sub(r'(?m)^("p[0-9]{4}"),[0-9]+', r"\1,old", text, count=3),
    "a long line": lambda text: text + "p1,3,A,5,seen,more\n",
}


class Twins:
    """A workspace behind a server and its copy on this machine: ``say`` runs a command at both."""

    def __init__(self, served: Served, here: Path, tokens: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.served, self.here, self.tokens, self.capsys = served, here, tokens, capsys

    def run_far(self, who: str, *words: str) -> tuple[int, str, str]:
        file = self.tokens / f"{who}.token"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(self.served.texts[who])
        return self._run("--server", self.served.address, "--token-file", str(file), *words)

    def run_here(self, *words: str) -> tuple[int, str, str]:
        return self._run("--workspace", str(self.here), *words)

    def _run(self, *words: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        status = run(words)
        said = self.capsys.readouterr()
        return status, said.out, said.err

    def say(self, *words: str) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
        return self.run_far("owner", *words), self.run_here(*words)


@pytest.fixture(params=[False, True], ids=["uncharged", "charged"])
def twins(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    folder = tmp_path / "far"
    workspace = create_workspace(folder)
    (workspace.schemas / "visits.toml").write_text(WIDE.replace("SOURCE", write_source(folder, "csv")))
    with serving(folder) as served:
        if request.param:
            assert served.ask("ana", ALL, "monday").status_code == 200
        shutil.copytree(folder, tmp_path / "here")
        yield Twins(served, tmp_path / "here", tmp_path, capsys)


def hide_times(text: str) -> str:
    """Text without what differs by machine and moment: times, hashes, and the names of copies."""
    text = re.sub(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00| UTC)?", "TIME", text)
    return re.sub(r"\b[0-9a-f]{16,64}\b", "HASH", text)


def write_new(place: Path, fault: str = "") -> Path:
    pyarrow.csv.write_csv(pa.concat_tables([rows(), rows().slice(0, 1_500)]), place)
    place.write_text(BROKEN[fault](place.read_text()))
    return place


@pytest.mark.slow
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_rows_are_refreshed_and_reported_in_the_same_words(twins: Twins, tmp_path: Path, form: tuple[str, ...]) -> None:
    new = write_new(tmp_path / "new.csv")
    far, here = twins.say("refresh", "visits", str(new), *form)
    assert far[0] == here[0] == 0, (far, here)
    assert hide_times(far[1]) == hide_times(here[1])
    assert "4,500 rows" in far[1] or json.loads(far[1])["rows"] == 4_500
    assert [one for one in (twins.served.folder / "uploads").glob("*") if one.suffix == ".csv"] == [], "sent for this"
    far, here = twins.say("report", *form)
    assert far[0] == here[0] == 0
    assert hide_times(far[1]) == hide_times(here[1])
    assert not form or misfits(json.loads(far[1])) == []
    far, here = twins.say("report", "visits", "--html")
    assert hide_times(far[1]) == hide_times(here[1])
    write_new(twins.served.folder / "data" / "visits.csv")
    write_new(twins.here / "data" / "visits.csv")
    far, here = twins.say("refresh", "visits", *form)  # the source holds the new rows already
    assert (far[0], hide_times(far[1])) == (0, hide_times(here[1]))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in BROKEN if fault])
def test_rows_that_do_not_fit_are_refused_in_the_same_words_and_the_fix_is_pasted(
    twins: Twins, tmp_path: Path, fault: str
) -> None:
    new = write_new(tmp_path / "new.csv", fault)
    before = (twins.served.folder / "data" / "visits.csv").read_bytes()
    far, here = [json.loads(one[1]) for one in twins.say("refresh", "visits", str(new), "--json")]
    assert (far["code"], far["detail"]) == (here["code"], here["detail"])
    assert (twins.served.folder / "data" / "visits.csv").read_bytes() == before
    assert [one for one in (twins.served.folder / "uploads").glob("*") if one.suffix == ".csv"] == []
    for told, place in ((far, "--server"), (here, "--workspace")):
        assert (
            told["fix"].startswith("correct the file, or take it as it is: siloquent ")
            or fault == "a column is missing"
        )
        if ": siloquent " in told["fix"]:
            command = shlex.split(told["fix"].partition(": siloquent ")[2])
            assert place in command
            assert command[-2:] == [str(new), "--despite-findings"]
            assert run(command) == 0


def test_an_upload_that_the_fix_of_a_refusal_names_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows in a place of the administrator's are not replaced; the fix declares the upload as the source."""
    folder = tmp_path / "far"
    workspace = create_workspace(folder)
    text = WIDE.replace("SOURCE", write_source(folder, "csv"))
    (folder / "data" / "visits.csv").rename(folder / "visits.csv")
    (workspace.schemas / "visits.toml").write_text(text.replace("csv:data/visits.csv", "csv:visits.csv"))
    new = write_new(tmp_path / "new.csv")
    with serving(folder) as served:
        twins = Twins(served, tmp_path / "here", tmp_path, capsys)
        status, out, _ = twins.run_far("owner", "refresh", "visits", str(new), "--json")
        told = json.loads(out)
        assert (status != 0, told["code"], told["spent"]) == (True, "source_not_allowed", "nothing")
        [kept] = [one for one in (folder / "uploads").glob("*") if one.suffix == ".csv"]
        line = re.search(r'source = "csv:uploads/(\S+)"', told["fix"])
        assert line is not None, told["fix"]
        assert line[1] == kept.name
        toml = (workspace.schemas / "visits.toml").read_text().replace('source = "csv:visits.csv"', line[0])
        with served.client("owner") as owner:
            assert owner.put("/v1/tables/visits", json={"toml": toml}).status_code == 200, "the fix works"
        assert abs(int(served.ask("ana", ALL, "monday").json()["rows"][0][0]) - 4_500) <= 60


def test_who_may_not_is_refused_and_a_missing_file_or_table_is_named(twins: Twins, tmp_path: Path) -> None:
    new = write_new(tmp_path / "new.csv")
    for who in ("ana", "auditor"):
        status, _, err = twins.run_far(who, "refresh", "visits", str(new))
        assert (status, "not_allowed" in err) == (8, True), err
    assert twins.run_far("ana", "report")[0] == 8
    far, here = twins.say("report", "vists")
    assert far[0] == here[0] == 2
    assert far[2].splitlines()[1] == here[2].splitlines()[1]
    far, here = twins.say("refresh", "visits", str(tmp_path / "none.csv"))
    assert far[0] == here[0] == 2
    assert far[2].splitlines()[1] == here[2].splitlines()[1]
