"""Inspection of an uploaded file in a separate process with little time and memory, since it may be malicious."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from siloquent.errors import SchemaError
from siloquent.foreign import load_json
from siloquent.server.failures.problems import Refused

WAIT_SECONDS = 60


async def read_parquet_columns(file: Path) -> list[str]:
    """Return the column names of a valid Parquet file.

    Raises:
        Refused: 422, its sizes are false, or it would unpack to far more than its size.
        SchemaError: it is not a Parquet file.
    """
    told = await asyncio.to_thread(_inspect_upload, file)
    if "columns" in told:
        return [str(name) for name in told["columns"]]
    if "detail" in told:
        raise SchemaError("The file is not a readable Parquet file.", fix="upload the file again, or rewrite it")
    raise Refused(
        422, "upload_refused", "The file's metadata is false, or it would unpack to far more than its size.",
        fix="rewrite it; a file that you trust may instead be placed in the workspace's folder",
    )  # fmt: skip


def _inspect_upload(file: Path) -> dict[str, Any]:
    """Return the process's reply; empty if it was ended for taking too much time or memory."""
    command = [sys.executable, "-m", "siloquent.data.upload_inspection", str(file)]
    try:
        found = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=WAIT_SECONDS)
        told = load_json(found.stdout) if found.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        told = {}
    return told if isinstance(told, dict) else {}
