"""What is banned is found, and the library holds none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import static_bans

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "import random": "explore/plan.py",
    "from random import choice": "explore/plan.py",
    "import numpy as np\nx = np.random.normal(0, 1)": "maths/tails/distributions.py",
    "from numpy.random import laplace": "maths/tails/distributions.py",
    "import numpy as np\nrng = np.random.default_rng()": "maths/tails/distributions.py",
    "import numpy as np\nrng = np.random.default_rng(7)": "explore/measure/laplace.py",
    "import torch\nx = torch.normal(0.0, 1.0)": "sketch/measure.py",
    "import os\nword = os.urandom(8)": "ledger/chain.py",
    "from os import urandom": "ledger/chain.py",
    "import secrets": "session.py",
    "import pickle": "releases/files.py",
    "import json\njson.loads(text)": "search/results.py",
    "import tomllib": "federation/policy.py",
    "import pyarrow.parquet\npyarrow.parquet.read_table(path)": "synth/references.py",
    "from joblib import load": "releases/files.py",
    "import yaml\nyaml.load(text)": "schema/files.py",
    "import numpy as np\nnp.load(file, allow_pickle=True)": "releases/files.py",
    "import torch\ntorch.load(file)": "releases/files.py",
    "eval(text)": "schema/derived.py",
    "exec(text)": "schema/derived.py",
    "table.read_rows(['age'], permit)": "explore/estimate.py",
    "table.count_by_cell(blocks, permit)": "cli/base/screen.py",
    "table.measure_together(asked, permit)": "cli/base/screen.py",
    "table.count_units_by_key('ward', permit, keys_each=1)": "discover/task.py",
    "table.count_units_by_group(block, groups, 1, permit, groups_each=1)": "explore/estimate/assemble.py",
    "table.open_for_owner()": "api.py",
    "print(1)": "session.py",
    "raise ValueError(f'{name} is no number')": "session.py",
    "raise ValueError('add lo = .. to it')": "session.py",
    "raise ValueError('SELECT ward FROM ..')": "session.py",
    "HELP = 'one of (..) each'": "session.py",
    'def f() -> int:\n    """What f gives."""\n    return 1': "session.py",
    "try:\n    go()\nexcept Exception:\n    pass": "api.py",
    "try:\n    go()\nexcept:\n    pass": "api.py",
    "try:\n    go()\nexcept (ValueError, BaseException):\n    pass": "api.py",
}
FINE = {
    "import os\nword = os.urandom(8)": "privacy/noise/words.py",
    "import secrets  # allowed: a request key, no noise": "session.py",
    "import numpy as np\nrng = np.random.default_rng(7)": "maths/tails/distributions.py",
    "import numpy as np\ndef f(rng: np.random.Generator) -> None: ...": "explore/measure/laplace.py",
    "table.count_by_cell(blocks, permit)": "explore/measure/__init__.py",
    "table.open_for_owner()": "data/check/table.py",
    "console.print(1)": "cli/render.py",
    "raise ValueError('There is no table; it is no longer declared, and is not a view.')": "session.py",
    "raise ValueError(f'write ... for more, {low}..{high} for 0..9, and cd ../x for the folder above')": "session.py",
    'def f() -> int:\n    """Return one, however often."""\n    return 1': "session.py",
    "import numpy as np\nnp.load(file, allow_pickle=False)": "foreign/arrays.py",
    "import yaml\nyaml.safe_load(text)": "schema/files.py",
    "try:\n    go()\nexcept ValueError:\n    pass": "api.py",
    "try:\n    go()\nexcept Exception:  # allowed: a door fails closed\n    pass": "api.py",
}


@pytest.mark.parametrize(("source", "path"), PLANTED.items())
def test_a_planted_line_is_found(source: str, path: str) -> None:
    assert list(static_bans.scan_source(path, source)), source


@pytest.mark.parametrize(("source", "path"), FINE.items())
def test_a_harmless_or_marked_line_is_left_alone(source: str, path: str) -> None:
    assert [str(found) for found in static_bans.scan_source(path, source)] == []


@pytest.mark.slow
def test_the_library_holds_nothing_banned() -> None:
    assert [str(found) for found in static_bans.scan_package(ROOT / "src" / "siloquent")] == []


def test_folders_are_short_and_classes_have_names_of_their_own(tmp_path: Path) -> None:
    assert [str(found) for found in static_bans.scan_layout(ROOT / "src" / "siloquent")] == []
    for number in range(static_bans.MOST_MODULES + 1):
        (tmp_path / f"m{number}.py").write_text("class _Own: ...\n", encoding="utf-8")
    for name in ("m0.py", "m1.py"):
        (tmp_path / name).write_text("class Twice: ...\n", encoding="utf-8")
    assert [(found.path, found.line) for found in static_bans.scan_layout(tmp_path)] == [(".", 0), ("m1.py", 1)]


def test_a_mark_without_a_reason_does_not_count() -> None:
    assert list(static_bans.scan_source("session.py", "import secrets  # allowed:"))


def test_the_tree_names_no_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout to know which files are ours")
    assert [str(found) for found in static_bans.scan_text(ROOT, static_bans.tracked(ROOT))] == []


@pytest.mark.parametrize(
    "text", ["see /wo" + "rk/main", "--index https://pypi" + ".org/simple", "file:///o" + "pt/pypi"]
)
def test_a_planted_machine_name_is_found(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"fine\n{text}\n", encoding="utf-8")
    assert [(found.path, found.line) for found in static_bans.scan_text(tmp_path, [page])] == [("page.md", 2)]


HEAVY = ("opendp", "duckdb", "numba", "scipy.stats", "sklearn", "torch", "fastapi", "pyspark", "sqlalchemy")


def loaded_after(statement: str) -> list[str]:
    """The heavy modules that a fresh interpreter has loaded after ``statement``."""
    code = f"import sys\n{statement}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def test_importing_siloquent_loads_nothing_heavy() -> None:
    assert loaded_after("import siloquent") == []


def test_the_import_check_sees_a_heavy_module() -> None:
    assert loaded_after("import siloquent, sqlalchemy") == ["sqlalchemy"]
