"""What an analyst sees of a table over HTTP: status, headers and bodies, the same for neighbours.

Values that noise made are masked, and what is random: ids of requests and problems, hashes. What is left is compared
byte by byte. How long a slot is follows from the explanation alone, which is compared, too.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from benchmarks.sameness.compare import ASKED, MASK, REFUSED, Compared, Seen, differences
from benchmarks.sameness.tables import Pair, Side
from siloquent.server import make_app, read_settings
from siloquent.session import create_workspace

LABELS = ("groups", "predicates", "sum of groups", "budget")
_RANDOM = frozenset({"instance", "hash", "ledger", "rows", "sha256"})
_TOLD = frozenset({"x-request-id", "content-length", "date"})


def compare_over_http(chosen: Iterable[Pair], folder: Path) -> Compared:
    """Observe both sides of every pair whose rows are in a file, and compare them.

    Args:
        folder: A new one, for workspaces that are removed again.
    """
    result = Compared()
    for number, pair in enumerate(one for one in chosen if one.one.setting.in_a_file):
        seen = [observe(side, folder / f"{number}-{place}") for place, side in enumerate((pair.one, pair.other))]
        result.pairs += 1
        result.texts += len(seen[0].texts)
        for label, texts in differences(*seen).items():
            result.differences.append(f"{pair.name}: {label}: {texts[0]} / {texts[1]}")
    return result


def observe(side: Side, folder: Path) -> Seen:
    """Questions, refusals, repeats and lists over one table behind a server."""
    create_workspace(folder)
    side.write(folder)
    flags = {"rate_per_second": 1e6, "burst": 10**6, "slot_counts_ms": 1, "slot_answers_ms": 1}
    app, seen = make_app(folder, read_settings(folder, environment={}, flags=flags)), Seen(folder)
    with ThreadPoolExecutor(1) as apart:  # the caller's thread may have a loop of its own, as with a browser
        apart.submit(asyncio.run, _look(app, seen)).result()
    app.state.house.desk.close()
    app.state.house.store.close()
    shutil.rmtree(folder)
    return seen


async def _look(app: Any, seen: Seen) -> None:
    token = app.state.house.tokens.create("ana", "analyst")
    headers = {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://clinic", headers=headers) as client:
        for label, sql in ({label: str(ASKED[label]) for label in LABELS} | REFUSED).items():
            for path in ("/v1/explanations", "/v1/answers", "/v1/answers"):
                found = await client.post(path, json={"sql": sql}, headers={"Idempotency-Key": label})
                seen.texts[f"{label} {path} {len(seen.texts)}"] = str(_shown(found))
        for path in ("/v1/tables/visits", "/v1/accounts", "/v1/releases", "/v1/tables/visits/history"):
            seen.texts[path] = str(_shown(await client.get(path)))


def _shown(response: Any) -> list[Any]:
    """Status, headers and body; of rows with noise only their groups and how many they are."""
    body = response.json()
    rows = [row[0] for row in body.get("rows", [])] if response.status_code == 200 else None
    headers = {name: value for name, value in response.headers.items() if name not in _TOLD}
    return [response.status_code, headers, rows, _masked(body)]


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: MASK if key in _RANDOM else _masked(inner) for key, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list) else value
