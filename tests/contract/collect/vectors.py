"""The cases that every client must reproduce, byte by byte; run with ``tests`` on the path, this writes them."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from siloquent.collect import Client, Collection, Device, design, parse_spec

FILE = Path(__file__).with_name("vectors.json")
CASES = 200
SHOP = """
format = 1
name = "shop"
epsilon = "4"
client = "{client}"
[[service]]
name = "profile"
everyone = true
attribute = [
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = {{ value = 0 }}{alone} }},
  {{ name = "region", type = "category", values = ["a", "b"], other = "cell", null = "cell", sensitive = {hidden} }},
]
[[service]]
name = "orders"
per_user = 3
attribute = [
  {{ name = "amount", type = "real", lo = 0, hi = 12.4, grid = 0.1, outside = "clamp", null = "drop", use = "both" }},
  {{ name = "gift", type = "boolean", null = "drop" }},
  {{ name = "weight", type = "integer", lo = 0, hi = 90, outside = "clamp", null = "drop", use = "measure" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-25, outside = "drop", null = "drop" }},
]
"""


def collections() -> list[Collection]:
    """Separate and coordinated clients, with and without a public attribute and values that stand alone."""
    alone = ", alone = [0, 40, 99]"
    made = (
        ("separate", "true", ""),
        ("separate", "false", ""),
        ("coordinated", "true", ""),
        ("separate", "true", alone),
    )
    return [design(parse_spec(SHOP.format(client=one, hidden=hidden, alone=own))) for one, hidden, own in made]


def stream(seed: str) -> Any:
    """The random bytes of one case: SHA-256 of "seed:0", "seed:1", .., one behind the other."""
    state = {"data": b"", "block": 0}

    def source(count: int) -> bytes:
        while len(state["data"]) < count:  # type: ignore[arg-type]
            state["data"] += hashlib.sha256(f"{seed}:{state['block']}".encode()).digest()  # type: ignore[operator]
            state["block"] += 1  # type: ignore[operator]
        drawn, state["data"] = state["data"][:count], state["data"][count:]  # type: ignore[index]
        return drawn  # type: ignore[return-value]

    return source


def report_of(collection: Collection, case: dict[str, Any]) -> bytes:
    """What a client sends in this case."""
    device = Device(case["user"], bytes.fromhex(case["key"]), {}, source=stream(case["seed"]))
    return Client(json.loads(collection.to_json())).report(case["service"], case["rows"], device)


def _row(draw: random.Random) -> dict[str, dict[str, Any]]:
    amount = draw.choice([0, 3.25, 12.4, -1, 99, None, round(draw.uniform(0, 12.4), 2)])
    day = draw.choice(["2024-01-01", "2024-01-13", "2024-01-25", "2024-03-01", "soon", None])
    return {
        "profile": {"age": draw.choice([0, 42, 99, 120, None, 17]), "region": draw.choice(["a", "c", "far", None])},
        "orders": {
            "amount": amount,
            "gift": draw.choice([True, False, True]),
            "weight": draw.choice([0, 20, 45, 90, 7]),
            "day": day,
        },
    }


def cases() -> list[dict[str, Any]]:
    """All cases, with their reports."""
    made, draw, found = collections(), random.Random(20240229), []
    for number in range(CASES):
        at = number % len(made)
        service = draw.choice(["profile", "orders"])
        own = [_row(draw)["orders"] for _ in range(draw.choice([0, 1, 2, 3, 5]))]
        profile = [_row(draw)["profile"]]
        rows: Any = profile if service == "profile" else own
        if made[at].spec.client == "coordinated":
            rows = {"profile": profile, "orders": own}
        case = {
            "collection": at,
            "service": service,
            "user": f"u-{number}",
            "key": hashlib.sha256(f"key {number % 7}".encode()).hexdigest(),
            "seed": f"case {number}",
            "rows": rows,
        }
        found.append({**case, "report": report_of(made[at], case).hex()})
    return found


def document() -> dict[str, Any]:
    """The whole file: documents, then cases; ``bytes`` says where random bytes come from."""
    return {
        "bytes": "SHA-256 of the text seed:0, then seed:1, .., one behind the other; a word is 8 bytes, low byte first",
        "collections": [json.loads(one.to_json()) for one in collections()],
        "cases": cases(),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
