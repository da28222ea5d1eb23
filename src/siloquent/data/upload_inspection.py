"""Inspection of a Parquet file from outside, in a separate process with few resources.

It prints a JSON object: the file's column names, or why it is not a Parquet file, or nothing if it is malicious.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from siloquent.data.sources.parquet import read_parquet_header
from siloquent.errors import DataError, SchemaError
from siloquent.foreign.process_limits import limit_cpu, limit_memory

CPU_SECONDS = 10
MEMORY_BYTES = 2 * 2**30
"""The limit on address space; a tenth of it is used as memory."""


def main(file: Path) -> int:
    """Inspect ``file`` under limits enforced by the system."""
    limit_cpu(CPU_SECONDS)
    limit_memory(MEMORY_BYTES)
    told: dict[str, Any] = {}
    try:
        told = {"columns": read_parquet_header(file)}
    except SchemaError as wrong:
        told = {"detail": wrong.detail}
    except DataError:
        pass
    sys.stdout.write(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
