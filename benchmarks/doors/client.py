"""A client that openapi-python-client generates from the API's description, and the tutorial's steps by it.

The generator (MIT) is found on PATH, and is no dependency of ours: ``python -m venv V && V/bin/pip install
openapi-python-client``, then ``PATH=V/bin:$PATH python -m benchmarks doors --only generated-client``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.row import Options, Row
from benchmarks.trials.served import running, token
from benchmarks.trials.soak import soak_workspace

GENERATOR = "openapi-python-client"
SCRIPT = Path(__file__).resolve().parents[1] / "peers" / "generated_client.py"
STEPS = ("me", "tables", "explain", "ask", "refusal", "job", "poll", "release")
_WARNED = re.compile(r"WARNING|Unable to process|Cannot parse")


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("generated-client"):
        yield from generated()


def generated() -> Iterator[Row]:
    """What the generator warns of, and how many of the tutorial's steps its client walks."""
    found = shutil.which(GENERATOR)
    if found is None:
        how = f"skipped: no {GENERATOR} on PATH (see benchmarks/doors/client.py)"
        yield Row("generated-client", ours=0, better="higher", unit="steps", how=how)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        workspace = soak_workspace(folder / "w")
        text = token(workspace, "ana")
        with running(workspace) as server:
            document = httpx.get(f"{server.address}/openapi.json", timeout=120).json()
            said = _generate(found, document, folder)
            walked = subprocess.run(
                [str(Path(found).resolve().parent / "python"), str(SCRIPT), server.address],
                env={**os.environ, "PYTHONPATH": str(folder), "SILOQUENT_TOKEN": text},
                capture_output=True,
                text=True,
                timeout=600,
            )
    warnings = _WARNED.findall(said)
    yield Row(
        "generated-client-warnings", ours=len(warnings), goal=0, unit="warnings", how=_last(said) if warnings else ""
    )
    steps = walked.stdout.split()
    how = f"{', '.join(steps)}{'; ' + _last(walked.stderr) if steps != list(STEPS) else ''}"
    yield Row("generated-client", ours=len(steps), goal=len(STEPS), better="higher", unit="steps", how=how)


def _generate(generator: str, document: object, folder: Path) -> str:
    """Write the client to the package ``generated`` in ``folder``; what the generator says."""
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "config.yml").write_text("post_hooks: []\n")
    words = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none"]
    done = subprocess.run(
        [generator, *words, "--config", "config.yml"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr


def _last(text: str) -> str:
    return " ".join(text.split())[-400:]
