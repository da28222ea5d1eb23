"""The demo of a sketch: one charge, then a risk map and a classifier at no cost."""

from __future__ import annotations

FEATURES = ("--features", "age,bmi,systolic,glucose", "--label", "diabetic", "--bandwidth", "0.2", "--rows", "2048")
PRICE = ("--epsilon", "0.5")

SKETCH_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A second table: vital signs. The owner wants to release it once, so that anybody may ask it for years.\n"
        "The price of a sketch, and how accurate its answers will be, before any row is read.",
        ("sketch", "plan", "vitals", *FEATURES, *PRICE),
    ),
    (
        "One pass over the rows, one charge. What is kept is a table of noisy counters.",
        ("sketch", "build", "vitals", *FEATURES, *PRICE, "--key", "vitals", "--yes", "-o", "vitals-map"),
    ),
    (
        "Who is likely to be diabetic? From here on everything is free and reads no rows.",
        ("sketch", "ask", "vitals-map", "--classify", "data/people.csv"),
    ),
    (
        "Where are most people? The peaks of the density, each with its interval.",
        ("sketch", "ask", "vitals-map", "--modes", "2"),
    ),
    (
        "A map: how many people are near each age and blood sugar.",
        ("sketch", "ask", "vitals-map", "--map", "age,glucose"),
    ),
    ("What was promised about it, and its place in the ledger.", ("sketch", "show", "vitals-map")),
)
