"""A synthesis in a process of its own: peak memory and time, with what a plain install loads and nothing else."""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any


class NotInstalled(MetaPathFinder):
    """Keeps out what only the tests' extra brings: pyarrow and scikit-learn load it where it is there."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Nothing of pandas and polars is there."""
        if fullname.split(".")[0] in ("pandas", "polars"):
            raise ImportError(fullname)


def alone(folder: str, report: str) -> None:
    """A run on ``folder``/adult.arrow and a million rows; figures go to standard output."""
    sys.meta_path.insert(0, NotInstalled())
    import pyarrow as pa

    import siloquent as sq
    from siloquent.synth import Budget, SynthSpec

    sq.create_workspace(f"{folder}/w")
    schema = sq.read_schema(Path(folder, "adult.toml").read_text())
    with sq.open(f"{folder}/w") as session, pa.memory_map(f"{folder}/adult.arrow") as file:
        session.add_frame(schema, pa.ipc.open_file(file).read_all())
        asked: dict[str, Any] = {
            "budget": Budget(epsilon="1"),
            "rows": 30_162,
            "targets": ("income",),
            "report": report,
        }
        made = session.synth.synthesize(SynthSpec(table="adult", **asked))
    at_run, start = _peak(), time.process_time()
    made.model.draw(1_000_000, seed=1)
    print(json.dumps({"run": at_run, "seconds": time.process_time() - start, "million": _peak()}))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
