"""Look at a Parquet file from outside, in a process of its own that may take little.

It prints a JSON object: the names of the file's columns, or why it is no Parquet file, or nothing where it is a trap.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from siloquent.data.sources.parquet import read_parquet_header
from siloquent.errors import DataError, SchemaError

CPU_SECONDS = 10
MEMORY_BYTES = 2 * 2**30
"""Of addresses; of memory a tenth of it is used."""


def main(file: Path) -> int:
    """Look at ``file`` with limits that the system keeps, whatever its readers do."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
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
