"""A file that has just arrived is looked at in a process of its own, with little time and memory: it may be a trap."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from siloquent.errors import SchemaError
from siloquent.foreign import load_json
from siloquent.server.problems import Refused

WAIT_SECONDS = 60


async def read_parquet_columns(file: Path) -> list[str]:
    """The columns' names of a Parquet file that is what it says.

    Raises:
        Refused: 422, it lies, or would unpack to far more than it weighs; SchemaError: it is no Parquet file.
    """
    told = await asyncio.to_thread(_inspect_upload, file)
    if "columns" in told:
        return [str(name) for name in told["columns"]]
    if "detail" in told:
        raise SchemaError("This is no Parquet file that can be read.", fix="upload the file again, or write it anew")
    raise Refused(
        422, "upload_refused", "This file claims what it does not hold, or would unpack to far more than it weighs.",
        fix="write it anew; a file that you trust may lie in the workspace's folder instead",
    )  # fmt: skip


def _inspect_upload(file: Path) -> dict[str, Any]:
    """What the process says; nothing if it was ended, for it may take neither longer nor more."""
    command = [sys.executable, "-m", "siloquent.data.upload_inspection", str(file)]
    try:
        found = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=WAIT_SECONDS)
        told = load_json(found.stdout) if found.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        told = {}
    return told if isinstance(told, dict) else {}
