"""A steward brings rules in, has a table synthesised, checks it, breaks a copy by hand and has it repaired."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from siloquent.cli.app import run
from siloquent.session import create_workspace
from unit.synth.test_chain import FILE, table

RULES = "t1&t2&EQ(t1.ward,t2.ward)&IQ(t1.floor,t2.floor)\nt1&t2&GT(t1.age,t2.age)&LT(t1.days,t2.days)\n"


def document(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capfd.readouterr().out)
    return found


def test_from_rules_to_a_checked_table_and_back_after_an_edit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = create_workspace(tmp_path / "w").folder
    pyarrow.parquet.write_table(table(), folder / "v.parquet")
    (folder / "rules.ic").write_text(RULES)
    assert run(["synth", "import-dcs", str(folder / "rules.ic")]) == 0
    constraints = capfd.readouterr().out
    before, rest = FILE.split("constraint = [", 1)
    after = rest.split("]\n[table]", 1)[1]
    declared = f"{before}{constraints}[table]\nsource = 'parquet:v.parquet'{after}"
    (folder / "schemas" / "visits.toml").write_text(declared)

    words = ["--workspace", str(folder)]
    assert run(["synth", "run", "visits", "--rho", "1", "--rows", "500", "--yes", "--json", *words]) == 0
    assert document(capfd)["rows"] == 500
    (release,) = (folder / "releases").glob("r-*")
    assert run(["synth", "check", release.name, "--json", *words]) == 0
    assert document(capfd)["kept"] is True

    rows = pyarrow.parquet.read_table(release / "rows.parquet")
    edited = rows.to_pylist()
    edited[0]["floor"] = 0 if edited[0]["floor"] else 5
    pyarrow.csv.write_csv(pyarrow.Table.from_pylist(edited), folder / "edited.csv")
    assert run(["synth", "check", str(folder / "edited.csv"), "--table", "visits", "--json", *words]) == 1
    assert document(capfd)["kept"] is False
    mend = ["synth", "repair", str(folder / "edited.csv"), "--table", "visits", "-o", str(folder / "mended.csv")]
    assert run([*mend, "--json", *words]) == 0
    (change,) = document(capfd)["changes"]  # type: ignore[misc]
    assert (change["row"], change["attribute"]) == (1, "floor")
    assert pyarrow.csv.read_csv(folder / "mended.csv").to_pylist() == rows.to_pylist()
