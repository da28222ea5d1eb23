"""The demo of a collection: two apps, 60,000 phones that report only noisy values, and averages with error bars."""

from __future__ import annotations

COLLECT_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A third way, for data that nobody should hold at all: two apps' users report for themselves.\n"
        "First a public document: what each telephone will send, and how accurate the answers will be.",
        ("collect", "design", "data/apps.toml", "--users", "60000"),
    ),
    (
        "Nobody has to trust that document: its whole numbers prove what one user's reports can tell at most.",
        ("collect", "check", "apps-1"),
    ),
    (
        "60,000 telephones make their reports, each from its own rows. All reports have the same length.",
        ("collect", "perturb", "apps-1", "data/devices.jsonl", "--memory", "data/sent.json", "-o", "monday.bin"),
    ),
    ("The collector takes them in.", ("collect", "ingest", "apps-1", "monday.bin")),
    (
        "Sent twice by a flaky network? A second report of a user is refused, and counted.",
        ("collect", "ingest", "apps-1", "monday.bin"),
    ),
    (
        "How long do people of each age walk? Asked over both apps; the answer costs nothing.",
        (
            "collect",
            "estimate",
            "apps-1",
            "SELECT age, AVG(minutes) FROM walks JOIN profile USING (user) GROUP BY age",
        ),
    ),
    (
        "A question that nobody thought of when the reports were sent.",
        (
            "collect",
            "estimate",
            "apps-1",
            "SELECT COUNT(*) FROM walks JOIN profile USING (user) WHERE mood IN (4, 5) AND age < 60",
        ),
    ),
)
