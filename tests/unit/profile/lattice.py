"""Dependencies by trying every set of columns, for tests; small tables; sessions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.trials.toy_group import ToyGroup
from siloquent.federation.channel import MemoryNetwork
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.spec import Dependency, FDReport, ProfileColumn, ProfileSpec, build_dependencies
from siloquent.profile.task import simulate
from siloquent.testing.profile import build_roster

Codes = NDArray[np.int64]


def distinct(codes: Codes, mask: int) -> int:
    """How many different values the columns of ``mask`` have; one, of no columns and at least a row."""
    chosen = codes[:, list(list_columns(mask))]
    return len({tuple(row) for row in chosen.tolist()})


def holds(codes: Codes, lhs: int, right: int) -> bool:
    return distinct(codes, lhs) == distinct(codes, lhs | 1 << right)


def exhaustive(parts: Sequence[Codes], *, most: int | None = None, empty_lhs: bool = False) -> list[FD]:
    """The minimal dependencies that hold in every one of ``parts``, by trying all."""
    columns = parts[0].shape[1]
    found: list[FD] = []
    for lhs in sorted(range(0 if empty_lhs else 1, 2**columns), key=lambda mask: (mask.bit_count(), mask)):
        if most is not None and lhs.bit_count() > most:
            continue
        for right in range(columns):
            known = any(given == right and inner & ~lhs == 0 for inner, given in found)
            if not lhs >> right & 1 and not known and all(holds(part, lhs, right) for part in parts):
                found.append((lhs, right))
    return sorted(found, key=lambda fd: (fd[1], fd[0].bit_count(), fd[0]))


def names(columns: int) -> tuple[str, ...]:
    return tuple("abcdefghijklmnop"[:columns])


def as_table(codes: Codes) -> pa.Table:
    return pa.table({name: [str(v) for v in codes[:, j]] for j, name in enumerate(names(codes.shape[1]))})


def as_dependencies(found: Sequence[FD], columns: int) -> tuple[Dependency, ...]:
    return build_dependencies(found, names(columns))


def session(
    parts: Sequence[Codes], *, workers: int = 2, group: Any = None, network: MemoryNetwork | None = None, **spec: Any
) -> FDReport:
    """A whole session in memory over ``parts``, with the small group unless another is given."""
    columns = parts[0].shape[1]
    asked = ProfileSpec("t", names(columns), **{"min_rows": 2, **spec})
    types = [ProfileColumn(name, "text") for name in names(columns)]
    return simulate(
        asked, [as_table(part) for part in parts], types, workers=workers, group=group or ToyGroup(), network=network
    )


def network(parties: int = 3, workers: int = 2, *, seed: int = 1) -> MemoryNetwork:
    return MemoryNetwork(build_roster(parties, workers), session=seed.to_bytes(32, "big"))


def random_parts(seed: int, *, parties: int = 3, columns: int = 4, rows: int = 12, values: int = 3) -> list[Codes]:
    """Random tables whose last column often depends on others, differently in each party."""
    rng = np.random.default_rng(seed)
    shift = rng.integers(0, 2, parties)
    parts = []
    for party in range(parties):
        codes = rng.integers(0, values, (rows, columns))
        codes[:, -1] = (codes[:, 0] + shift[party]) % values
        parts.append(codes)
    return parts
