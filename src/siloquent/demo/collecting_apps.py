"""Generated rows of two apps on users' devices: a profile each, and none to four walks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

USERS = 60_000
REGIONS = ("coast", "delta", "dunes", "forest", "gorge", "heath", "hills", "lakes", "marsh", "moor", "plain", "ridge")
WALKS = 4
BRISK, SLOW, SPREAD = 55.0, 36.0, 14.0
"""Mean minutes of a walk below the age of 60 and from 60 on, and their spread."""

MEASURED = 'use = "measure"'

APPS = f"""\
# Two apps of one maker. Nobody's age, region or walks ever leave the telephone.
format = 1
name = "apps"
epoch = 1
epsilon = "4"                                # of one user, everything in both apps together
client = "coordinated"                       # one program sees both apps of a user and sends one report

[[service]]
name = "profile"
everyone = true                              # every user has exactly one
attribute = [
  {{ name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = {{ value = 0 }}, resolution = 5 }},
  {{ name = "region", type = "category", values = {json.dumps(list(REGIONS))}, other = "cell", null = "cell" }},
]

[[service]]
name = "walks"
per_user = {WALKS}
attribute = [
  {{ name = "minutes", type = "integer", lo = 0, hi = 119, outside = "clamp", null = "drop", {MEASURED} }},
  {{ name = "mood", type = "integer", lo = 1, hi = 5, outside = "clamp", null = "drop" }},
]
"""


def add_apps(workspace: Path, *, seed: int, users: int = USERS) -> None:
    """Write the declaration, and the data of each device as a line of JSON, into a workspace's folder."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, users)
    region = rng.integers(0, len(REGIONS), users)
    walks = rng.integers(0, WALKS + 1, users)
    minutes = np.rint(np.where(age < 60, BRISK, SLOW)[:, None] + rng.normal(0, SPREAD, (users, WALKS)))
    minutes = np.clip(minutes, 0, 119).astype(int)
    mood = rng.integers(1, 6, (users, WALKS))
    (workspace / "data" / "apps.toml").write_text(APPS, encoding="utf-8")
    # Generated phones have a budget store of their own: the account's is for real users.
    (workspace / "data" / "sent.json").write_text("{}", encoding="utf-8")
    with (workspace / "data" / "devices.jsonl").open("w", encoding="utf-8") as file:
        for user in range(users):
            own = [{"minutes": int(minutes[user, walk]), "mood": int(mood[user, walk])} for walk in range(walks[user])]
            profile = [{"age": int(age[user]), "region": REGIONS[region[user]]}]
            file.write(json.dumps({"user": f"u{user:05d}", "rows": {"profile": profile, "walks": own}}) + "\n")
