"""Releases are made by rules that have numbers: what changes a byte of them takes the next number.

Each kept measurement of an earlier revision is made into a release by this version, and its parts are digested: the
numbers that follow from the measurement (fit), and the words and layout around them (rendering).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from siloquent.releases import read_manifest
from siloquent.releases.arrays import unpack
from siloquent.releases.kept import walk_leaves
from siloquent.releases.rules import RULES
from unit.releases.earlier import list_tasks, make_again, restore_workspace

PINNED: dict[str, dict[str, tuple[int, str]]] = {
    "r-000003": {"fit": (1, "515cfda39b90dddb"), "rendering": (1, "310aa09837f330dd")},
    "r-000005": {"fit": (1, "e33ae680ee76c076"), "rendering": (1, "46509d1c36698071")},
    "r-000007": {"fit": (1, "a3bbb7c3a694facc"), "rendering": (1, "35c6d90895c3c348")},
    "r-000009": {"fit": (1, "f686d9daefff8339"), "rendering": (1, "0a272760b008f68c")},
    "r-000013": {"fit": (1, "d9f7a3f60547659c"), "rendering": (1, "51bc04597f269951")},
    "r-000015": {"fit": (1, "7d88a39aa505f222"), "rendering": (2, "7ebf1af0c62755a1")},
    "r-000017": {"fit": (1, "3c326e348917aaa6"), "rendering": (1, "5cc401d2834eb4a3")},
    "r-000019": {"fit": (1, "02f59abb81164607"), "rendering": (1, "a962b524a8ef8db8")},
    "r-000021": {"fit": (1, "135a51e7159295d2"), "rendering": (1, "697942406e3eb26f")},
}


def list_parts(release: Path) -> dict[str, list[Any]]:
    """The parts of a release that follow from each kind of rule, as values that JSON can hold."""
    plain = json.loads((release / "manifest.json").read_text())
    fit: list[Any] = []
    rendering: list[Any] = [{name: value for name, value in plain.items() if name not in ("package", "files")}]
    for file in sorted(plain["files"], key=lambda file: str(file["name"])):
        path = release / file["name"]
        rendering.append({name: value for name, value in file.items() if name not in ("sha256", "rules")})
        if path.suffix == ".parquet":
            table = pyarrow.parquet.read_table(path)
            fit.append([column.to_pylist() for column in table.columns])
            rendering.append([[field.name, str(field.type)] for field in table.schema])
        elif path.suffix == ".npz":
            arrays, words = unpack(path.read_bytes(), (".*",))
            fit.append([[name, *map(round_figure, arrays[name].ravel().tolist())] for name in sorted(arrays)])
            rendering.append(words)
        elif path.suffix == ".json":
            values = list(walk_leaves(json.loads(path.read_text())))
            fit.append([[place, round_figure(one)] for place, one in values if isinstance(one, int | float)])
            rendering.append([[place, one] for place, one in values if not isinstance(one, int | float)])
        else:
            rendering.append(path.read_text())
    return {"fit": fit, "rendering": rendering}


def round_figure(value: Any) -> Any:
    """A real number to four digits: processors differ in the last ones."""
    return float(np.format_float_scientific(value, precision=3)) if isinstance(value, float) else value


def digest(part: list[Any]) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True, default=str).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return restore_workspace(tmp_path_factory.mktemp("earlier") / "stays")


def test_every_release_is_pinned(folder: Path) -> None:
    assert list(list_tasks(folder)) == list(PINNED)


@pytest.mark.parametrize("release", PINNED)
def test_a_release_changes_under_a_new_rule_number_alone(folder: Path, release: str) -> None:
    made = make_again(folder, release)
    task = read_manifest(made).task
    for kind, part in list_parts(made).items():
        number, found = getattr(RULES[task], kind), digest(part)
        pinned = PINNED[release][kind]
        assert (number, found) == pinned, (
            f"The {kind} of a release of {task} is not that of rule {pinned[0]} any more. If that is meant, raise "
            f"{kind} of {task!r} in siloquent/releases/rules.py to {pinned[0] + 1}, so that earlier releases are not "
            f"condemned, and pin ({pinned[0] + 1}, {found!r}) for {release} here."
        )


def test_a_changed_sentence_and_a_changed_number_are_told_apart(folder: Path, tmp_path: Path) -> None:
    made = make_again(folder, "r-000015")
    before = {kind: digest(part) for kind, part in list_parts(made).items()}
    report = json.loads((made / "report.json").read_text())
    (made / "report.json").write_text(json.dumps({**report, "guarantee": "other words"}))
    worded = {kind: digest(part) for kind, part in list_parts(made).items()}
    assert (worded["fit"] == before["fit"], worded["rendering"] == before["rendering"]) == (True, False)
    (made / "report.json").write_text(json.dumps({**report, "rows": 7}))
    numbered = {kind: digest(part) for kind, part in list_parts(made).items()}
    assert (numbered["fit"] == before["fit"], numbered["rendering"] == before["rendering"]) == (False, True)
